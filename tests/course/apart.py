"""Work in a process of its own, which ends whatever the work does.

A learner's loop may catch every exception, sleep, or run in C; a slip may end the
interpreter or fill the memory. So each test of a learner's code runs in a fork. Its
watchdog is a thread that needs no lock of Python's (faulthandler): it writes down where
the work was and ends the process. Should that fail, the parent ends it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import IO, Any, TypeVar

T = TypeVar("T")
GRACE = 3  # seconds that the watchdog has before the parent ends the process
N_BYTES = 4 << 30  # of memory


class Ended(Exception):
    """The process ended before its work. `trace` is where it was, if that is known."""

    def __init__(self, why: str, trace: str = "") -> None:
        super().__init__(why)
        self.trace = trace


def apart(work: Callable[[], T], seconds: float | None) -> T:
    """What `work` returns, which must be picklable. Raises Ended.

    None is no limit; only such work may itself set more work apart.
    """
    if not hasattr(os, "fork"):  # Windows: no limit
        return work()
    with tempfile.TemporaryFile("w+", errors="replace") as trace:
        receiver, sender = get_context("fork").Pipe(duplex=False)
        arguments = (work, seconds, sender, trace)
        process = get_context("fork").Process(target=watched, args=arguments)
        sys.stdout.flush()  # or both print it
        process.start()
        sender.close()
        try:
            if receiver.poll(seconds and seconds + GRACE):
                result: T = receiver.recv()
                return result
            status: int | None = None
        except EOFError:
            process.join(GRACE)
            status = process.exitcode
        finally:
            process.kill()
            process.join()
        trace.seek(0)
        where = trace.read()
    if status is None or where.startswith("Timeout"):
        why = f"no end after {seconds:g} s: does a loop go on for ever?"
    elif status < 0:
        why = f"the code crashed Python ({signal.Signals(-status).name})"
    else:
        why = f"the code ended Python (status {status}): did it call exit?"
    raise Ended(why, where)


def watched(
    work: Callable[[], object], seconds: float | None, sender: Any, trace: IO[str]
) -> None:
    """The child."""
    if seconds:
        faulthandler.enable(trace)
        faulthandler.dump_traceback_later(seconds, exit=True, file=trace)
        limit_memory()
    sender.send(work())


def two_at_a_time() -> ProcessPoolExecutor:
    """For much work that is set apart. Threads would not do.

    A fork copies a lock that another thread holds, but not the thread: it waits for it
    for ever.
    """
    fork = "fork" if hasattr(os, "fork") else None
    return ProcessPoolExecutor(2, get_context(fork))


def limit_memory() -> None:
    import resource  # not on Windows

    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    if most == resource.RLIM_INFINITY or most > N_BYTES:
        resource.setrlimit(resource.RLIMIT_DATA, (N_BYTES, most))

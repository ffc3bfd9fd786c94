"""How a learner's test is run: not for ever, and each example on its own."""

from __future__ import annotations

import functools
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from telling import Calls


class Endless(BaseException):
    """A test that does not end. No Exception: hypothesis would try it once more."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise Endless after so many seconds of computing; 0 is for ever."""

    def stop(*_: Any) -> None:
        raise Endless(f"no end after {seconds} s: does a loop or a generator go on?")

    if not seconds or not hasattr(signal, "setitimer"):  # Windows has none
        yield
        return
    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, 1)  # again, if a callback ate it
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def fresh_calls(item: Any, calls: Calls) -> Iterator[None]:
    """Inside, no example of hypothesis sees the calls of the one before."""
    handle = getattr(item.obj, "hypothesis", None)
    if handle is None:
        yield
        return
    test = handle.inner_test

    @functools.wraps(test)
    def example(*arguments: Any, **keywords: Any) -> None:
        calls.clear()
        test(*arguments, **keywords)

    handle.inner_test = example
    try:
        yield
    finally:
        handle.inner_test = test

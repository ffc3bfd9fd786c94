"""How a test of unknown code is run: not for ever, and each example on its own."""

from __future__ import annotations

import functools
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # importing it takes torch, which not all have need of
    from telling import Calls


class Endless(BaseException):
    """A test that does not end. No Exception: hypothesis would try it once more."""


def patience(seconds: float) -> AbstractContextManager[None]:
    """Raise Endless after so many seconds of computing; 0 is for ever."""

    def stop() -> None:
        raise Endless(f"no end after {seconds} s: does a loop or a generator go on?")

    return alarm(seconds, stop)


@contextmanager
def alarm(seconds: float, ring: Callable[[], None]) -> Iterator[None]:
    """Call `ring` after so many seconds of computing; 0 is never."""
    if not seconds or not hasattr(signal, "setitimer"):  # Windows has none
        yield
        return
    before = signal.signal(signal.SIGVTALRM, lambda *_: ring())
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

"""A test that must end in time: a generous limit fails it instead of hanging."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Endless(BaseException):
    """Not an Exception: hypothesis would try the example once more."""


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Raise Endless inside after so many seconds, also if the code only sleeps."""
    if not hasattr(signal, "setitimer"):  # Windows has none
        yield
        return

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise Endless(f"no end after {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Stop texts: the text ends before the first of them to be complete.

A stop text may span tokens and rounds, so a piece that could be its beginning is held
back until the next pieces decide. Characters are looked at one by one: the result does
not depend on how the text was cut into pieces, so it has the distribution of the
target's own text, ended at the same place.
"""

from __future__ import annotations

from collections.abc import Collection

Piece = tuple[str, str]  # a text, and the label of the token it came with


class StopText:
    """Passes on pieces of text up to a stop text."""

    def __init__(self, stops: Collection[str]) -> None:
        self._stops = stops
        self._held: list[Piece] = []  # characters that may begin a stop text
        self.found = False

    def push(self, text: str, label: str) -> list[Piece]:
        """What is now known to stand before any stop text, character by character."""
        passed: list[Piece] = []
        for character in text:
            if not self.found:
                self._held.append((character, label))
                passed += self._release()
        return passed

    def flush(self) -> list[Piece]:
        """The text has ended: what is held back began no stop text."""
        passed, self._held = self._held, []
        return passed

    def _release(self) -> list[Piece]:
        """Those held that cannot be in a stop text; none once one is found."""
        held = "".join(character for character, _ in self._held)
        complete = [stop for stop in self._stops if held.endswith(stop)]
        kept = max(map(len, complete), default=0) or beginning(held, self._stops)
        n = len(held) - kept
        passed, self._held = self._held[:n], self._held[n:]
        if complete:
            self.found, self._held = True, []
        return passed


def beginning(text: str, stops: Collection[str]) -> int:
    """The length of the longest end of `text` that begins a stop text."""
    ends = range(len(text), 0, -1)
    return next((n for n in ends if any(s.startswith(text[-n:]) for s in stops)), 0)

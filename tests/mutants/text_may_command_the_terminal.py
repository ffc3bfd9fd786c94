"""Control characters of a model's text reach the terminal as they are.

Made by whoever prints what a model wrote: an escape sequence can hide the rest
(inference).
"""

from minispec.trace import COLOURS

REPLACES = "trace/__init__.py:Paint.__call__"
CAUGHT_BY = ["test_trace.py"]


class Paint:
    def __call__(self, text: str, fate: str) -> str:
        if not self.enabled or not text or fate not in COLOURS:
            return text
        return f"\x1b[{COLOURS[fate]}m{text}\x1b[0m"

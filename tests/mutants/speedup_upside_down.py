"""The speed-up is the target alone over speculation.

Made by whoever moves from seconds to tokens per second (inference).
"""

from minispec.commands.comparison import speed

REPLACES = "commands/comparison.py:Comparison.speedup"
CAUGHT_BY = ["test_cli.py"]


class Comparison:
    @property
    def speedup(self) -> float | None:
        fast = speed(self.speculative)
        return speed(self.autoregressive) / fast if fast else None

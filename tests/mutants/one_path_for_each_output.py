"""Of several paths to one output the last is kept, and the others' mass is lost.

Made by whoever fills a dict in a loop (inference).
"""

from collections.abc import Callable, Iterable

from minispec.exactness.enumeration import Enumeration, Path, TooManyBranches, next_path
from minispec.randomness import Randomness

REPLACES = "exactness/enumeration.py:enumerate_law"
CAUGHT_BY = ["test_exactness.py"]


def enumerate_law(
    run: Callable[[Randomness], Iterable[int]], max_branches: int = 100_000
) -> Enumeration:
    law: dict[tuple[int, ...], float] = {}
    path: Path | None = Path([])
    n_branches = 0
    while path is not None:
        n_branches += 1
        if n_branches > max_branches:
            raise TooManyBranches(f"more than {max_branches} branches: a smaller gamma")
        output = tuple(run(path))
        law[output] = path.probability
        path = next_path(path)
    if not abs(sum(law.values()) - 1) <= 1e-12:
        raise ValueError(f"sum to {sum(law.values())}, expected 1, in float64")
    return Enumeration(law, n_branches)

"""The branches' probabilities are not summed: rows that are no laws go unnoticed.

Made by whoever trusts the code under test to normalise (inference).
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
        law[output] = law.get(output, 0.0) + path.probability
        path = next_path(path)
    return Enumeration(law, n_branches)

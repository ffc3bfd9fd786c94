"""Past the limit of branches the enumeration stops, and what it has is rescaled.

Made by whoever wants an answer in any case (inference).
"""

from collections.abc import Callable, Iterable

from minispec.exactness.enumeration import Enumeration, Path, next_path
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
            break
        output = tuple(run(path))
        law[output] = law.get(output, 0.0) + path.probability
        path = next_path(path)
    total = sum(law.values()) if path else 1.0
    return Enumeration({key: prob / total for key, prob in law.items()}, n_branches)

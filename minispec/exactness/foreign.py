"""Chance that enumeration cannot follow, and how it is noticed.

All chance must come from the `Randomness` that a run is given. What is drawn elsewhere
is fixed by luck, once per run, and the distribution found would be nonsense. So it is
never reported as one:

- torch, `random` and numpy have a global generator each. If a run moves one of them,
  NotEnumerable names it.
- A generator object of the run's own (torch.Generator(), numpy.random.default_rng())
  cannot be watched. But the same decisions then lead to another output: 16 branches,
  picked at random, are run twice.

Left out: a generator object that is used in few branches only, so that these 16 may
miss it, and one that is seeded afresh in each run, which leaves nothing to chance.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

UNUSUAL_SEED = 2_718_281_828
WHAT_TO_DO = (
    "draw from the Randomness that is given, or inside torch_draws_from "
    "(exactness/torch_chance.py), which takes over torch.rand, torch.multinomial and "
    "their like; test anything else by statistics (exactness/statistics.py)"
)
NOT_REPEATABLE = (
    "the same decisions led to something else: the run draws from a generator of its "
    f"own, or keeps state from run to run; {WHAT_TO_DO}"
)


class NotEnumerable(ValueError):
    """Chance was used in a way that enumeration cannot follow."""


def global_states() -> dict[str, object]:
    """The states of the global generators, by module, for comparison."""
    numpys: Any = np.random.get_state()
    return {
        "torch": torch.get_rng_state().numpy().tobytes(),
        "random": random.getstate(),
        "numpy.random": (numpys[1].tobytes(), numpys[2:]),
    }


@contextmanager
def seeded_globals(seed: int) -> Iterator[None]:
    """Inside, the global generators start from `seed`; afterwards they are as before.

    Those of torch (on the CPU), `random` and numpy.
    """
    kept = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(kept[0])
            np.random.set_state(kept[1])


@contextmanager
def unmoved_globals() -> Iterator[Callable[[], None]]:
    """Inside, the function given raises NotEnumerable if a global generator moved.

    A run that seeds them and draws would leave them as it did the last time; so they
    start from a seed that no one else uses.
    """
    with seeded_globals(UNUSUAL_SEED):
        before = global_states()

        def check() -> None:
            now = global_states()
            moved = " and ".join(name for name in now if now[name] != before[name])
            if moved:
                raise NotEnumerable(
                    f"the run drew from the global generator of {moved}, or seeded it: "
                    f"{WHAT_TO_DO}"
                )

        yield check

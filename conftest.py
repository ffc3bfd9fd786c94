"""What pytest must know before it looks into tests/: options and profiles.

    pytest                                  the `ci` profile: the same examples each run
    pytest --hypothesis-profile thorough    1,000 fresh examples of each property
    pytest --slow                           also the tests marked `slow`
    pytest --impl=DIR -m exercise8          grade exercise 8 in DIR; without -m: all
    pytest --mistake NAME FILES             with that mistake of tests/course/ in it

The last two put an overlay (tests/course/overlay.py) in front of the package, so
neither this file nor tests/conftest.py may import it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).parent / "tests"))

from course.catalogue import EXERCISES  # noqa: E402
from course.overlay import Unusable, put_in_front  # noqa: E402

# A busy machine is no fault of the code: neither deadlines nor slow draws fail a test.
PATIENT: dict[str, Any] = {
    "deadline": None,
    "suppress_health_check": [HealthCheck.too_slow],
}
CI = PATIENT | {"derandomize": True, "max_examples": 30}
settings.register_profile("ci", **CI)
settings.register_profile("thorough", max_examples=1000, **PATIENT)
# Does anything fail? For mistakes and mutants: the first example will do.
ONE: dict[str, Any] = {"report_multiple_bugs": False}
GENERATE = [Phase.explicit, Phase.generate]
settings.register_profile("unshrunk", phases=GENERATE, **CI, **ONE)
# For a learner: one failure, the smallest, and nothing about reproducing it.
SHRINK = [*GENERATE, Phase.shrink]
settings.register_profile("learner", phases=SHRINK, print_blob=False, **CI, **ONE)
settings.load_profile("ci")  # hypothesis' own --hypothesis-profile comes later and wins

# The same sums in the same order, whatever the machine. And on a busy one, threads that
# wait for each other would make these tiny models ten times slower.
N_THREADS = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
torch.set_num_threads(max(1, int(N_THREADS)) if N_THREADS.isdecimal() else 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    add = parser.addoption
    add("--slow", action="store_true", help="run the tests marked slow as well")
    add("--impl", type=Path, metavar="DIR", help="grade the exercises in this folder")
    add("--seconds", type=float, default=30, help="for each test with --impl (30)")
    add("--grades", type=Path, metavar="FILE", help="with --impl: verdicts, as JSON")
    add("--mistake", metavar="NAME", help="put this mistake in (tests/course/mistakes)")


def pytest_configure(config: pytest.Config) -> None:
    for one in EXERCISES.values():
        config.addinivalue_line("markers", f"exercise{one.number}: {one.title}")
    folder, name = config.getoption("--impl"), config.getoption("--mistake")
    try:
        if folder:
            from course.grading import Grader

            config.pluginmanager.register(Grader(folder, config))
        elif name:
            from course.mistakes import MISTAKES

            if name not in MISTAKES:
                raise Unusable(f"no mistake has the name {name}")
            config.add_cleanup(put_in_front(MISTAKES[name].texts()).cleanup)
    except Unusable as error:
        raise pytest.UsageError(str(error)) from error

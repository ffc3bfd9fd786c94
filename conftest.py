"""What pytest must know before it looks into tests/: options and profiles.

    pytest                                  the `ci` profile: the same examples each run
    pytest --hypothesis-profile thorough    1,000 fresh examples for each property
    pytest --slow                           also the tests marked `slow`
    pytest --impl DIR                       grade the exercises in DIR
    pytest --mutant NAME FILES              with the mistake tests/mutants/NAME.py in it

This file is here because `--impl DIR` is taken for a folder of tests until the option
is known. A folder outside the project must be written `--impl=DIR`: same reason.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings

sys.path.insert(0, str(Path(__file__).parent / "tests"))

# A busy machine is no fault of the code: neither deadlines nor slow draws fail a test.
PATIENT = [HealthCheck.too_slow]
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=30,
    suppress_health_check=PATIENT,
)
settings.register_profile(
    "thorough", deadline=None, max_examples=1000, suppress_health_check=PATIENT
)
# Is it wired up at all? For the tests of the grader, which run the suite inside a test.
settings.register_profile(
    "glance",
    derandomize=True,
    deadline=None,
    max_examples=2,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
# Does anything fail? For the mutants: the first example will do.
settings.register_profile(
    "unshrunk",
    settings.get_profile("ci"),
    phases=[Phase.explicit, Phase.generate],
    report_multiple_bugs=False,
)
settings.load_profile("ci")  # hypothesis' own --hypothesis-profile comes later and wins

# The same sums in the same order, whatever the machine. And on a busy one, threads that
# wait for each other would make these tiny models ten times slower.
N_THREADS = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
torch.set_num_threads(max(1, int(N_THREADS)) if N_THREADS.isdecimal() else 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow", action="store_true", help="run the tests marked slow as well"
    )
    parser.addoption(
        "--impl",
        type=Path,
        metavar="DIR",
        help="grade the exercises in this folder; -m exercise3 grades one of them",
    )
    parser.addoption(
        "--mutant", metavar="NAME", help="put the mistake tests/mutants/NAME.py in"
    )


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--impl"):
        from grading import Grader

        config.pluginmanager.register(Grader(folder, config), "grading")
    if name := config.getoption("--mutant"):
        from grafting import UnusableFile
        from mutating import put_in_everywhere, read

        try:
            put_in_everywhere(read(name))
        except UnusableFile as error:
            raise pytest.UsageError(f"--mutant: {error}") from error

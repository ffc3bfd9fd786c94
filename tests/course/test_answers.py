"""Right answers in several idioms pass; wrong ones are told what broke, in numbers."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

import pytest

from course import answers
from course.answers import ANSWERS
from course.catalogue import EXERCISES


def run(*numbers: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, answers.__file__, *numbers]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_exercise_has_two_right_answers_and_three_wrong_ones() -> None:
    kinds = Counter((one.number, one.kind) for one in ANSWERS)
    for number in EXERCISES:
        assert kinds[number, "right"] >= 2 and kinds[number, "wrong"] >= 3
    for one in ANSWERS:
        assert one.files and bool(one.told) == (one.kind == "wrong")
        assert {*one.files} <= {*EXERCISES[one.number].files}


def test_answers_to_the_shortest_exercise_are_graded_as_they_should_be() -> None:
    done = run("9")
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_all_answers_are_graded_as_they_should_be() -> None:
    done = run()
    assert done.returncode == 0, done.stdout + done.stderr

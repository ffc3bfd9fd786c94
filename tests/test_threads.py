"""One thread or many: what the clock says, unless the user has said it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from minispec.commands import threads

from decoding import tiny

MODEL = tiny(4, seed=1, n_positions=3)  # a shorter context than the pass


@pytest.fixture
def slower(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Three threads to begin with; passes of so many seconds, by number of threads."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(3)
    measured: list[int] = []

    def set_seconds(with_one: list[float], with_three: list[float]) -> list[int]:
        left = {1: iter(with_one), 3: iter(with_three)}

        def seconds_of_pass(model: Any, n_threads: int) -> float:
            measured.append(n_threads)
            return next(left[n_threads])

        monkeypatch.setattr(threads, "seconds_of_pass", seconds_of_pass)
        return measured

    yield set_seconds


FIRST = [99.0]  # does not count
N = threads.N_PASSES


@pytest.mark.parametrize(
    "with_one, with_three, n_threads",
    [
        (FIRST + [2.0] * N, [0.0] + [3.0] * N, 1),
        ([0.0] + [3.0] * N, FIRST + [2.0] * N, 3),
        # Mostly faster, but for one long wait.
        (FIRST + [2.0] * N, FIRST + [1.0] * (N - 1) + [40.0], 1),
    ],
)
def test_what_takes_less_time_is_taken(
    slower: Any, with_one: list[float], with_three: list[float], n_threads: int
) -> None:
    measured = slower(with_one, with_three)
    threads.settle_threads(MODEL)
    assert torch.get_num_threads() == n_threads
    assert measured[::2] == [3] * (N + 1) and measured[1::2] == [1] * (N + 1)


def test_a_pass_is_timed_with_so_many_threads(slower: Any) -> None:
    assert 0 < threads.seconds_of_pass(MODEL, 1) < 60
    assert torch.get_num_threads() == 1


def test_the_user_has_the_last_word(
    slower: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert slower([0.0] * 99, [9.0] * 99) == []
    threads.settle_threads(MODEL)
    assert torch.get_num_threads() == 3


def test_one_thread_or_a_large_model_leave_nothing_to_measure(
    slower: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = slower([0.0] * 99, [9.0] * 99)
    monkeypatch.setattr(threads, "SMALL", threads.n_parameters(MODEL) - 1)
    threads.settle_threads(MODEL)
    assert torch.get_num_threads() == 3
    monkeypatch.setattr(threads, "SMALL", threads.n_parameters(MODEL))
    torch.set_num_threads(1)
    threads.settle_threads(MODEL)
    assert measured == []

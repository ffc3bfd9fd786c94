"""One thread or many: the faster, unless the user has decided."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from minispec.commands import threads
from minispec.model.gpt2 import GPT, GPTConfig

MODEL = GPT(GPTConfig(1, 1, 4, vocab_size=5, n_positions=3))  # shorter than the pass
FIRST = [99.0]  # of each kind: it does not count
N = threads.N_PASSES


@pytest.fixture
def three_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("three_threads")
@pytest.mark.parametrize(
    "with_one, with_three, n_threads",
    [
        (FIRST + [2.0] * N, [0.0] + [3.0] * N, "1 thread"),
        ([0.0] + [3.0] * N, FIRST + [2.0] * N, "3 threads"),
        # Mostly faster, but for one long wait.
        (FIRST + [2.0] * N, FIRST + [1.0] * (N - 1) + [40.0], "1 thread"),
    ],
)
def test_the_number_that_takes_less_time_is_set(
    monkeypatch: pytest.MonkeyPatch, with_one: Any, with_three: Any, n_threads: str
) -> None:
    left = {1: iter(with_one), 3: iter(with_three)}
    monkeypatch.setattr(threads, "seconds_of_pass", lambda model, n: next(left[n]))
    threads.settle_threads(MODEL)
    assert threads.n_threads() == n_threads
    assert not [*left[1], *left[3]]


@pytest.mark.usefixtures("three_threads")
def test_a_pass_is_timed_with_so_many_threads() -> None:
    assert 0 < threads.seconds_of_pass(MODEL, 2) < 60
    assert torch.get_num_threads() == 2


@pytest.mark.usefixtures("three_threads")
def test_the_environment_or_a_large_model_leave_nothing_to_measure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(threads, "faster_of", lambda *args: 1)
    with monkeypatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "3")
        threads.settle_threads(MODEL)
    monkeypatch.setattr(threads, "SMALL", MODEL.n_parameters - 1)
    threads.settle_threads(MODEL)
    assert torch.get_num_threads() == 3

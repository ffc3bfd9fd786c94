"""The benchmark: its arithmetic, and a whole run on a tiny pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from support.script_loader import load_script
from support.tiny_pairs import random_folder

from minispec.core import analysis
from minispec.core.rounds import Round
from minispec.files.pair import Pair, load_pair

benchmark = load_script("benchmark")
methods = load_script("benchmark_methods")
report = load_script("benchmark_report")
Folders = tuple[Path, Path]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    """Of two tiny models over the raw bytes."""
    make = tmp_path_factory.mktemp
    target, draft = make("target"), make("draft")
    return (
        random_folder(target, seed=1, n_positions=160),
        random_folder(draft, seed=2, n_positions=160),
    )


@pytest.fixture(scope="module")
def pair(folders: Folders) -> Pair:
    return load_pair(*folders)


def arguments(folders: Folders, *more: str) -> list[str]:
    models = ["--target", str(folders[0]), "--draft", str(folders[1])]
    return [*models, "--no-transformers", *more]


def test_a_whole_run(
    folders: Folders, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "speed.json"
    argv = arguments(folders, "--quick", "--tokens", "12", "--json", str(file))
    assert benchmark.main(argv) == 0
    out, progress = capsys.readouterr()
    figures = json.loads(file.read_text())
    assert "repeat 1 of 1" in progress
    speculative = [row for row in figures["methods"] if row["method"] == "speculative"]
    assert {(row["temperature"], row["gamma"]) for row in speculative} == {
        (temperature, gamma) for temperature in (0, 1) for gamma in (2, 4)
    }
    for row in figures["methods"]:
        assert row["tokens_per_s"] > 0 and row["method"] in out
        assert row.get("same_text") is (True if row["temperature"] == 0 else None)
    for row in speculative:
        costs = figures["costs_s"][f"{row['temperature']:g}"]
        verify, gamma = costs["verify"], row["gamma"]
        c, v = costs["draft_step"] / verify["0"], verify[str(gamma)] / verify["0"]
        expected = analysis.expected_speedup(row["acceptance_rate"], gamma, c, v)
        assert row["predicted"] == pytest.approx(expected)


def test_the_passes_of_a_shape(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["--shape", "tiny", "--repeats", "1", "--no-transformers"]
    assert benchmark.main(argv) == 0
    out = capsys.readouterr().out
    assert "tiny: 0.02 GB of float32" in out
    assert [line.split()[0] for line in out.splitlines()[-2:]] == ["plain", "packed"]
    assert out.count(" 1.00 x") >= 2 and out.rstrip().endswith("%")


@pytest.mark.slow  # importing transformers alone takes long
def test_transformers_does_the_same_work(folders: Folders, pair: Pair) -> None:
    """Its greedy texts are ours, assisted or not, and it samples that many tokens."""
    pytest.importorskip("transformers")
    prompt = torch.tensor([72, 105])
    alone = methods.minispec_methods(pair, [2])[0].decode(prompt, 12, 0.0, 0).tokens
    theirs = methods.transformers_methods(*folders, [2])
    assert len(theirs) == 2
    for method in theirs:
        assert method.decode(prompt, 12, 0.0, 0).tokens == alone
        assert len(method.decode(prompt, 12, 1.0, 0).tokens) == 12


def test_figures_are_taken_within_a_repeat_and_over_all_rounds() -> None:
    """Two repeats, the second on a machine twice as slow: the speed-up stays 2."""
    fast = methods.Method("speculative", 3, None)
    rounds = (Round((1, 1, 1), 1, (1, 2), None), Round((), 0, (3,), "length"))

    def sample(name: str, repeat: int, seconds: float, rounds: tuple = ()) -> object:
        result = [methods.Decoded((1, 2, 3), rounds)]
        return methods.Sample(name, repeat, seconds, result)

    samples = [
        sample("autoregressive", 0, 2.0),
        sample(fast.name, 0, 1.0, rounds),
        sample(fast.name, 1, 2.0, rounds),
        sample("autoregressive", 1, 4.0),
    ]
    row = report.row_of(fast, 1.0, samples)
    report.predict(row, methods.Costs(5, draft_step=0.1, verify={0: 1.0, 3: 1.2}))
    assert row["tokens_per_s"] == 2.25 and row["speedup"] == 2
    assert row["acceptance_rate"] == 0.5  # one accepted, one rejected, one not judged
    assert row["acceptance_by_position"] == (1, 0, 0)
    assert row["tokens_per_round"] == 1.5 and row["drafted_per_round"] == 1.5
    assert row["predicted"] == pytest.approx((1 + 0.5 + 0.25 + 0.125) / (0.3 + 1.2))
    assert row["predicted_by_rounds"] == pytest.approx(1.5 / (0.15 + 1.2))


def test_interleaving_runs_each_once_per_repeat_and_none_always_first() -> None:
    calls: list[tuple[str, int]] = []
    works = {name: lambda r, name=name: calls.append((name, r)) for name in "abc"}
    samples = list(methods.interleave(works, 3))
    assert [(s.name, s.repeat) for s in samples] == calls
    assert sorted(calls) == [(name, r) for name in "abc" for r in range(3)]
    assert {name for name, _ in calls[::3]} == {"a", "b", "c"}


def test_costs_leave_the_caches_as_they_were(pair: Pair) -> None:
    """Many calls over a context they would soon overflow if they did not."""
    prefix = torch.zeros(150, dtype=torch.int64)
    costs = methods.measure_costs(pair, prefix, [2, 4], temperature=1.0, repeats=5)
    assert costs.context == 150 and [*costs.verify] == [0, 2, 4]
    assert min(costs.draft_step, *costs.verify.values()) > 0


def test_too_many_tokens_are_rejected_before_the_work(folders: Folders) -> None:
    with pytest.raises(ValueError, match="of 160: give fewer --tokens"):
        benchmark.main(arguments(folders, "--tokens", "999"))

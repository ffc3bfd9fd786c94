"""The benchmark: its arithmetic, and a whole run on a tiny pair."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
import torch

from minispec import analysis, checkpoint
from minispec.gpt2 import GPTConfig

from script_loader import load_script
from strategies import tiny_gpt

benchmark = load_script("benchmark")
from benchmark_costs import Costs, measure_costs  # noqa: E402
from benchmark_figures import Results, rows_of  # noqa: E402
from benchmark_methods import Decoded, Method  # noqa: E402
from timing import Sample, interleave  # noqa: E402

from minispec.sampling import Sampling  # noqa: E402
from minispec.generation import DraftedToken, Round  # noqa: E402


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Folders of two tiny models over the raw bytes."""
    folders = []
    for name, seed in (("target", 1), ("draft", 2)):
        config = GPTConfig(1, 1, 8, vocab_size=257, n_positions=160)
        folder = tmp_path_factory.mktemp(name)
        checkpoint.save(tiny_gpt(config, seed, torch.float32), folder)
        lines = (b"%s %d\n" % (base64.b64encode(bytes([b])), b) for b in range(256))
        (folder / "bytes.tiktoken").write_bytes(b"".join(lines))
        folders.append(folder)
    return folders[0], folders[1]


def arguments(pair: tuple[Path, Path], *more: str) -> list[str]:
    """A quick run on the tiny pair, on as many threads as the other tests have."""
    return [
        *("--target", str(pair[0]), "--draft", str(pair[1]), "--quick"),
        *("--threads", str(torch.get_num_threads()), "--no-transformers", *more),
    ]


def test_a_whole_run(
    pair: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "speed.json"
    assert benchmark.main(arguments(pair, "--tokens", "12", "--json", str(file))) == 0
    out, progress = capsys.readouterr()
    figures = json.loads(file.read_text())
    assert figures["complete"] and "repeat 1 of 1" in progress
    speculative = [row for row in figures["methods"] if row["method"] == "speculative"]
    assert {(row["temperature"], row["gamma"]) for row in speculative} == {
        (temperature, gamma) for temperature in (0, 1) for gamma in (2, 4)
    }
    for row in figures["methods"]:
        assert row["tokens_per_s"] > 0
        assert row["same_text"] is (True if row["temperature"] == 0 else None)
        assert row["method"] in out
    for row in speculative:
        costs = figures["costs_s"][f"{row['temperature']:g}"]
        assert row["predicted"] == pytest.approx(
            analysis.expected_speedup(
                row["acceptance_rate"],
                row["gamma"],
                costs["draft_step"] / costs["step"],
                costs["verify"][str(row["gamma"])] / costs["step"],
            )
        )


def test_stopping_early_reports_what_was_measured(
    pair: tuple[Path, Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def stopped(works: object, repeats: int) -> object:
        for number, sample in enumerate(interleave(works, repeats)):  # type: ignore
            if number == 2:
                raise KeyboardInterrupt
            yield sample

    monkeypatch.setattr(benchmark, "interleave", stopped)
    file = tmp_path / "speed.json"
    assert benchmark.main(arguments(pair, "--tokens", "4", "--json", str(file))) == 130
    assert "partial" in capsys.readouterr().out
    figures = json.loads(file.read_text())
    assert not figures["complete"]
    assert [row["method"] for row in figures["methods"]] == [
        "autoregressive",
        "speculative",
    ]


@pytest.mark.slow  # importing transformers alone takes long
def test_transformers_does_the_same_work(pair: tuple[Path, Path]) -> None:
    """Its greedy texts are ours, assisted or not, and it samples that many tokens."""
    pytest.importorskip("transformers")
    from benchmark_methods import minispec_methods, transformers_methods

    models = checkpoint.load(pair[0]), checkpoint.load(pair[1])
    prompt = torch.tensor([72, 105])
    expected = minispec_methods(*models, [2])[0].decode(prompt, 12, 0.0, 0).tokens
    methods = transformers_methods(*pair, [2])
    assert len(methods) == 3
    for method in methods:
        assert method.decode(prompt, 12, 0.0, 0).tokens == expected
        assert len(method.decode(prompt, 12, 1.0, 0).tokens) == 12


def test_figures_are_taken_within_a_repeat_and_over_all_rounds() -> None:
    """Two repeats, the second on a machine twice as slow: the speed-up stays 2."""

    def sample(name: str, repeat: int, seconds: float, rounds: tuple = ()) -> Sample:
        return Sample(name, repeat, seconds, [Decoded((1, 2, 3), rounds)])

    fates = ("accepted", "refused", "unread")
    drafted = tuple(DraftedToken(1, 0.5, 0.5, fate) for fate in fates)  # type: ignore
    rounds = (Round(drafted, (1, 2), None), Round((), (3,), "length"))
    plain = Method("autoregressive", None, None)  # type: ignore[arg-type]
    fast = Method("speculative", 3, None)  # type: ignore[arg-type]
    costs = Costs(context=5, step=1.0, draft_step=0.1, verify={3: 1.2})
    samples = [
        sample(plain.name, 0, 2.0),
        sample(fast.name, 0, 1.0, rounds),
        sample(fast.name, 1, 2.0, rounds),
        sample(plain.name, 1, 4.0),
    ]
    row = rows_of(Results([plain, fast], {1.0: costs}, {1.0: samples}))[1]
    assert row.all_tokens_per_s == (3.0, 1.5) and row.tokens_per_s == 2.25
    assert row.speedup == 2
    assert row.acceptance_rate == 0.5  # one kept, one refused, one never looked at
    assert row.tokens_per_round == 1.5 and row.drafted_per_round == 1.5
    assert row.predicted == pytest.approx((1 + 0.5 + 0.25 + 0.125) / (0.3 + 1.2))
    assert row.predicted_by_rounds == pytest.approx(1.5 / (0.15 + 1.2))


def test_interleaving_runs_each_once_per_repeat_and_none_always_first() -> None:
    calls: list[tuple[str, int]] = []
    works = {name: lambda r, name=name: calls.append((name, r)) for name in "abc"}
    samples = list(interleave(works, 3))
    assert [(s.name, s.repeat) for s in samples] == calls
    assert sorted(calls) == [(name, r) for name in "abc" for r in range(3)]
    assert {name for name, _ in calls[::3]} == {"a", "b", "c"}


def test_costs_leave_the_caches_as_they_were(pair: tuple[Path, Path]) -> None:
    """Many calls over a context they would soon overflow if they did not."""
    models = checkpoint.load(pair[0]), checkpoint.load(pair[1])
    prefix = torch.zeros(150, dtype=torch.int64)
    costs = measure_costs(*models, prefix, [0, 2], Sampling(), repeats=2, calls=20)
    assert costs.context == 150 and set(costs.verify) == {0, 2}
    assert min(costs.step, costs.draft_step, *costs.verify.values()) > 0


@pytest.mark.parametrize(
    "more, says",
    [
        (["--target", "nowhere"], "nowhere"),
        (["--tokens", "999"], "positions"),
        (["--json", "nowhere/speed.json"], "nowhere"),
        (["--prompts", "nowhere.txt"], "nowhere.txt"),
    ],
)
def test_a_bad_input_is_one_line_and_status_2(
    pair: tuple[Path, Path],
    more: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # --quick would cut the tokens
    args = [arg for arg in arguments(pair) if arg != "--quick"]
    assert benchmark.main(args + more) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1


@pytest.mark.parametrize(
    "more", [["--gammas", "0"], ["--temperatures", "-1"], ["--tokens", "x"]]
)
def test_a_bad_option_is_status_2(more: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        benchmark.main(more)

"""`minispec compare`: what it measures, as JSON and as a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator

import pytest

from minispec.commands import compare
from minispec.commands.cli import main

Cli = Callable[..., tuple[str, str]]
KEYS = {
    float: "autoregressive_tokens_per_s speculative_tokens_per_s speedup "
    "acceptance_rate accepted_per_drafted tokens_per_target_forward temperature "
    "top_p min_p repetition_penalty",
    int: "seed repeats threads drafted judged accepted emitted target_forwards gamma "
    "max_new_tokens min_new_tokens",
    str: "autoregressive_text speculative_text autoregressive_finish_reason "
    "finish_reason drafter judge target draft prompt device dtype",
    list: "acceptance_by_position eos_ids stops",
    bool: "coupled",
    type(None): "tree top_k history",
}


def test_json_is_the_only_output_and_its_figures_agree(
    cli: Cli, pair: list[str]
) -> None:
    out, err = cli("compare", *pair, "--json", "--tokens", "30", "--repeats", "2")
    told = json.loads(out)
    assert out.count("\n") == 1 and err == ""
    expected = {name: kind for kind, names in KEYS.items() for name in names.split()}
    assert {key: type(value) for key, value in told.items()} == expected
    assert (told["emitted"], told["repeats"], told["gamma"]) == (30, 2, 4)
    assert ["--target", told["target"], "--draft", told["draft"]] == pair
    speeds = told["speculative_tokens_per_s"], told["autoregressive_tokens_per_s"]
    assert told["speedup"] == pytest.approx(speeds[0] / speeds[1])
    assert told["tokens_per_target_forward"] == 30 / told["target_forwards"]
    assert told["accepted"] < told["judged"] < told["drafted"]
    assert told["acceptance_rate"] == told["accepted"] / told["judged"]
    assert told["accepted_per_drafted"] == told["accepted"] / told["drafted"]
    shares = told["acceptance_by_position"]
    assert len(shares) == 4 and sorted(shares, reverse=True) == shares


def test_the_table_says_which_rate_is_which_and_what_to_try(
    cli: Cli, pair: list[str]
) -> None:
    """Compare runs where no command is named; options may be abbreviated."""
    options = [*pair, "--tok", "30", "--repeats", "2", "--seed", "5"]
    told = json.loads(cli(*options, "--json")[0])
    out, err = cli(*options, "--trace")
    accepted, judged, drafted = (told[n] for n in ("accepted", "judged", "drafted"))
    assert re.search(rf"rate \(alpha\) +{accepted}/{judged} = 0\.\d\d\n", out)
    assert re.search(rf"all drafted +{accepted}/{drafted} = 0\.\d\d\n", out)
    shares = " ".join(f"{share:.2f}" for share in told["acceptance_by_position"])
    assert re.search(rf"by position +{shares}\n", out)
    settings = r"gamma 4, temperature 0.8, seed 5, \d+ threads?, median of 2; two texts"
    settings += " of the same distribution\n"
    assert re.search(settings, out) and "2 runs in all" in err
    assert out.index("\nnext: ") < out.index("\nround 1: drafted 4")


def test_where_the_lengths_differ_the_table_says_so(cli: Cli, pair: list[str]) -> None:
    ids = [option for token in range(40) for option in ("--eos-id", str(token))]
    out, _ = cli("compare", *pair, "--tokens", "9", "--repeats", "1", *ids)
    found = re.search(r"\ntokens +(\d+) +(\d+)\n", out)
    assert found is not None and found[1] != found[2]
    assert "distribution; lengths differ, speeds are per token\n" in out
    assert "\n--- speculative\n" in out  # no colours, so no legend


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_at_temperature_0_both_texts_are_the_same(
    cli: Cli, pair: list[str], drafter: str
) -> None:
    command = ["compare", *pair, "--temperature", "0", "--drafter", drafter]
    out, _ = cli(*command, "--repeats", "1", "--tokens", "25")
    first, second = re.findall(r"---.*\n((?:.|\n)*?)\n\n", out)
    assert first == second and "the texts are the same" in out


@pytest.mark.parametrize(
    "options, says",
    [
        (["--tokens", "0"], "more --tokens"),
        (["--tokens", "1"], "more --tokens"),
        (["--drafter", "ngram", "--prompt", "q", "--top-k", "1"], "--drafter model"),
    ],
)
def test_what_cannot_be_divided_is_a_dash_and_the_advice_fits(
    cli: Cli, pair: list[str], options: list[str], says: str
) -> None:
    command = ["compare", *pair, "--repeats", "1", "--tokens", "2", *options]
    out, _ = cli(*command)
    assert re.search(r"rate \(alpha\) +-\n.*drafted +-\n.*position +-\n", out)
    assert out.splitlines()[-1].startswith(f"next: {says}")
    told = json.loads(cli(*command, "--json")[0])
    assert told["acceptance_rate"] is told["accepted_per_drafted"] is None


@pytest.mark.parametrize("n_rounds, complete", [(0, False), (8, False), (60, True)])
def test_interrupted_it_reports_what_is_complete(
    pair: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    n_rounds: int,
    complete: bool,
) -> None:
    rounds, done = compare.rounds_of, [0]

    def interrupted(*args: object) -> Iterator[object]:
        for one in rounds(*args):  # type: ignore[arg-type]
            if done[0] == n_rounds:
                raise KeyboardInterrupt
            done[0] += 1
            yield one

    for module in ("compare", "streaming"):
        monkeypatch.setattr(f"minispec.commands.{module}.rounds_of", interrupted)
    assert main([*pair, "--tokens", "6", "--repeats", "9", "--json"]) == 130
    out, err = capsys.readouterr()
    assert "finished of each" in err and ("nothing to compare" in err) != complete
    assert ('"speedup"' in out) == bool(out) == complete

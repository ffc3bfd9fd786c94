"""--drafter, --judge, --gamma, --tree and --coupled, in every command that decodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from minispec.commands.methods import tree_from
from minispec.files.pair import SHIPPED

from support.tiny_pairs import random_folder

Cli = Callable[..., tuple[str, str]]
GREEDY = ["--temperature", "0", "--tokens", "20", "--prompt", "abcabcab"]
EXACT = [
    "--drafter suffix",
    "--judge block",
    "--gamma history",
    "--gamma auto",
    "--gamma auto --drafter ngram",
    "--tree 2,1",
    "--tree 4",
    "--tree 4 --drafter ngram",
    "--tree 4 --drafter suffix",
]


@pytest.mark.parametrize("options", EXACT)
def test_every_exact_method_writes_the_targets_greedy_text(
    cli: Cli, pair: list[str], options: str
) -> None:
    expected, _ = cli("generate", *pair, *GREEDY, "--drafter", "none")
    out, err = cli("generate", *pair, *GREEDY, *options.split())
    assert out == expected and "lossy" not in err


@pytest.mark.parametrize("options", ["", "--drafter ngram --gamma 7", "--tree 2,2"])
def test_coupled_texts_depend_on_the_seed_alone(
    cli: Cli, pair: list[str], options: str
) -> None:
    how = [*pair, "--coupled", "--seed", "3", "--tokens", "20"]
    expected, _ = cli("generate", *how, "--drafter", "none")
    assert cli("generate", *how, *options.split())[0] == expected
    out, _ = cli("compare", *how, "--repeats", "1", *options.split())
    assert "the texts are the same" in out and "coupled" in out


@pytest.mark.parametrize("judge", ["typical", "lenient", "top-k"])
@pytest.mark.parametrize("how", ["--coupled", "--temperature 0", "--top-k 1", ""])
def test_a_judge_is_lossy_only_where_the_target_is_unsure(
    cli: Cli, pair: list[str], tmp_path: Path, judge: str, how: str
) -> None:
    options, page = [*pair, "--tokens", "16", *how.split()], tmp_path / "page.html"
    expected, _ = cli("generate", *options, "--drafter", "none")
    options += ["--judge", judge]
    out, said = cli("generate", *options)
    table, told = cli("compare", *options, "--repeats", "1")
    cli("trace", *options, "--out", str(page))
    text = page.read_text(encoding="utf-8")
    if how:
        assert out == expected and "the texts are the same" in table
        assert "lossy" not in said + told and f"{judge} (exact)" in text
    else:
        assert "lossy" in said and "lossy" in told and f"{judge} (lossy)" in text
    assert ('"certain": null' in text) == (not how)


def test_compare_names_what_it_compared(cli: Cli, pair: list[str]) -> None:
    how = ["compare", *pair, "--tokens", "8", "--repeats", "1"]
    out, err = cli(*how, "--judge", "lenient", "--gamma", "3")
    assert "model, gamma 3, judge lenient, temperature" in out
    assert "different distributions" in out and "lossy" in err
    shape = "--json", "--tree", "2,1", "--drafter", "ngram", "--coupled"
    told = json.loads(cli(*how, *shape)[0])
    names = "drafter", "judge", "coupled", "gamma", "tree", "draft"
    expected = ["ngram", "reject", True, None, [2, 1], None]
    assert [told[name] for name in names] == expected


def test_a_draft_of_another_vocabulary_drafts_too(
    cli: Cli, pair: list[str], tmp_path: Path
) -> None:
    other = ["--draft", str(random_folder(tmp_path, 3, n_words=2))]
    expected, _ = cli("generate", *pair, *GREEDY, "--drafter", "none")
    assert cli("generate", *pair, *other, *GREEDY)[0] == expected
    out, _ = cli("compare", *pair, *other, "--repeats", "1", "--tokens", "9")
    assert "\nintersection: 257 of the target's 257" in out
    out, _ = cli("compare", *pair, "--repeats", "1")
    assert "\nboth models share a vocabulary\n" in out


def test_a_history_is_what_suffix_decoding_has_read(
    cli: Cli, pair: list[str], tmp_path: Path
) -> None:
    """With the very text that will be written, all of it is drafted."""
    how = [*pair, "--temperature", "0", "--tokens", "40", "--drafter", "suffix"]
    text, _ = cli("generate", *how, "--prompt", "q")
    file = tmp_path / "history"
    file.write_text(text)
    again, err = cli("generate", *how, "--prompt", "q", "--history", str(file))
    assert again == text and "target passes: " in err
    accepted = int(err.split("accepted: ")[1].split()[0])
    assert accepted >= 20


@pytest.mark.parametrize(
    "options, says",
    [
        ("--tree 3,x", "such as 3,2,1"),
        ("--tree 0", "such as 3,2,1"),
        ("--tree 201", "at most 200 in all, got '201'"),
        ("--tree 100,101", "at most 200 in all"),
        (f"--tree {'9' * 5000}", "such as 3,2,1"),
        (f"--gamma {'9' * 5000}", "auto or history"),
        ("--gamma 1.5", "auto or history"),
        ("--tree 2,1 --judge block", "judges chains"),
        ("--tree 2,1 --drafter eagle", "drafts no trees"),
        ("--tree 4 --drafter medusa", "needs a shape"),
        ("--history x", "--drafter suffix"),
        ("--history=", "--drafter suffix"),
        ("--history - --prompt - --drafter suffix", "both be standard input"),
        ("--history - --prompt-file - --drafter suffix", "both be standard input"),
        ("--history nowhere --drafter suffix", "history file 'nowhere' (No such file"),
        ("--drafter eagle --draft nowhere", "holds no head"),
    ],
)
def test_options_that_cannot_be_met(
    fails: Callable[..., str], pair: list[str], options: str, says: str
) -> None:
    for command in ("generate", "compare", "trace"):
        assert says in fails(command, *pair, *options.split())


def test_a_tree_may_have_200_nodes() -> None:
    assert tree_from("200") == [200] and tree_from("100,99,1") == [100, 99, 1]


def test_a_head_where_a_model_is_needed_and_a_model_where_a_head_is(
    fails: Callable[..., str], pair: list[str]
) -> None:
    for option in ("--draft", "--target"):
        says = fails("generate", *pair, option, str(SHIPPED / "eagle"))
        assert "eagle is a head of kind eagle, not a model" in says
        assert "add --drafter eagle" in says
    says = fails("generate", *pair, "--drafter", "eagle")
    assert "holds no head: expected a config.json that states its kind" in says


def test_a_batch_takes_a_number_of_drafts(
    fails: Callable[..., str], pair: list[str], tmp_path: Path
) -> None:
    (tmp_path / "prompts").write_text("a\n")
    file = str(tmp_path / "prompts")
    how = ["batch", *pair, "--prompts", file, "--gamma", "auto"]
    assert "expected a whole number" in fails(*how)

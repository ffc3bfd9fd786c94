"""--drafter, --judge, --gamma, --tree and --coupled, in every command that decodes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

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
        ("--gamma 1.5", "auto or history"),
        ("--tree 2,1 --judge block", "judges chains"),
        ("--tree 2,1 --drafter eagle", "drafts no trees"),
        ("--tree 4 --drafter medusa", "needs a shape"),
        ("--history x", "--drafter suffix"),
        ("--history nowhere --drafter suffix", "history file 'nowhere' (No such file"),
        ("--drafter eagle --draft nowhere", "holds no head"),
    ],
)
def test_options_that_cannot_be_met(
    fails: Callable[..., str], pair: list[str], options: str, says: str
) -> None:
    for command in ("generate", "compare", "trace"):
        assert says in fails(command, *pair, *options.split())


def test_a_batch_takes_a_number_of_drafts(
    fails: Callable[..., str], pair: list[str], tmp_path: Path
) -> None:
    (tmp_path / "prompts").write_text("a\n")
    file = str(tmp_path / "prompts")
    how = ["batch", *pair, "--prompts", file, "--gamma", "auto"]
    assert "expected a whole number" in fails(*how)

"""The page says what the decode says; no text in it is markup, and it loads nothing."""

from __future__ import annotations

import argparse
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.cli import main, make_parser
from minispec.commands.options import request_from
from minispec.commands.streaming import Decode, run, text_of
from minispec.trace.page import render

from tiny_pairs import chain_folder, random_pair

HOSTILE = "</script><script>alert('1')</script>\"<!-- <b>&amp;\u2028{{style}}</title>"
PROMPT = ["--prompt", "abcabc"]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name two models of random weights."""
    return random_pair(tmp_path_factory)


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name one model as both; it writes abcdef and ends the text."""
    folder = str(chain_folder(tmp_path_factory.mktemp("chain"), b"abcdef", ends=True))
    return ["--target", folder, "--draft", folder, "--prompt", "ab"]


class Elements(HTMLParser):
    """Names and attributes of all elements, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] == "script" and data.strip():
            self.scripts.append(data)


def page_of(tmp_path: Path, *options: str) -> str:
    out = tmp_path / "page.html"
    assert main(["trace", *options, "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    return json.loads(Elements(page).scripts[0])


def decoded(*options: str) -> tuple[Decode, str]:
    """What `generate` decodes with these options, and its text."""
    request = request_from(make_parser().parse_args(["generate", *options]))
    decode = Decode()
    run(request, decode, speculative=True)
    return decode, text_of(request, decode)


# ------------------------------------------------------------ agreement with generate


@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--temperature", "0", "--gamma", "2"],
        ["--drafter", "ngram", "--seed", "5"],
        ["--top-k", "3", "--repetition-penalty", "1.5", "--min-tokens", "4"],
        ["--tokens", "1"],
        ["--tokens", "0"],
    ],
)
def test_the_page_holds_the_decode_of_generate(
    tmp_path: Path, pair: list[str], options: list[str]
) -> None:
    options = [*pair, *PROMPT, "--tokens", "30", *options]
    data = data_of(page_of(tmp_path, *options))
    decode, text = decoded(*options)
    assert_agree(data, decode, text, n_prompt=6)


def test_a_text_that_ends_inside_a_round(tmp_path: Path, ending: list[str]) -> None:
    """Drafts behind the EOS were judged, and are shown as what they are: unread."""
    options = [*ending, "--tokens", "30", "--gamma", "8"]
    data = data_of(page_of(tmp_path, *options))
    assert_agree(data, *decoded(*options), n_prompt=2)
    last = data["rounds"][-1]
    assert last["finish_reason"] == data["finish_reason"] == "eos"
    assert [one["fate"] for one in last["drafted"]] == 5 * ["accepted"] + 3 * ["unread"]
    assert all(one["draw"] is not None for one in last["drafted"])
    assert last["text"][-1]["text"] == "" and not last["draw"]["kept"]


def assert_agree(
    data: dict[str, Any], decode: Decode, text: str, n_prompt: int
) -> None:
    shown = "".join(p["text"] for round in data["rounds"] for p in round["text"])
    assert shown == text
    generation = decode.generation()
    assert data["totals"] == totals_of(decode)
    assert data["finish_reason"] == generation.finish_reason
    assert len(data["rounds"]) == len(decode.rounds)
    committed, kept = n_prompt, {"target": 0, "draft": 0}
    for round, told in zip(decode.rounds, data["rounds"]):
        assert_caches(told, committed, len(round.committed), kept)
        committed += len(round.committed)
        assert told["committed"] == committed
        facts = [(d.draft_prob, d.target_prob, d.fate) for d in round.drafted]
        names = ("draft_prob", "target_prob", "fate")
        assert [tuple(d[n] for n in names) for d in told["drafted"]] == facts
        assert len(told["text"]) == len(round.committed)
        assert told["draw"]["kept"] == (round.extra is not None)
        assert_draw(told)
    if data["rounds"]:
        assert data["rounds"][-1]["totals"] == data["totals"]


def assert_caches(
    told: dict[str, Any], n: int, n_committed: int, kept: dict[str, int]
) -> None:
    """Before, with all drafts, and rolled back: what `kept` says of the next round."""
    K = len(told["drafted"])
    reached = {"target": n + K, "draft": n + K - 1 if K else kept["draft"]}
    for name, lengths in told["caches"].items():
        if lengths is not None:  # copying from the text needs no cache
            after = min(reached[name], n + n_committed - 1)
            assert lengths == [kept[name], reached[name], after]
            kept[name] = after


def totals_of(decode: Decode) -> dict[str, float | None]:
    generation = decode.generation()
    return {
        "target_forwards": decode.target_forwards,
        "emitted": len(decode.tokens),
        "drafted": generation.drafted,
        "accepted": generation.accepted,
        "acceptance_rate": generation.acceptance_rate,
        "tokens_per_target_forward": generation.tokens_per_target_forward,
    }


def assert_draw(told: dict[str, Any]) -> None:
    """From the row that follows from the fates; most probable first, the drawn once."""
    draw = told["draw"]
    judged = [one for one in told["drafted"] if one["draw"] is not None]
    passed = [one["draw"] < one["ratio"] for one in judged]
    kinds = {True: "bonus" if passed else "plain", False: "residual"}
    assert draw["kind"] == kinds[all(passed)]
    assert [one["token"] for one in draw["top"] if one["drawn"]] == [draw["token"]]
    probs = [one["prob"] for one in draw["top"]]
    assert probs == sorted(probs, reverse=True)
    assert 0 < probs[-1] and sum(probs) <= 1 + 1e-6


# ------------------------------------------------------------- one file, and no markup


def test_a_hostile_prompt_stays_text(tmp_path: Path, pair: list[str]) -> None:
    options = ["--prompt", HOSTILE, "--tokens", "3", "--gamma", "2"]
    page = page_of(tmp_path, *pair, *options)
    plain = page_of(tmp_path, *pair, *PROMPT, "--tokens", "3")
    assert Elements(page).found == Elements(plain).found
    assert data_of(page)["prompt"] == HOSTILE
    assert page.count("<") == plain.count("<")


@given(st.text())
def test_any_text_comes_back_from_the_page(text: str) -> None:
    page = render({"prompt": text, "rounds": []})
    assert data_of(page) == {"prompt": text, "rounds": []}
    assert page.count("<script") == page.count("</script") == 2


def test_nothing_is_loaded(tmp_path: Path, pair: list[str]) -> None:
    page = page_of(tmp_path, *pair, *PROMPT, "--tokens", "3")
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bfetch\b|\bimport\b", page)
    for _, attributes in Elements(page).found:
        assert "src" not in attributes
        assert (attributes.get("href") or "data:").startswith("data:")
    assert "default-src 'none'" in page and "{{" not in page


def test_no_code_writes_markup() -> None:
    folder = Path(render.__code__.co_filename).parent
    for path in folder.glob("page*.js"):
        code = path.read_text(encoding="utf-8")
        assert not re.search(r"HTML|document\.write|\beval\b|Function\(", code), path


# ------------------------------------------------------------------ the command itself


def options_of(command: str) -> set[str]:
    """All options of a command."""
    parser = make_parser()
    choices = next(
        a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction)
    )
    return {o for a in choices[command]._actions for o in a.option_strings}


def test_its_options_are_those_of_generate() -> None:
    assert options_of("trace") == options_of("generate") - {"--trace"} | {"--out"}


def test_it_says_where_the_page_is(
    tmp_path: Path, pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    page_of(tmp_path, *pair, *PROMPT, "--tokens", "3", "--gamma", "2")
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'page.html'}: ") and out.count("\n") == 1
    assert not err


def test_settings_tell_no_folder(tmp_path: Path, pair: list[str]) -> None:
    page = page_of(tmp_path, *pair, *PROMPT, "--tokens", "3")
    assert all(name not in page for name in (pair[1], pair[3]))
    assert data_of(page)["settings"]["seed"] == "1"


@pytest.mark.parametrize(
    "options, says",
    [
        (["--drafter", "none"], "needs a drafter"),
        (["--out", "no/such/folder/page.html"], "there is no folder"),
        (["--out", "."], "it is a folder"),
        (["--out", "-"], "a file of its own"),
        (["--prompt", ""], "empty"),
        (["--target", "no/such/model"], "no such folder"),
    ],
)
def test_errors_are_one_line(
    pair: list[str],
    options: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["trace", *pair, *options]) == 2
    out, err = capsys.readouterr()
    assert says in err and err.count("\n") == 1 and not out


def test_a_file_that_cannot_be_written_is_one_line(
    pair: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *pair, "--tokens", "1", "--out", "/dev/full"]) == 2
    _, err = capsys.readouterr()
    assert "cannot write /dev/full" in err and err.count("\n") == 1

"""`minispec trace`: the page holds the decode of `generate`, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.commands.cli import main, make_parser
from minispec.commands.job import job_from
from minispec.commands.streaming import Decode, rounds_of
from minispec.show.page import render, totals_data
from minispec.show.terminal import fates

Output = pytest.CaptureFixture[str]
HOSTILE = "</script><script>alert('1')</script>\"<!-- <b>&amp;\u2028{{style}}</title>"


class Elements(HTMLParser):
    """Names and attributes of all elements, and the text of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.found and self.found[-1][0] in self.contents and data.strip():
            self.contents[self.found[-1][0]].append(data)


def page_of(tmp_path: Path, *options: str) -> str:
    out = tmp_path / "page.html"
    assert main(["trace", *options, "--out", str(out)]) == 0
    return out.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    return json.loads(Elements(page).contents["script"][0])


def decoded(*options: str) -> Decode:
    """What `generate` decodes with these options."""
    job = job_from(make_parser().parse_args(["generate", *options]))
    decode = Decode(job)
    decode.run(rounds_of(job, speculative=True))
    return decode


@pytest.mark.parametrize(
    "options",
    [
        "--gamma 3",
        "--temperature 0 --gamma 2",
        "--drafter ngram --seed 5",
        "--top-k 3 --repetition-penalty 1.5 --min-tokens 4",
        "--temperature 0 --stop bc",
        "--tokens 1",
        "--tokens 0",
    ],
)
@pytest.mark.parametrize("model", ["random", "ending"])
def test_the_page_holds_the_decode_of_generate(
    tmp_path: Path,
    pair: list[str],
    chain: Callable[..., list[str]],
    options: str,
    model: str,
) -> None:
    models = pair if model == "random" else chain("abcdef", ends=True)
    argv = [*models, "--prompt", "abcabca", "--tokens", "30", *options.split()]
    data, decode = data_of(page_of(tmp_path, *argv)), decoded(*argv)
    pieces = [piece["text"] for one in data["rounds"] for piece in one["text"]]
    assert "".join(pieces) == decode.text
    assert data["finish_reason"] == decode.finish_reason
    assert data["totals"] == totals_data(decode.generation)
    by_position = decode.generation.acceptance_by_position
    assert data["acceptance_by_position"] == list(by_position)
    n = 7
    for one, told in zip(decode.rounds, data["rounds"], strict=True):
        assert told["caches"]["target"][1] == n + len(one.tokens)
        assert (told["caches"]["draft"] is None) == ("ngram" in options)
        n += len(one.committed)
        assert told["committed"] == n and len(told["text"]) == len(one.committed)
        assert [draft["fate"] for draft in told["drafted"]] == fates(one)
        assert told["draw"]["kept"] == (one.extra is not None)
        assert_tries(told)
    if data["rounds"]:
        assert data["rounds"][-1]["totals"] == data["totals"]
        assert data["rounds"][-1]["finish_reason"] == decode.finish_reason


def test_a_stop_text_ends_the_path_through_a_tree(
    tmp_path: Path, chain: Callable[..., list[str]]
) -> None:
    options = "--prompt abcdefabzzab --drafter ngram --tree 8 --stop cd"
    argv = [*chain("abcdef"), *options.split()]
    data, decode = data_of(page_of(tmp_path, *argv)), decoded(*argv)
    (told,), (one,) = data["rounds"], decode.rounds
    assert (told["path"], one.committed) == ([4, 5], (*b"cd",))
    assert [draft["fate"] for draft in told["drafted"]] == fates(one)
    assert fates(one).count("accepted") == 2 and one.extra is None
    assert data["finish_reason"] == "stop" and decode.text == ""


def assert_tries(told: dict[str, Any]) -> None:
    """One draft after another, up to a rejection; the token drawn stands once."""
    draw, drafted, passed = told["draw"], told["drafted"], list[bool]()
    for i, one in enumerate(told["tries"]):
        (about,) = (bar for bar in one["picture"]["bars"] if bar["about"])
        assert (one["node"], about["token"]) == (i, drafted[i]["token"])
        passed.append(one["draw"] < one["chance"])
    assert passed == [one["passed"] for one in told["tries"]]
    assert all(passed[:-1]) and (len(passed) == len(drafted) or not passed[-1])
    full = "bonus" if passed else "plain"
    assert draw["kind"] == (full if all(passed) else "residual")
    bars = draw["picture"]["bars"]
    assert [bar["token"] for bar in bars if bar["about"]] == [draw["token"]]
    probs = [bar["prob"] for bar in bars]
    assert probs == sorted(probs, reverse=True)
    assert 0 < probs[-1] and sum(probs) <= 1 + 1e-6


# -------------------------------------------------------------- one file, and no markup


@given(st.text() | st.just(HOSTILE))
def test_any_text_stays_text(text: str) -> None:
    page, plain = render({"prompt": text, "rounds": []}), render({"rounds": []})
    assert data_of(page) == {"prompt": text, "rounds": []}
    assert Elements(page).found == Elements(plain).found
    assert page.count("<") == plain.count("<")


def test_nothing_is_loaded_and_only_its_own_script_runs() -> None:
    page = render({})
    assert not re.search(r"https?:|//[a-z]|url\(|@import|\bfetch\b|\bimport\b", page)
    elements = Elements(page)
    for _, attributes in elements.found:
        assert "src" not in attributes and "style" not in attributes
        assert not any(name.startswith("on") for name in attributes)
        assert (attributes.get("href") or "data:").startswith("data:")
    policy = next(a["content"] or "" for _, a in elements.found if "http-equiv" in a)
    assert "default-src 'none'" in policy and "unsafe" not in policy
    for kind, contents in elements.contents.items():
        digest = hashlib.sha256(contents[-1].encode()).digest()
        assert f"{kind}-src 'sha256-{base64.b64encode(digest).decode()}'" in policy
    for path in Path(render.__code__.co_filename).parent.glob("page*.js"):
        code = path.read_text(encoding="utf-8")
        assert not re.search(r"HTML|document\.write|\beval\b|Function\(", code), path


def test_a_name_of_a_file_is_no_command_to_the_terminal(
    tmp_path: Path, pair: list[str], capsys: Output
) -> None:
    folder = tmp_path / "red\x1b[31m\u202e"
    folder.mkdir()
    page_of(folder, *pair, "--tokens", "2")
    out, _ = capsys.readouterr()
    assert r"red\x1b[31m\u202e" in out and out[:-1].isprintable()


def test_the_page_replaces_another_only_when_it_is_whole(
    tmp_path: Path, pair: list[str], capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And it tells no folder: it may be passed on."""
    page = page_of(tmp_path, *pair, "--tokens", "3", "--gamma", "2")
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'page.html'}: ") and out.count("\n") == 1
    assert not err and pair[1] not in page and pair[3] not in page

    def full(*args: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    path = tmp_path / "page.html"
    assert main(["trace", *pair, "--tokens", "2", "--out", str(path)]) == 2
    err = capsys.readouterr().err
    assert "cannot write" in err and "No space left" in err and err.count("\n") == 1
    assert path.read_text(encoding="utf-8") == page
    assert list(tmp_path.iterdir()) == [path]

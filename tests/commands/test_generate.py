"""`minispec generate`: the text as it comes, where it ends, and the prompt."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minispec.commands import streaming
from minispec.commands.cli import main

Cli = Callable[..., tuple[str, str]]
Chain = Callable[..., list[str]]


class Flushed(io.StringIO):
    """A standard output that knows what has been flushed."""

    flushed = ""

    def flush(self) -> None:
        self.flushed = self.getvalue()


@pytest.mark.parametrize("drafter", ["model", "ngram", "none"])
@pytest.mark.parametrize("gamma", ["1", "3", "7"])
def test_the_text_comes_round_by_round_and_no_character_is_split(
    monkeypatch: pytest.MonkeyPatch, chain: Chain, drafter: str, gamma: str
) -> None:
    """Characters of several tokens, across the ends of rounds; 20 tokens end well."""
    output, seen, rounds_of = Flushed(), [], streaming.rounds_of

    def watched(*args: object) -> Iterator[object]:
        for one in rounds_of(*args):  # type: ignore[arg-type]
            seen.append(output.flushed)
            yield one

    options = [*chain("é€😀 "), "--prompt", " ", "--drafter", drafter, "--gamma", gamma]
    monkeypatch.setattr(streaming, "rounds_of", watched)
    monkeypatch.setattr("sys.stdout", output)
    assert main(["generate", *options, "--tokens", "20"]) == 0
    text = " é€😀 é€😀 "
    assert output.getvalue() == output.flushed == text + "\n"
    assert len(set(seen)) > 2 and seen[0] == " "
    assert all(text.startswith(shown) for shown in seen)


def test_the_summary_accounts_for_the_text(cli: Cli, chain: Chain) -> None:
    """Ten bytes a cycle, so 24 of them end within a character."""
    out, err = cli("generate", *chain("é€😀 "), "--prompt", " ", "--tokens", "24")
    assert out == " é€😀 é€😀 é\N{REPLACEMENT CHARACTER}\n" and err.count("\n") == 1
    for part in ("24 tokens", "target passes: 5", "accepted: 19 of 19"):
        assert part in err
    assert err.endswith("; reached --tokens\n")
    err = cli("generate", *chain("a"), "--prompt", "a", "--tokens", "1")[1]
    assert err.startswith("1 token in ")


def test_top_p_may_be_tiny(cli: Cli, pair: list[str]) -> None:
    tiny = cli("generate", *pair, "--temperature", "1", "--top-p", "1e-320")[0]
    assert tiny == cli("generate", *pair, "--temperature", "0")[0]


# ----------------------------------------------------------------------- where it ends


def test_an_eos_within_a_round_ends_the_text_and_is_not_shown(
    cli: Cli, chain: Chain
) -> None:
    options = [*chain("abcde", ends=True), "--prompt", "a", "--gamma", "6"]
    out, err = cli("generate", *options, "--trace")
    rule = "a draft is accepted with probability min(1, target / draft)"
    assert out.startswith(f"abcde\n{rule}\nround 1: drafted 6\n")
    assert "round 2" not in out
    assert "'<|endoftext|>'" in out  # in the table it is a token as others are
    assert "5 tokens" in err and "the model ended the text" in err
    assert cli("generate", *options, "--drafter", "none")[0] == "abcde\n"
    assert "drafts accepted: 5 of 5 judged, 6 drafted" in err
    err = cli("generate", *options, "--judge", "block")[1]
    assert "drafts accepted: 5 of 6 drafted" in err  # judged together
    told = json.loads(cli("compare", *options, "--json", "--repeats", "1")[0])
    assert told["finish_reason"] == told["autoregressive_finish_reason"] == "eos"
    assert told["speculative_text"] == told["autoregressive_text"] == "bcde"
    assert len(cli("generate", *options, "--min-tokens", "9")[0]) > len("abcde\n") + 4


def test_eos_ids_come_from_the_folder_or_from_the_options(
    cli: Cli, chain: Chain
) -> None:
    options = [*chain("abcde", ends=True), "--prompt", "a", "--tokens", "9"]
    ids = ["--eos-id", str(ord("d")), "--eos-id", str(ord("z"))]
    assert cli("generate", *options, *ids)[0] == "abc\n"
    config = Path(options[1]) / "config.json"
    stated = {**json.loads(config.read_text()), "eos_token_id": ord("c")}
    config.write_text(json.dumps(stated))
    assert cli("generate", *options)[0] == "ab\n"


def test_the_context_ends_the_text_when_no_token_can_be_fed(
    cli: Cli, pair: list[str]
) -> None:
    """96 positions hold 97 tokens: the last is never fed."""
    for drafter in ("model", "ngram", "none"):
        options = [*pair, "--prompt", "x" * 90, "--drafter", drafter]
        err = cli("generate", *options)[1]
        assert "7 tokens" in err and "context is full" in err


def test_interrupted_it_keeps_and_accounts_for_what_was_written(
    chain: Chain, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was held back as the possible beginning of a stop text is written too."""
    rounds_of = streaming.rounds_of

    def interrupted(*args: object) -> Iterator[object]:
        rounds = rounds_of(*args)  # type: ignore[arg-type]
        yield next(rounds)
        yield next(rounds)
        raise KeyboardInterrupt

    monkeypatch.setattr(streaming, "rounds_of", interrupted)
    options = [*chain("abcdef"), "--gamma", "2", "--prompt", "a", "--stop", "fab"]
    assert main(["generate", *options, "--trace"]) == 130
    out, err = capsys.readouterr()
    assert out.startswith("abcdefa\n") and "\nround 2" in out and "round 3" not in out
    assert "6 tokens" in err and err.endswith("; interrupted\n")


def test_without_a_drafter_there_is_nothing_to_trace(cli: Cli, pair: list[str]) -> None:
    options = ["--draft", "nowhere", "--drafter", "none", "--trace", "--tokens", "3"]
    out, err = cli("generate", *pair, *options)  # and the draft is not loaded
    assert "nothing to trace" in err and "round" not in out
    assert err.startswith("--draft is not used with --drafter none\n")


# ------------------------------------------------------------------------- the prompt


@pytest.mark.parametrize("text", ["ROMEO:\n", "naïve 😀", "a\r\nb", "<|endoftext|>"])
def test_a_prompt_is_the_same_from_everywhere(
    cli: Cli,
    pair: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, marked, outputs = tmp_path / "prompt", tmp_path / "marked", set()
    file.write_bytes(text.encode("utf-8"))
    marked.write_bytes(text.encode("utf-8-sig"))  # as some editors save it
    files = [("--prompt-file", source) for source in (str(file), str(marked), "-")]
    for source in [("--prompt", text), ("--prompt", "-"), *files]:
        stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8")))
        monkeypatch.setattr("sys.stdin", stdin)
        outputs.add(cli("generate", *pair, *source, "--tokens", "4")[0])
    assert len(outputs) == 1 and outputs.pop().startswith(text)

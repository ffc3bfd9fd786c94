"""The command line as users type it: what each command writes, and where."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from minispec.cli import load_commands, main
from minispec.commands import streaming

from tiny_pairs import chain_folder, random_pair

KEYS = {
    "autoregressive_tokens_per_s": float,
    "speculative_tokens_per_s": float,
    "speedup": float,
    "acceptance_rate": float,
    "tokens_per_target_forward": float,
    "gamma": int,
    "temperature": float,
    "seed": int,
    "repeats": int,
    "threads": int,
    "drafted": int,
    "judged": int,
    "accepted": int,
    "emitted": int,
    "target_forwards": int,
    "autoregressive_text": str,
    "speculative_text": str,
    "autoregressive_finish_reason": str,
    "finish_reason": str,
}
load_commands()  # before one is patched: what they import then would stay for good

CHARACTERS = "é€😀 "  # of 2, 3, 4 and 1 bytes, all distinct
Output = pytest.CaptureFixture[str]
Cli = Callable[..., tuple[str, str]]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name two models of random weights."""
    return random_pair(tmp_path_factory)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name one model as target and draft: it writes é€😀 é€😀 ..."""
    folder = chain_folder(tmp_path_factory.mktemp("chain"), CHARACTERS.encode())
    return [*options(folder, folder), "--prompt", " "]


@pytest.fixture
def cli(capsys: Output) -> Cli:
    """Run a command that must succeed; what it wrote to both streams."""

    def run(*argv: str) -> tuple[str, str]:
        assert main(list(argv)) == 0
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    return run


def options(target: Path, draft: Path) -> list[str]:
    return ["--target", str(target), "--draft", str(draft)]


# --------------------------------------------------------------------------- compare


def test_json_is_the_only_thing_on_standard_output(cli: Cli, pair: list[str]) -> None:
    out, err = cli("compare", *pair, "--json", "--tokens", "12", "--repeats", "2")
    figures = json.loads(out)
    assert out.count("\n") == 1 and err == ""
    assert {key: type(value) for key, value in figures.items()} == KEYS
    assert figures["emitted"] == 12 and figures["repeats"] == 2
    assert figures["gamma"] == 4 and figures["temperature"] == 0.8
    slow, fast = (
        figures[f"{kind}_tokens_per_s"] for kind in ("autoregressive", "speculative")
    )
    assert figures["speedup"] == pytest.approx(fast / slow)
    passes = figures["target_forwards"]
    assert figures["tokens_per_target_forward"] == pytest.approx(12 / passes)


@pytest.mark.parametrize("drafter", ["model", "ngram"])
def test_at_temperature_0_both_texts_are_the_same(
    cli: Cli, pair: list[str], drafter: str
) -> None:
    command = ("compare", *pair, "--temperature", "0", "--drafter", drafter)
    figures = json.loads(cli(*command, "--json", "--repeats", "1", "--tokens", "25")[0])
    assert figures["autoregressive_text"] == figures["speculative_text"] != ""
    shown, _ = cli(*command, "--repeats", "1", "--tokens", "25")
    assert "the texts are the same" in shown
    first, second = re.findall(r"---.*\n((?:.|\n)*?)\n\n", shown)
    assert first == second


def test_the_table_has_the_figures_and_one_line_of_advice(
    cli: Cli, pair: list[str]
) -> None:
    out, err = cli("compare", *pair, "--tokens", "9", "--repeats", "2", "--seed", "5")
    for name in ("tokens per second", "speed-up", "acceptance rate", "forward"):
        assert name in out
    settings = r"gamma 4, temperature 0.8, seed 5, \d+ threads?, median of 2"
    assert re.search(settings, out)
    assert out.splitlines()[-1].startswith("next: ")
    assert "2 runs in all" in err  # why it takes longer than what is seen


def test_nothing_to_write_is_nothing_to_divide(cli: Cli, pair: list[str]) -> None:
    figures = json.loads(cli("compare", *pair, "--json", "--tokens", "0")[0])
    assert figures["speedup"] is figures["acceptance_rate"] is None
    assert figures["speculative_text"] == "" and figures["finish_reason"] == "length"
    out, _ = cli("compare", *pair, "--tokens", "0")
    assert re.search(r"speed-up +-\n", out)
    assert re.search(r"acceptance rate +-\n", out)


@pytest.mark.parametrize(
    "options, says",
    [
        (["--tokens", "1"], "more --tokens: for the last one nothing is drafted"),
        (["--tokens", "9", "--drafter", "ngram", "--prompt", "q"], "--drafter model"),
    ],
)
def test_the_advice_is_not_what_was_done(
    cli: Cli, pair: list[str], options: list[str], says: str
) -> None:
    last = cli("compare", *pair, "--repeats", "1", *options)[0].splitlines()[-1]
    assert says in last and "--drafter ngram" not in last


def test_the_acceptance_rate_says_of_what(cli: Cli, pair: list[str]) -> None:
    """Of the drafts that were looked at, not of all."""
    options = [*pair, "--tokens", "30", "--repeats", "1"]
    told = json.loads(cli("compare", *options, "--json")[0])
    assert told["accepted"] < told["judged"] < told["drafted"]
    assert told["acceptance_rate"] == told["accepted"] / told["judged"]
    shown = f"{told['accepted']}/{told['judged']} = {told['acceptance_rate']:.2f}\n"
    assert shown in cli("compare", *options)[0]


def test_compare_is_what_runs_without_a_command(cli: Cli, pair: list[str]) -> None:
    """Abbreviated options too: `minispec --tok 5`."""
    out, _ = cli("--tok", "5", "--temp=0", "--repeats", "1", *pair)
    assert "target alone" in out and "next: " in out


def test_compare_can_trace(cli: Cli, pair: list[str]) -> None:
    out, _ = cli("compare", *pair, "--tokens", "5", "--trace", "--repeats", "1")
    assert out.index("next: ") < out.index("round 1: drafted 4")


def test_a_seed_fixes_the_text(cli: Cli, pair: list[str]) -> None:
    texts = [cli("generate", *pair, "--seed", seed)[0] for seed in ("7", "7", "8")]
    assert texts[0] == texts[1] != texts[2]


# -------------------------------------------------------------------------- generate


def test_generate_writes_prompt_and_text_and_accounts_for_them(
    cli: Cli, chain: list[str]
) -> None:
    """Ten bytes a cycle, so 24 of them end within a character."""
    out, err = cli("generate", *chain, "--temperature", "0", "--tokens", "24")
    assert out == " é€😀 é€😀 é\N{REPLACEMENT CHARACTER}\n"
    assert err.count("\n") == 1
    for part in ("24 tokens", "target passes: 5", "accepted: 19 of 19", "all --tokens"):
        assert part in err


@pytest.mark.parametrize("drafter", ["model", "ngram", "none"])
@pytest.mark.parametrize("gamma", ["1", "2", "3", "7"])
def test_pieces_add_up_to_the_text_and_never_split_a_character(
    monkeypatch: pytest.MonkeyPatch, chain: list[str], drafter: str, gamma: str
) -> None:
    """Characters of several tokens, across the rounds' ends; and each round's text is
    out (written and flushed) before the next begins."""
    output = Recorder()
    monkeypatch.setattr("sys.stdout", output)
    rounds: list[str] = []

    def watched(*args: object) -> object:
        for step in steps_of(*args):  # type: ignore[arg-type]
            rounds.append(output.flushed)
            yield step

    steps_of = streaming.steps_of
    monkeypatch.setattr(streaming, "steps_of", watched)
    settings = ["--drafter", drafter, "--gamma", gamma, "--temperature", "0"]
    assert main(["generate", *chain, *settings, "--tokens", "20"]) == 0
    assert output.getvalue() == output.flushed == " é€😀 é€😀 \n"
    text = " é€😀 é€😀 "
    assert all(text.startswith(shown) for shown in rounds)
    assert len(set(rounds)) > 2 and rounds[0] == " "


class Recorder(io.StringIO):
    """A standard output that knows what has been flushed."""

    flushed = ""

    def flush(self) -> None:
        self.flushed = self.getvalue()


def test_an_eos_within_a_block_ends_the_text_and_is_not_shown(
    cli: Cli, tmp_path: Path
) -> None:
    model = options(*[chain_folder(tmp_path, b"abcde", ends=True)] * 2)
    settings = [*model, "--prompt", "a", "--gamma", "6", "--temperature", "0"]
    out, err = cli("generate", *settings, "--trace")
    assert out.startswith("abcde\nround 1: drafted 6\n") and "round 2" not in out
    assert "'<|endoftext|>'" in out  # in the table it is a token as others are
    assert "5 tokens" in err and "the model ended the text" in err
    assert cli("generate", *settings, "--drafter", "none")[0] == "abcde\n"
    figures = json.loads(cli("compare", *settings, "--json", "--repeats", "1")[0])
    assert figures["finish_reason"] == figures["autoregressive_finish_reason"] == "eos"
    assert figures["speculative_text"] == figures["autoregressive_text"] == "bcde"
    later = cli("generate", *settings, "--min-tokens", "9")[0]
    assert len(later) > len("abcde\n") + 4


def test_the_context_ends_the_text(cli: Cli, pair: list[str]) -> None:
    settings = [*pair, "--prompt", "x" * 90, "--temperature", "0"]
    figures = json.loads(cli("compare", *settings, "--json", "--repeats", "1")[0])
    assert figures["finish_reason"] == "context" and figures["emitted"] == 6
    assert "context is full" in cli("generate", *settings)[1]
    full = [*pair, "--prompt", "x" * 96]
    assert cli("generate", *full)[0] == "x" * 96 + "\n"


def test_nothing_to_trace_is_said(cli: Cli, pair: list[str]) -> None:
    out, err = cli("generate", *pair, "--drafter", "none", "--trace", "--tokens", "3")
    assert "nothing to trace" in err and "round" not in out


def test_the_draft_is_not_loaded_where_it_is_not_asked(
    cli: Cli, pair: list[str]
) -> None:
    nowhere = [*pair[:2], "--draft", "nowhere", "--tokens", "2"]
    for drafter in ("ngram", "none"):
        cli("generate", *nowhere, "--drafter", drafter)


# --------------------------------------------------------------------------- prompts


@pytest.mark.parametrize("text", ["ROMEO:\n", "naïve 😀", "a\r\nb", "<|endoftext|>"])
def test_a_prompt_is_the_same_from_everywhere(
    cli: Cli,
    pair: list[str],
    text: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "prompt.txt"
    file.write_bytes(text.encode("utf-8"))
    marked = tmp_path / "marked.txt"
    marked.write_bytes(text.encode("utf-8-sig"))  # as some editors save it
    sources = [
        ("--prompt", text),
        ("--prompt-file", str(file)),
        ("--prompt-file", str(marked)),
        ("--prompt", "-"),
        ("--prompt-file", "-"),
    ]
    outputs = set()
    for source in sources:
        stdin = io.TextIOWrapper(io.BytesIO(text.encode("utf-8")))
        monkeypatch.setattr("sys.stdin", stdin)
        outputs.add(cli("generate", *pair, *source, "--tokens", "4")[0])
    assert len(outputs) == 1 and outputs.pop().startswith(text)


# ------------------------------------------------------------------------ plan, help


def test_plan_does_the_papers_arithmetic(cli: Cli) -> None:
    out, _ = cli("plan")
    assert "70 billion weights x 2 bytes = 140 GB" in out
    assert "42 ms a token" in out
    assert re.search(r"^ +8 +4\.33 +3\.09x.*<- best$", out, re.MULTILINE)
    assert "best: gamma 8" in out
    assert "    7    " in cli("plan", "--gamma", "7")[0]


def test_plan_says_when_not_to_speculate(cli: Cli) -> None:
    out, _ = cli("plan", "--alpha", "0.1", "--cost-ratio", "0.2")
    assert "alpha 0.1 is too low" in out and "above 0.200" in out
    out, _ = cli("plan", "--alpha", "0.9", "--cost-ratio", "1.5")
    assert "no draft is good enough" in out and "never pays" in out
    assert "longest tried" in cli("plan", "--alpha", "1", "--cost-ratio", "0")[0]


@pytest.mark.parametrize("command", [[], ["compare"], ["generate"], ["plan"]])
def test_help_names_every_option(command: list[str], capsys: Output) -> None:
    with pytest.raises(SystemExit, match="^0$"):
        main([*command, "--help"])
    out, err = capsys.readouterr()
    assert err == "" and "usage: minispec" in out
    asked = {
        "": "compare generate plan",
        "compare": "--prompt --prompt-file --target --draft --drafter --gamma "
        "--tokens --temperature --top-k --top-p --min-p --seed --trace --repeats "
        "--json",
        "generate": "--prompt --prompt-file --target --draft --drafter --gamma "
        "--tokens --temperature --top-k --top-p --min-p --seed --trace",
        "plan": "--alpha --cost-ratio --gamma --parameters --bandwidth",
    }["".join(command)]
    assert all(word in out for word in asked.split())


def test_version(capsys: Output) -> None:
    with pytest.raises(SystemExit, match="^0$"):
        main(["--version"])
    assert re.fullmatch(r"\d+\.\d+\S*\n", capsys.readouterr().out)


# ---------------------------------------------------------------------- inspect


def test_inspect_reports_every_folder(cli: Cli, pair: list[str]) -> None:
    target, draft = pair[1], pair[3]
    shown, _ = cli("inspect", target, draft)
    assert [line for line in shown.splitlines() if line[:1].strip()] == [target, draft]
    for fact in ("layers", "parameters", "cache", "time per token"):
        assert len(re.findall(rf"^  {fact} ", shown, re.MULTILINE)) == 2

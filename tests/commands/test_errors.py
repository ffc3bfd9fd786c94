"""Bad input: one line that says what is wrong and what to do, and status 2."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from minispec.commands import options as options_module
from minispec.commands.cli import main
from minispec.files import checkpoint
from minispec.files import pair as pair_module

from support.tiny_pairs import random_folder

Fails = Callable[..., str]
SHIPPED = str(pair_module.SHIPPED)
LONG = "9" * 9999
BAD_VALUES = [
    ("--gamma", "0", "1 or more, auto or history, got '0'"),
    ("--tokens", "-1", "0 or more, got '-1'"),
    ("--tokens", LONG, "whole number"),
    ("--top-p", "1.5", "top_p must be above 0 and at most 1, got 1.5"),
    ("--min-p", "-0.1", "min_p"),
    ("--temperature", "inf", "temperature"),
    ("--temperature", "warm", "invalid float value: 'warm'"),
    ("--repetition-penalty", "0", "repetition_penalty"),
    ("--eos-id", "-1", "0 or more"),
    ("--eos-id", "257", "must be below 257, got 257"),
    ("--stop", "", "--stop is empty"),
    ("--stop", "\udcff", "--stop is not UTF-8"),
    ("--drafter", f"\x1b[31m\n{LONG}", "choose from"),
    ("--prompt", "", "empty"),
    ("--prompt", "x" * 97, "97 tokens"),
    ("--prompt", "\udcff", "not UTF-8"),
    ("--prompt-file", "/dev/zero", "zero' has more than 1000000 bytes"),
    ("--prompt-file", "no\nwhere\x1b[31m.txt", "No such file"),
    ("--target", "nowhere", "no such folder: nowhere"),
    ("--draft", "nowhere", "no such folder: nowhere"),
    ("--target", SHIPPED, "draft, draft-bytes, target; heads: block-diffusion, eagle,"),
    ("--target", f"{SHIPPED}/eagle/config.json", "is a file: give its folder"),
    ("--target", str(Path(__file__).parent), "vocabulary"),
]


@pytest.mark.parametrize("option, value, says", BAD_VALUES)
def test_bad_values(
    fails: Fails, pair: list[str], option: str, value: str, says: str
) -> None:
    for command in ("generate", "compare", "trace"):
        assert says in fails(command, *pair, option, value)


@pytest.mark.parametrize(
    "argv, says",
    [
        ("compare --repeats 0", "1 or more"),
        ("compare --prompt a --prompt-file b", "not allowed with"),
        ("generate --prompt To be", "needs quotes"),
        ("generate --max-new-tokens 9", "arguments: --max-new-tokens 9 (try"),
        ("plan --alpha 1.2", "alpha must be from 0 to 1"),
        ("plan --cost-ratio -1", "cost_ratio must be 0 or more"),
        ("plan --gamma 99999", "at most 10000"),
        (f"plan --batch {10**321}", "--batch must be at most 1e+30"),
        ("plan --bytes inf", "--bytes must be between 1e-30 and 1e+30, got inf"),
        ("plan --verify-cost 1e-320", "--verify-cost must be between"),
        ("plan --bandwidth -1", "bytes_per_second must be above 0"),
        (f"prove --seed {2**64}", "--seed must be below 2**63, got 18446744073709551"),
        ("plan --accepted-per-drafted 0.5", "needs --gamma"),
        ("plan --accepted-per-drafted 1.5 --gamma 4", "from 0 to 1"),
        ("plan --accepted-per-drafted 0.5 --alpha 0.5", "not allowed with"),
        ("trace --drafter none", "choose from"),
        (f"trace --out {'a' * 300}", "File name too long"),
        ("trace --out no/such/folder/page.html", "No such file"),
        ("trace --out .", "folder"),
        ("trace --out -", "a file of its own"),
    ],
)
def test_bad_command_lines(fails: Fails, argv: str, says: str) -> None:
    assert says in fails(*argv.split())


def test_bad_standard_input(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    for data, says in (
        (b"ab\xff", "byte 3"), (b"", "standard input is empty"),
        (b"a" * 10**6 + b"a", "standard input has more than 1000000 bytes"),
    ):  # fmt: skip
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
        assert says in fails("generate", "--prompt", "-")
    monkeypatch.setattr("sys.stdin", None)
    assert "it is closed" in fails("generate", "--prompt-file", "-")


def test_inspect_names_the_heads_and_the_folder_of_a_file(fails: Fails) -> None:
    assert "target; heads: block-diffusion, eagle, eagle3" in fails("inspect", SHIPPED)
    says = fails("inspect", f"{SHIPPED}/eagle/config.json")
    assert says.endswith(f"is a file: give its folder, {SHIPPED}/eagle\n")


@pytest.mark.parametrize("role", ["--target", "--draft"])
def test_a_folder_that_cannot_be_used(
    fails: Fails, pair: list[str], tmp_path: Path, role: str
) -> None:
    """Damaged, or with weights that fail while decoding."""
    folder = random_folder(tmp_path, 3)
    config = (folder / "config.json").read_bytes()
    (folder / "config.json").write_bytes(b"{")
    assert "config.json" in fails("compare", *pair, role, str(folder))
    (folder / "config.json").write_bytes(config)
    model = checkpoint.load(folder)
    model.ln_f.weight = torch.nn.Parameter(torch.full((8,), torch.nan))
    checkpoint.save(model, folder)
    for command in ("generate", "compare", "trace"):
        assert "check the weights" in fails(command, *pair, role, str(folder))


def test_a_package_without_the_shipped_pair(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """As installed from a wheel, which holds no weights."""
    for module in (pair_module, options_module):
        monkeypatch.setattr(module, "SHIPPED", tmp_path / "weights")
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert "the shipped pair is missing" in err and "pip install -e ." in err


@pytest.mark.parametrize("argv", ["--help", "compare -h", "plan -h", "--version"])
def test_questions_are_answered(argv: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="^0$"):
        main(argv.split())
    out, err = capsys.readouterr()
    assert err == "" and (out.count(".") == 2 or "usage: minispec" in out)

"""Bad input: one line that says what is wrong and what to do, and status 2."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from minispec import checkpoint
from minispec import pair as pair_module
from minispec.cli import main

from tiny_pairs import random_folder, write_vocabulary

Output = pytest.CaptureFixture[str]
Refused = Callable[..., str]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    target, draft = (tmp_path_factory.mktemp(name) for name in ("target", "draft"))
    return random_folder(target, 1), random_folder(draft, 2)


@pytest.fixture
def refused(capsys: Output, folders: tuple[Path, Path]) -> Refused:
    """Run a command that must be refused as the docstring above says; its line."""

    def run(*argv: str, target: Path = folders[0], draft: Path = folders[1]) -> str:
        command, *more = argv
        named = ["--target", str(target), "--draft", str(draft), "--tokens", "3"]
        try:
            status = main([command, *(named if command != "plan" else []), *more])
        except SystemExit as stop:  # argparse ends the program itself
            status = stop.code  # type: ignore[assignment]
        out, err = capsys.readouterr()
        assert status == 2
        assert err.startswith("minispec") and err.endswith("\n")
        assert err.count("\n") == 1 and "Traceback" not in err
        assert "{" not in out  # no JSON
        return err

    return run


BAD_VALUES = [
    ("--gamma", "0", "1 or more, got '0'"),
    ("--gamma", "-3", "1 or more, got '-3'"),
    ("--gamma", "2.5", "whole number"),
    ("--gamma", "many", "whole number"),
    ("--tokens", "-1", "0 or more, got '-1'"),
    ("--tokens", "9" * 9999, "whole number"),
    ("--top-k", "0", "1 or more"),
    ("--top-p", "1.5", "top_p must be above 0 and at most 1, got 1.5"),
    ("--top-p", "0", "top_p"),
    ("--top-p", "nan", "top_p"),
    ("--min-p", "-0.1", "min_p"),
    ("--temperature", "-1", "temperature must be 0 or"),
    ("--temperature", "nan", "temperature"),
    ("--temperature", "inf", "temperature"),
    ("--temperature", "warm", "invalid float value: 'warm'"),
    ("--repetition-penalty", "0", "repetition_penalty"),
    ("--seed", "-1", "0 or more"),
    ("--seed", "x\ny", "whole number"),
    ("--min-tokens", "-2", "0 or more"),
    ("--drafter", "oracle", "choose from"),
    ("--prompt", "", "empty"),
    ("--prompt", "x" * 97, "97 tokens"),
    ("--prompt", "\udcff", "not UTF-8"),
    ("--prompt-file", "", "give a text file"),
    ("--prompt-file", "nowhere.txt", "'nowhere.txt' (No such file"),
    ("--prompt-file", os.curdir, "'.' (Is a directory)"),
    ("--prompt-file", "no\nwhere\x1b[31m.txt", "No such file"),
]


@pytest.mark.parametrize("command", ["generate", "compare"])
@pytest.mark.parametrize("option, value, says", BAD_VALUES)
def test_bad_values(
    refused: Refused, command: str, option: str, value: str, says: str
) -> None:
    error = refused(command, option, value)
    assert says in error and "\x1b" not in error and len(error) < 250


@pytest.mark.parametrize(
    "argv, says",
    [
        (["compare", "--repeats", "0"], "1 or more"),
        (["compare", "--drafter", "none"], "generate --drafter none"),
        (["compare", "--json", "--trace"], "not allowed with"),
        (["compare", "--prompt", "a", "--prompt-file", "b"], "not allowed with"),
        (["generate", "--prompt", "To", "be"], "needs quotes"),
        (["generate", "--max-new-tokens", "9"], "arguments: --max-new-tokens 9 (try"),
        (["generate", "--prompt"], "expected one argument"),
        (["generate", "--tok"], "expected one argument"),
        (["generate", "--t", "4"], "ambiguous"),
        (["generate", "--jsno"], "unrecognized arguments: --jsno"),
        (["sing"], "choose from"),
        (["plan", "--alpha", "1.2"], "alpha must be from 0 to 1"),
        (["plan", "--alpha", "nan"], "alpha"),
        (["plan", "--cost-ratio", "-1"], "cost_ratio must be 0 or more"),
        (["plan", "--verify-cost", "0"], "verify_cost must be above 0"),
        (["plan", "--gamma", "0"], "1 or more"),
        (["plan", "--gamma", "9" * 20], "at most 10000"),
        (["trace", "--out", "a" * 300], "cannot write"),
        (["plan", "--bandwidth", "0"], "bytes_per_second"),
        (["plan", "--parameters", "-7"], "n_parameters"),
        (["plan", "--bytes", "inf"], "bytes_per_parameter"),
    ],
)
def test_bad_command_lines(refused: Refused, argv: list[str], says: str) -> None:
    assert says in refused(*argv)


@pytest.mark.parametrize("option", ["--prompt", "--prompt-file"])
@pytest.mark.parametrize("data, says", [(b"ab\xff", "byte 3"), (b"", "is empty")])
def test_bad_standard_input(
    refused: Refused,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    data: bytes,
    says: str,
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data)))
    error = refused("generate", option, "-")
    assert says in error and "standard input" in error
    monkeypatch.setattr("sys.stdin", None)
    assert "it is closed" in refused("generate", option, "-")


def test_a_prompt_file_that_is_no_text(refused: Refused, tmp_path: Path) -> None:
    file = tmp_path / "prompt"
    file.write_bytes("naïve".encode("latin-1"))
    assert "not UTF-8 (byte 3)" in refused("generate", "--prompt-file", str(file))
    file.write_bytes(b"")
    assert "is empty" in refused("generate", "--prompt-file", str(file))


@pytest.mark.parametrize(
    "reader, command",
    [
        ("read_bytes", ["generate", "--prompt-file", "secret.txt"]),
        ("read_text", ["generate"]),  # config.json or the vocabulary
        ("is_dir", ["compare"]),
        ("open", ["compare"]),
    ],
)
def test_what_may_not_be_read(
    refused: Refused, monkeypatch: pytest.MonkeyPatch, reader: str, command: list[str]
) -> None:
    """Root may read everything, so the refusal is made up."""

    def forbidden(path: Path, *args: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, reader, forbidden)
    assert "Permission denied" in refused(*command)


def test_folders_that_are_none(refused: Refused, tmp_path: Path) -> None:
    assert "no such folder: nowhere" in refused("compare", target=Path("nowhere"))
    above = refused("compare", target=pair_module.SHIPPED)
    assert "no checkpoint folder itself: give one of those in it, draft, targ" in above
    assert "no such folder: nowhere" in refused("compare", draft=Path("nowhere"))
    assert "no vocabulary" in refused("compare", target=tmp_path)
    write_vocabulary(tmp_path)
    assert "config.json" in refused("compare", target=tmp_path)
    file = tmp_path / "bytes.tiktoken"
    assert "no such folder" in refused("compare", draft=file)


@pytest.mark.parametrize(
    "name, change, says",
    [
        ("config.json", lambda data: b"{", "config.json"),
        ("config.json", lambda data: b"\xff\xfe", "config.json"),
        ("config.json", lambda data: b"[]", "must hold a JSON object"),
        ("config.json", lambda data: data.replace(b"257", b"-1"), "vocab_size"),
        ("config.json", lambda data: data.replace(b'"n_embd": 8', b'"x": 1'), "n_embd"),
        ("model.safetensors", lambda data: data[:-100], "model.safetensors"),
        ("model.safetensors", lambda data: data[:5], "model.safetensors"),
        ("model.safetensors", lambda data: b"", "model.safetensors"),
        ("bytes.tiktoken", lambda data: b"\xff", "UTF-8"),
        ("bytes.tiktoken", lambda data: b"AA== zero\n", "line 1"),
        ("bytes.tiktoken", lambda data: b"", "vocabulary"),
    ],
)
@pytest.mark.parametrize("role", ["target", "draft"])
def test_damaged_folders(
    refused: Refused,
    tmp_path: Path,
    role: str,
    name: str,
    change: Callable[[bytes], bytes],
    says: str,
) -> None:
    file = random_folder(tmp_path, 3) / name
    file.write_bytes(change(file.read_bytes()))
    error = refused("compare", **{role: tmp_path})  # type: ignore[arg-type]
    assert says in error and str(tmp_path) in error


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "bytes.tiktoken"])
def test_missing_files(refused: Refused, tmp_path: Path, name: str) -> None:
    (random_folder(tmp_path, 3) / name).unlink()
    assert name.split(".")[-1] in refused("compare", draft=tmp_path)


@pytest.mark.parametrize("command", ["generate", "compare"])
@pytest.mark.parametrize("role", ["target", "draft"])
def test_weights_that_are_not_finite(
    refused: Refused, tmp_path: Path, command: str, role: str
) -> None:
    """Found only while decoding, and still one line: no summary, no table."""
    model = checkpoint.load(random_folder(tmp_path, 3))
    model.ln_f.weight = torch.nn.Parameter(torch.full((8,), torch.nan))
    checkpoint.save(model, tmp_path)
    says = "check the weights"
    assert says in refused(command, **{role: tmp_path})  # type: ignore[arg-type]


def test_vocabularies_that_differ(refused: Refused, tmp_path: Path) -> None:
    other = random_folder(tmp_path, 3, n_words=2)
    for role in ("target", "draft"):
        error = refused("compare", **{role: other})  # type: ignore[arg-type]
        assert "257" in error and "259" in error and "ngram" in error


def test_a_package_without_the_shipped_pair(
    monkeypatch: pytest.MonkeyPatch, capsys: Output, tmp_path: Path
) -> None:
    """As installed from a wheel, which holds no weights."""
    from minispec.commands import options

    monkeypatch.setattr(pair_module, "SHIPPED", tmp_path / "weights")
    monkeypatch.setattr(options, "SHIPPED", tmp_path / "weights")
    assert main([]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert "the shipped pair is missing" in err and "pip install -e ." in err


def test_bad_input_is_refused_before_anything_is_loaded(
    refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*args: object) -> None:
        raise AssertionError("loaded")

    monkeypatch.setattr("minispec.commands.options.load_pair", never)
    for option, value, says in BAD_VALUES:
        if says != "97 tokens":  # only the tokenizer can count them
            refused("generate", option, value)

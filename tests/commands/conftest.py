"""Tiny pairs as options, and a command line that must succeed or fail."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from minispec.commands.cli import main

from support.tiny_pairs import chain_folder, random_pair

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name two models of random weights over the bytes, context 96."""
    return random_pair(tmp_path_factory)


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """Options that name one model as target and draft, which writes a known text."""

    def make(text: str, ends: bool = False) -> list[str]:
        folder = tmp_path_factory.mktemp("chain")
        model = str(chain_folder(folder, text.encode(), ends))
        return ["--target", model, "--draft", model, "--temperature", "0"]

    return make


@pytest.fixture
def cli(capsys: Output) -> Callable[..., tuple[str, str]]:
    """Run a command that must succeed; what it wrote to both streams."""

    def run(*argv: str) -> tuple[str, str]:
        assert main(list(argv)) == 0
        return tuple(capsys.readouterr())  # type: ignore[return-value]

    return run


@pytest.fixture
def fails(capsys: Output) -> Callable[..., str]:
    """Run a command that must end with status 2 and one line; that line."""

    def run(*argv: str) -> str:
        try:
            status = main(list(argv))
        except SystemExit as stop:  # argparse ends the program itself
            status = stop.code  # type: ignore[assignment]
        out, err = capsys.readouterr()
        assert status == 2 and "{" not in out  # no JSON
        assert err.startswith("minispec") and err.endswith("\n")
        assert err.count("\n") == 1 and err[:-1].isprintable() and len(err) < 1100
        return err

    return run

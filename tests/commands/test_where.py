"""Where the models run, and in which numbers."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_every_type_of_numbers_decodes(
    cli: Callable[..., tuple[str, str]], pair: list[str], dtype: str
) -> None:
    out, _ = cli(
        *("generate", *pair, "--prompt", "Hi", "--tokens", "5", "--stop", "never"),
        *("--dtype", dtype, "--device", "auto", "--trace"),
    )
    assert out.startswith("Hi") and "round 1" in out


def test_a_device_that_is_not_there_is_an_error(
    fails: Callable[..., str], pair: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: False)
    says = fails("compare", *pair, "--prompt", "Hi", "--device", "cuda")
    expected = "no device cuda for torch.float32 here: choose auto or cpu\n"
    assert says.endswith(expected)

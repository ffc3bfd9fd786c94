"""`minispec plan`: the paper's arithmetic, and an engine's figure turned into alpha."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minispec.core.analysis import alpha_from_accepted_per_drafted

Cli = Callable[..., tuple[str, str]]


def test_it_does_the_papers_arithmetic(cli: Cli) -> None:
    out, _ = cli("plan")
    assert "70 billion weights x 2 bytes = 140 GB" in out and "42 ms a token" in out
    assert re.search(r"^ +8 +4\.33 +3\.09x.*<- best$", out, re.MULTILINE)
    assert "best: gamma 8" in out and "    7    " in cli("plan", "--gamma", "7")[0]


def test_it_says_when_not_to_speculate(cli: Cli) -> None:
    out, _ = cli("plan", "--alpha", "0.1", "--cost-ratio", "0.2")
    assert "alpha 0.1 is too low" in out and "above 0.200" in out
    out, _ = cli("plan", "--alpha", "0.9", "--cost-ratio", "1.5")
    assert "no draft is good enough" in out and "never pays" in out
    assert "longest tried" in cli("plan", "--alpha", "1", "--cost-ratio", "0")[0]


@given(alpha=st.floats(0, 1), gamma=st.integers(1, 20))
def test_alpha_is_recovered_from_accepted_per_drafted(alpha: float, gamma: int) -> None:
    share = sum(alpha**i for i in range(1, gamma + 1)) / gamma
    found = alpha_from_accepted_per_drafted(min(share, 1.0), gamma)
    assert found == pytest.approx(alpha, abs=1e-9)


def test_nothing_accepted_is_an_alpha_of_zero(cli: Cli) -> None:
    assert alpha_from_accepted_per_drafted(0, 4) == 0
    out, _ = cli("plan", "--accepted-per-drafted", "0", "--gamma", "4")
    assert out.startswith("alpha 0, ") and "alpha 0 is too low" in out


@pytest.mark.parametrize("value", ["1e30", "1e-30"])
def test_extreme_numbers_take_few_digits(cli: Cli, value: str) -> None:
    for option in ("--verify-cost", "--parameters", "--bytes", "--bandwidth"):
        out, _ = cli("plan", option, value)
        assert "inf" not in out and "nan" not in out
        assert max(map(len, re.findall(r"[\d.]+", out))) < 12


def test_an_engines_figure_takes_the_place_of_alpha(cli: Cli) -> None:
    """Measured at gamma 4 and 8 on the shipped pair: alpha was .764 and .778."""
    for share, gamma, alpha in (("0.54", "4", "0.768"), ("0.385", "8", "0.782")):
        out, _ = cli("plan", "--accepted-per-drafted", share, "--gamma", gamma)
        assert out.startswith(f"alpha {alpha}, ")


def test_the_gain_shrinks_with_the_batch_and_ends(cli: Cli) -> None:
    """295 tokens are free on that machine: 32 texts with gamma 8 still fit."""
    out, _ = cli("plan", "--batch", "500")
    rows = re.findall(r"^ +(\d+) +(\d+) +([\d.]+)x$", out.split("batches:")[1], re.M)
    assert [int(n) for n, _, _ in rows] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 500]
    gains = [float(gain) for _, _, gain in rows]
    assert gains[:6] == [3.09] * 6 and gains == sorted(gains, reverse=True)
    assert rows[-1][1:] == ("0", "1.00")

"""`minispec prove`: distributions that agree, and a wrong decoder that is found."""

from __future__ import annotations

import re

import pytest

from minispec.commands import prove
from minispec.commands.cli import main
from minispec.commands.methods import HEADS
from minispec.core import rejection
from minispec.core.rejection import reject


def test_it_proves_and_refutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove"]) == 0
    told = capsys.readouterr().out
    lines = re.findall(r"^(\S.{15})(\w+) +(\d+) +(\d+) +(\S+)$", told, re.M)
    named = [(drafter.strip(), how) for drafter, how, *_ in lines]
    for drafter in ("model", "ngram", "suffix", *HEADS):
        assert (drafter, "reject") in named and (drafter, "block") in named
    for drafter in ("model", "model, best", "ngram", "suffix", "medusa"):
        assert (drafter, "tree") in named
    for case in (("model", "greedy"), ("ngram", "coupled"), ("model", "batch")):
        assert case in named
    for _, how, sequences, branches, _ in lines:
        assert 1 <= int(sequences) <= int(branches) and "lossy" not in how
    *right, wrong = [float(difference) for *_, difference in lines]
    assert max(right) <= 1e-12 and wrong > 1e-3 and named[-1] == ("model", "lenient")
    assert "The distributions are the same" in told and "Found. " in told
    assert "too often" in told and "too rarely" in told


def test_a_distribution_that_differs_is_said_and_returned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "N_NEW", 2)
    monkeypatch.setattr(rejection, "residual", lambda target, draft: target)
    assert main(["prove", "--seed", "3"]) == 1
    assert "THE DISTRIBUTIONS DIFFER" in capsys.readouterr().out


def test_a_wrong_decoder_that_is_not_found_is_said_and_returned(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prove, "N_NEW", 2)
    monkeypatch.setattr(prove, "lenient", lambda lenience: reject)
    assert main(["prove"]) == 1
    assert "NOT FOUND" in capsys.readouterr().out


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_seed_must_be_a_whole_number(seed: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["prove", "--seed", seed])

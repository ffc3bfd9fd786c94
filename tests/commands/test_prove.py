"""`minispec prove`: distributions that agree, and a wrong decoder that is found."""

from __future__ import annotations

import re

import pytest
import torch

from minispec.commands import prove
from minispec.commands.cli import main
from minispec.core import rejection
from minispec.core.rejection import reject
from minispec.exactness import assert_same_distribution
from minispec.exactness.one_round import distribution_of_one_round


def test_it_proves_and_refutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["prove"]) == 0
    told = capsys.readouterr().out
    lines = re.findall(r"^(model|ngram) +\S.*? +(\d+) +(\d+) +(\S+)$", told, re.M)
    drafters = [drafter for drafter, *_ in lines]
    assert drafters == ["model"] * 3 + ["ngram"] * 2 + ["model"]
    for _, sequences, branches, _ in lines:
        assert 1 <= int(sequences) <= int(branches)
    *right, wrong = [float(difference) for *_, difference in lines]
    assert max(right) <= 1e-12 and wrong > 1e-3
    assert int(lines[0][2]) > 100
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
    monkeypatch.setattr(prove, "lenient", reject)
    assert main(["prove"]) == 1
    assert "NOT FOUND" in capsys.readouterr().out


def test_being_lenient_is_accepting_twice_as_readily() -> None:
    target = torch.tensor([[0.2, 0.8], [0.5, 0.5]], dtype=torch.float64)
    draft = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    found = distribution_of_one_round(prove.lenient, target, draft)
    half = {(0, 0): 0.2, (0, 1): 0.2, (1, 0): 0.3, (1, 1): 0.3}
    assert_same_distribution(found, half)


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_seed_must_be_a_whole_number(seed: str) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["prove", "--seed", seed])

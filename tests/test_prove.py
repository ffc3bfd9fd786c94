"""`minispec prove`: laws that agree, branches counted, and a wrong decoder found."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch


def test_it_proves_and_refutes(impl: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert impl.cli.main(["prove"]) == 0
    told = capsys.readouterr().out
    rows = re.findall(r"^(model|ngram) +\S.*? +(\d+) +(\d+) +(\S+)$", told, re.M)
    assert [kind for kind, *_ in rows] == ["model"] * 3 + ["ngram"] * 2
    for _, sequences, branches, difference in rows:
        assert 1 <= int(sequences) <= int(branches)
        assert float(difference) <= 1e-12
    assert int(rows[0][2]) > 100
    assert "The laws are the same" in told
    assert "too often" in told and "too rarely" in told and "Found: " in told


def test_a_law_that_differs_is_said_and_returned(
    impl: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(impl.commands.prove, "N_NEW", 2)
    monkeypatch.setattr(impl.rejection, "residual", lambda target, draft: target)
    assert impl.cli.main(["prove", "--seed", "3"]) == 1
    assert "THE LAWS DIFFER" in capsys.readouterr().out


def test_being_lenient_is_keeping_twice_as_readily(impl: Any) -> None:
    exactness, Lenient = impl.exactness, impl.commands.prove.Lenient
    ratios = torch.tensor([0.2, 0.6], dtype=torch.float64)
    law = exactness.output_law(lambda chance: [Lenient(chance).leading_accepts(ratios)])
    exactness.assert_same_law(law, {(0,): 0.6, (2,): 0.4})


@pytest.mark.parametrize("seed", ["-1", "x"])
def test_a_seed_that_is_none_is_refused(impl: Any, seed: str) -> None:
    try:
        assert impl.cli.main(["prove", "--seed", seed]) == 2
    except SystemExit as stopped:
        assert stopped.code == 2

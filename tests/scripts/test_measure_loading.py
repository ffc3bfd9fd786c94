"""Loading takes the weights' own bytes and next to nothing more."""

from pathlib import Path

import pytest
from support.script_loader import load_script

script = load_script("measure_loading")

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="peak memory is read from /proc"
)


def test_the_peak_is_the_weights_themselves(tmp_path: Path) -> None:
    """19 MB here; the script does the same for gpt2-xl. A copy would make it 2 x.

    Packed, the pages of the file are given back one matrix after another."""
    found = script.measure(tmp_path, "tiny", repeats=1)
    assert 0.9 < found["peak_bytes"] / found["weights_bytes"] < 1.3
    # The head is there twice, which is a quarter of this model.
    assert 0.9 < found["packed_peak_bytes"] / found["weights_bytes"] < 1.6
    assert "plain sequential read" in script.report("tiny", found)

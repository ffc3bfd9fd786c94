"""A command over two processes: the same text, once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch.distributed as dist

pytestmark = pytest.mark.skipif(
    not dist.is_available(), reason="this torch was built without torch.distributed"
)


def over_two(*argv: str) -> subprocess.CompletedProcess[str]:
    run = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "minispec"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *run, *argv],
        env=environment,
        text=True,
        capture_output=True,
        timeout=120,
    )


def test_two_ranks_write_the_text_of_one(cli) -> None:
    how = ["generate", "--tokens", "30", "--seed", "4"]
    expected, _ = cli(*how)
    done = over_two(*how)
    assert (done.returncode, done.stdout) == (0, expected)
    assert done.stderr.count("target passes") == 1


def test_what_cannot_be_split_is_said(pair: list[str]) -> None:
    done = over_two("generate", *pair)
    assert done.returncode != 0 and done.stdout == ""
    for argv, says in (
        (("--gamma", "auto"), "measures costs"),
        (("--prompt", "-"), "several processes cannot share it"),
        (("--drafter", "eagle"), "hidden states"),
    ):
        refused = over_two("generate", *argv)
        assert refused.returncode != 0 and says in refused.stderr
    assert "1 heads cannot be shared out evenly among 2" in done.stderr

#!/usr/bin/env python3
"""What loading a checkpoint costs: peak memory and time, beside reading its file.

    python scripts/measure_loading.py --shape gpt2-xl --dir /some/disk

writes random float32 weights in the shape of a GPT-2 (6.2 GB for gpt2-xl), then

  load   a fresh process loads them and touches every weight; its peak resident memory
         (VmHWM of /proc, so Linux only) above that of the interpreter with torch, just
         before, is given beside the weights' bytes
  pack   a fresh process loads them and packs them (`minispec/model/packed.py`)
  read   a fresh process reads the file from its first byte to its last

each `--repeats` times in turn, and shows the medians. The file is removed afterwards.
All find it in the system's cache if that is large enough.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from minispec.commands.ending import Parser, at_least, ended
from minispec.files import checkpoint
from minispec.model.gpt2 import GPT, GPTConfig
from minispec.model.packed import pack

SHAPES = {
    "tiny": GPTConfig(4, 4, 256, vocab_size=5000),
    "distilgpt2": GPTConfig(6, 12, 768),
    "gpt2": GPTConfig(12, 12, 768),
    "gpt2-medium": GPTConfig(24, 16, 1024),
    "gpt2-large": GPTConfig(36, 20, 1280),
    "gpt2-xl": GPTConfig(48, 25, 1600),
}
FILE = "model.safetensors"


@torch.no_grad()
def fill(model: GPT) -> GPT:
    """Random weights, quickly: one block of them over and over."""
    block = torch.empty(1 << 20).normal_(0, 0.02, generator=torch.Generator())
    for parameter in model.parameters():
        for piece in parameter.view(-1).split(len(block)):
            piece.copy_(block[: len(piece)])
    return model


def peak_memory() -> int:
    """The most memory that this process has had resident so far, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])


@torch.no_grad()
def load(folder: Path) -> dict[str, float]:
    """Load, then touch every weight; in a process of its own."""
    torch.ones(64, 64) @ torch.ones(64, 64)  # what torch allocates once
    before, start = peak_memory(), time.perf_counter()
    model = checkpoint.load(folder)
    loaded = time.perf_counter() - start
    for parameter in model.parameters():
        parameter.sum()  # a mapped page counts once it has been read
    return {
        "load_s": loaded,
        "load_and_touch_s": time.perf_counter() - start,
        "weights_bytes": sum(p.numel() * p.element_size() for p in model.parameters()),
        "peak_bytes": peak_memory() - before,
    }


def load_and_pack(folder: Path) -> dict[str, float]:
    """Load, then pack, which touches every weight; in a process of its own."""
    torch.ones(64, 64) @ torch.ones(64, 64)
    before, start = peak_memory(), time.perf_counter()
    pack(checkpoint.load(folder))
    return {
        "pack_s": time.perf_counter() - start,
        "packed_peak_bytes": peak_memory() - before,
    }


def read(folder: Path) -> dict[str, float]:
    """Read the file sequentially into one small buffer."""
    buffer, start = memoryview(bytearray(1 << 20)), time.perf_counter()
    with (folder / FILE).open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return {"read_s": time.perf_counter() - start}


JOBS = {"load": load, "pack": load_and_pack, "read": read}


def measure(folder: Path, shape: str, repeats: int) -> dict[str, float]:
    """Write the weights into `folder`, measure, and give the medians."""
    checkpoint.save(fill(GPT(SHAPES[shape])), folder)
    runs = []
    for _ in range(repeats):
        run: dict[str, float] = {}
        for job in JOBS:
            command = [sys.executable, __file__, "--job", job, "--dir", str(folder)]
            run |= json.loads(subprocess.check_output(command, text=True))
        runs.append(run)
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def report(shape: str, found: dict[str, float]) -> str:
    weights, peak = found["weights_bytes"], found["peak_bytes"]
    packed = found["packed_peak_bytes"]
    return f"""\
{shape}: {weights / 1e9:.3f} GB of float32 weights
peak above the interpreter  {peak / 1e9:.3f} GB, {peak / weights:.3f} x the weights
load                        {found['load_s']:.2f} s
load and touch every weight {found['load_and_touch_s']:.2f} s
load and pack               {found['pack_s']:.2f} s
peak of that                {packed / 1e9:.3f} GB, {packed / weights:.3f} x the weights
plain sequential read       {found['read_s']:.2f} s"""


def main(arguments: list[str] | None = None) -> int:
    """0 when measured, in a folder that goes away with the measurement."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shape", choices=SHAPES, default="gpt2")
    parser.add_argument("--dir", type=Path, help="where to put the temporary file")
    parser.add_argument("--repeats", type=at_least(1), default=3)
    parser.add_argument("--job", choices=JOBS, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.job:
        print(json.dumps(JOBS[options.job](options.dir)))
        return 0
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        found = measure(Path(folder), options.shape, options.repeats)
    print(report(options.shape, found))
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

"""Timing that survives a noisy machine: interleaved repeats, medians, fixed threads."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import torch


class Sample(NamedTuple):
    """One run of one variant."""

    name: str
    repeat: int
    seconds: float
    result: object


def interleave(
    works: Mapping[str, Callable[[int], object]], repeats: int
) -> Iterator[Sample]:
    """Run each variant once per repeat, `repeats` times; yield every run as it ends.

    Whatever slows the machine for a while then slows all variants alike, and ratios
    within one repeat stay right. Each repeat starts with another variant, so that none
    is always first. A work is given the number of its repeat, e.g. as a seed. Warm up
    before: the first call of anything is slow.
    """
    names = list(works)
    for repeat in range(repeats):
        start = repeat % len(names)
        for name in names[start:] + names[:start]:
            began = time.perf_counter()
            result = works[name](repeat)
            yield Sample(name, repeat, time.perf_counter() - began, result)


def cpu_name() -> str:
    """The processor's model, as well as this system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def machine() -> dict[str, str | int]:
    """What the figures were measured on."""
    return {
        "cpu": cpu_name(),
        "cores": os.cpu_count() or 1,
        "threads": torch.get_num_threads(),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }

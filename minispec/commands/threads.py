"""How many threads: one or all, whichever is faster for this model and just now.

The products of a small model take microseconds, and a thread that waits for the other
burns them. On an idle machine two threads verify a draft a third faster than one; on a
machine that has other work to do they can take ten times as long. So it is measured.

OMP_NUM_THREADS, where it is set, decides, and a large model takes all there are.
"""

from __future__ import annotations

import os
import time

import torch

from minispec.model.gpt2 import GPT

SMALL = 50_000_000  # parameters: beyond that a pass is long, and many threads pay
N_TOKENS = 5  # of a pass: a verification of four drafts
N_PASSES = 10  # of each kind, by turns


def settle_threads(model: GPT) -> None:
    """Set torch's number of threads to 1 if that makes passes of the model faster."""
    many = torch.get_num_threads()
    if model.wte.weight.device.type != "cpu":
        return
    if many == 1 or "OMP_NUM_THREADS" in os.environ or model.n_parameters > SMALL:
        return
    torch.set_num_threads(faster_of(many, 1, model))


def n_threads() -> str:
    """The number of threads now, in words."""
    n = torch.get_num_threads()
    return f"{n} thread" + "s" * (n > 1)


def faster_of(many: int, few: int, model: GPT) -> int:
    """The number of threads whose passes take less time together, stalls included."""
    seconds = {many: 0.0, few: 0.0}
    for n in seconds:
        seconds_of_pass(model, n)  # the first of each is slow
    for _ in range(N_PASSES):
        for n in seconds:
            seconds[n] += seconds_of_pass(model, n)
    return min(seconds, key=lambda n: seconds[n])


@torch.inference_mode()
def seconds_of_pass(model: GPT, n: int) -> float:
    """One pass over a few tokens with n threads, head included."""
    torch.set_num_threads(n)
    ids = torch.zeros(1, min(N_TOKENS, model.config.n_positions), dtype=torch.long)
    started = time.perf_counter()
    model(ids)
    return time.perf_counter() - started

"""A command over several processes: `torchrun --nproc-per-node 2 -m minispec ...`.

Every process (rank) runs the whole command. The target is split among them
(`model/parallel.py`), everything else is whole on each, and all take the same
decisions. Only rank 0 writes.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from traceback import print_exception

import torch
import torch.distributed as dist

from minispec.model.gpt2 import GPT

PATIENCE = timedelta(seconds=60)  # for a rank that says nothing


def several() -> bool:
    """Whether torchrun started this process, among others."""
    return int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ


def quiet() -> None:
    """Ranks other than the first say nothing but errors."""
    if several() and os.environ["RANK"] != "0":
        sys.stdout = sys.stderr = open(os.devnull, "w")
        sys.excepthook = lambda *error: print_exception(*error, file=sys.__stderr__)


def split_among_ranks(target: GPT) -> GPT:
    """This rank's part of the target; the target itself where there is one process.

    Raises ValueError where its parts would not be equal.
    """
    if not several():
        return target
    from minispec.model.parallel import split  # torch can be built without it

    if not dist.is_initialized():
        on_gpus = target.wte.weight.is_cuda
        dist.init_process_group("nccl" if on_gpus else "gloo", timeout=PATIENCE)
    return split(target)


def leave() -> None:
    """Wait for the others: a rank that is gone breaks exchanges they are still in."""
    if dist.is_available() and dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def own_device(name: str) -> str:
    """The device of that name for this rank: each has a GPU of its own."""
    rank = os.environ.get("LOCAL_RANK", "0")
    on_gpus = name == "cuda" or name == "auto" and torch.cuda.is_available()
    return f"cuda:{rank}" if several() and on_gpus else name

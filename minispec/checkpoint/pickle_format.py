"""The format of `torch.save`: a state dict, pickled, in a zip file since torch 1.6.

A pickle can run any code when it is loaded. These are read with `weights_only=True`,
which builds tensors and plain containers and refuses everything else.
"""

from __future__ import annotations

import pickle
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.checkpoint.safetensors_format import CheckpointError


def read(path: Path) -> dict[str, Tensor]:
    """The state dict of a `torch.save` file, memory-mapped where its format allows.

    One level of nesting under "model" or "state_dict" is opened: nanoGPT and others
    store their training state around it.
    """
    try:
        found = _load(path)
    except pickle.UnpicklingError as error:
        raise CheckpointError(_refusal(path, error)) from error
    except Exception as error:  # a damaged file raises nearly anything
        raise CheckpointError(
            f"{path} cannot be read ({_first_line(error)}): cut short, or not written "
            "by torch.save; download it again"
        ) from error
    for nest in ("model", "state_dict"):
        if isinstance(found, dict) and isinstance(found.get(nest), dict):
            found = found[nest]
    return _only_tensors(path, found)


def _load(path: Path) -> Any:
    mapped = zipfile.is_zipfile(path)  # the format before torch 1.6 is none
    with warnings.catch_warnings():  # what is wrong with a file is ours to say
        warnings.simplefilter("ignore")
        return torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)


def _refusal(path: Path, error: Exception) -> str:
    """What an unsafe pickle asked for; other damage comes as the same exception.

    torch says `Unsupported global: GLOBAL x`, or `unsupported GLOBAL x whose module is
    blocked` of the worst; and `Unsupported operand 149` of what it never writes.
    """
    wanted = re.search(r"nsupported (?:\w+: )?GLOBAL (\S+)|nsupported (.+)", str(error))
    asked = next(filter(None, wanted.groups())) if wanted else _first_line(error)
    return (
        f"{path} is refused: more than tensors in it ({asked:.150}), and loading that "
        "could run any code; take a safetensors file of the model instead"
    )


def _first_line(error: Exception) -> str:
    first = (str(error).splitlines() or ["it ends at once"])[0]
    return f"{type(error).__name__}: {first:.150}"


def _only_tensors(path: Path, found: Any) -> dict[str, Tensor]:
    if not isinstance(found, dict):
        raise CheckpointError(
            f"{path} holds a {type(found).__name__}, expected a state dict: key to "
            "tensor; save model.state_dict()"
        )
    for key, value in found.items():
        if not isinstance(key, str) or not _is_plain(value):
            raise CheckpointError(
                f"{path}: {key!r:.80} is a {type(value).__name__}, expected a dense "
                "tensor; save model.state_dict() alone"
            )
    return dict(found)


def _is_plain(value: Any) -> bool:
    """A tensor with a value stored for each of its numbers.

    Not so are sparse ones, mere shapes ("meta"), and one number repeated a billionfold.
    """
    return (
        isinstance(value, Tensor)
        and value.layout == torch.strided
        and value.device.type == "cpu"
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )

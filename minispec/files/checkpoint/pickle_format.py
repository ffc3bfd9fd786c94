"""The format of `torch.save`: a state dict, pickled, in a zip file since torch 1.6.

A pickle can run any code when it is loaded. So its opcodes are read first, and only
those of a state dict pass (`pickle_opcodes.py`). Then torch loads it with
`weights_only=True`, which has a list of its own. What torch would hand to another
reader (TorchScript, tar) is rejected before torch sees it: up to torch 2.5 that reader
ran code (CVE-2025-32434).
"""

from __future__ import annotations

import io
import re
import tarfile
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.files.checkpoint.pickle_opcodes import Unsafe, check
from minispec.files.checkpoint.recognition import TORCH, check_kind
from minispec.files.errors import CheckpointError, shown

TAKE = "take a safetensors file of the model instead"


def read(path: Path) -> dict[str, Tensor]:
    """The state dict of a `torch.save` file, memory-mapped where its format allows.

    One level of nesting under "model" or "state_dict" is opened: nanoGPT and others
    store their training state around it.
    """
    check_kind(path, TORCH)
    try:
        zipped = _check_container(path)
        _check_pickles(path, zipped)
        with warnings.catch_warnings():  # what is wrong with a file is ours to say
            warnings.simplefilter("ignore")
            found = torch.load(path, map_location="cpu", weights_only=True, mmap=zipped)
    except CheckpointError:
        raise
    except Unsafe as error:
        raise CheckpointError(
            f"{path} is rejected: it asks for more than dense tensors need "
            f"({shown(error, 150)}), which could run code or never end; {TAKE}"
        ) from error
    except Exception as error:  # a damaged file raises nearly anything
        raise CheckpointError(
            f"{path} cannot be read ({_first_line(error)}): cut short, or not written "
            "by torch.save; download it again"
        ) from error
    for nest in ("model", "state_dict"):
        if isinstance(found, dict) and isinstance(dict.get(found, nest), dict):
            found = found[nest]
    return _only_tensors(path, found)


def _check_container(path: Path) -> bool:
    """Whether it is a zip file, told as torch tells it; of which only plain ones pass.

    A compressed member could be a thousand times as large as the file.
    """
    with path.open("rb") as file:
        zipped = file.read(4) == b"PK\x03\x04"
    if not zipped and tarfile.is_tarfile(path):
        raise CheckpointError(f"{path} is a tar file, older than torch 0.1.10; {TAKE}")
    if not zipped:
        return False
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
    code = re.compile(r"(^|/)(code/|constants\.pkl$)", re.IGNORECASE)  # as in torch
    if any(code.search(member.filename) for member in members):
        raise CheckpointError(f"{path} is a TorchScript archive, which is code; {TAKE}")
    if any(member.compress_type != zipfile.ZIP_STORED for member in members):
        raise CheckpointError(f"{path} is compressed, unlike torch.save's; {TAKE}")
    return True


def _check_pickles(path: Path, zipped: bool) -> None:
    """Every pickle of the file, as torch's own reader of zip files finds it there."""
    if zipped:
        check(io.BytesIO(torch._C.PyTorchFileReader(str(path)).get_record("data.pkl")))
        return
    with path.open("rb") as file:
        for _ in range(5):  # a magic number, a version, the machine, all, storage keys
            check(file)


def _first_line(error: Exception) -> str:
    first = (str(error).splitlines() or ["it ends at once"])[0]
    return f"{type(error).__name__}: {shown(first, 150)}"


def _only_tensors(path: Path, found: Any) -> dict[str, Tensor]:
    if not isinstance(found, dict):
        raise CheckpointError(
            f"{path} holds a {type(found).__name__}, expected a state dict: key to "
            "tensor; save model.state_dict()"
        )
    tensors = dict(dict.items(found))  # an OrderedDict from a file may have `items`
    for key, value in tensors.items():
        if not isinstance(key, str):
            raise CheckpointError(
                f"{path} has a key of type {type(key).__name__}, expected names of "
                "tensors; save model.state_dict()"
            )
        if not _is_plain(value):
            raise CheckpointError(
                f"{path}: {shown(repr(key))} is a {type(value).__name__}, expected a "
                "dense tensor; save model.state_dict() alone"
            )
    return tensors


def _is_plain(value: Any) -> bool:
    """A tensor with a value stored for each of its numbers, not one for a billion."""
    return (
        isinstance(value, Tensor)
        and value.numel() * value.element_size() <= value.untyped_storage().nbytes()
    )

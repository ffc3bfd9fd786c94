"""Which files of a folder hold the weights, and the tensors in them, as they stand.

In the order of preference: `model.safetensors`; the same in shards, named by an index;
`pytorch_model.bin` (a pickle); that in shards. Names and layouts are the business of
`key_names.py`.

A pickle can run any code when it is loaded. These are read with `weights_only=True`,
which builds tensors and plain containers and refuses everything else.
"""

from __future__ import annotations

import json
import pickle
import re
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec.checkpoint import safetensors_format
from minispec.checkpoint.safetensors_format import CheckpointError

Reader = Callable[[Path], dict[str, Tensor]]
INDEX = ".index.json"


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor that a checkpoint folder holds, under the name it has there."""
    path = find_weights(folder)
    read = READERS[path.name.removesuffix(INDEX)]
    return read_shards(path, read) if path.name.endswith(INDEX) else read(path)


def find_weights(folder: Path) -> Path:
    """The file of weights, or the index of its shards."""
    for name in (f"{kind}{end}" for kind in READERS for end in ("", INDEX)):
        if (folder / name).is_file():
            return folder / name
    parts = sorted(path.name for path in folder.glob("*.part"))
    hint = f" ({parts[0]} is an unfinished download: run it again)" if parts else ""
    raise CheckpointError(
        f"no weights in {folder}{hint}: expected one of {', '.join(READERS)}, or its "
        f"{INDEX}; fetch them with scripts/download_weights.py"
    )


def weight_paths(folder: Path) -> list[Path]:
    """The files that `read_weights` reads."""
    path = find_weights(folder)
    if not path.name.endswith(INDEX):
        return [path]
    return [folder / shard for shard in sorted(set(shard_map(path).values()))]


def read_shards(index: Path, read: Reader) -> dict[str, Tensor]:
    """The tensors of all the files that an index names, checked against it."""
    file_of = shard_map(index)
    tensors: dict[str, Tensor] = {}
    for shard in sorted(set(file_of.values())):
        if not (index.parent / shard).is_file():
            raise CheckpointError(f"{index} names {shard}, which is missing; fetch it")
        for key, tensor in read(index.parent / shard).items():
            if file_of.get(key) != shard:
                raise CheckpointError(
                    f"{shard} holds {key}, which {index} expects in "
                    f"{file_of.get(key, 'no file')}; fetch index and shards together"
                )
            tensors[key] = tensor
    lost = sorted(file_of.keys() - tensors.keys())
    if lost:
        raise CheckpointError(
            f"{file_of[lost[0]]} lacks {lost[0]}, which {index} expects in it; fetch "
            "index and shards together"
        )
    return tensors


def shard_map(index: Path) -> dict[str, str]:
    """An index's `weight_map`: key -> name of a file beside the index."""
    try:
        file_of = json.loads(index.read_text(encoding="utf-8"))["weight_map"]
        # A name with a path in it could lead out of the folder.
        plain = all(re.fullmatch(r"[\w-][\w.-]*", name) for name in file_of.values())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CheckpointError(
            f"{index} is no index of shards ({type(error).__name__}): expected JSON "
            'with "weight_map", key to file; download it again'
        ) from error
    if not plain:
        raise CheckpointError(
            f"{index} names files outside its folder; expected plain file names, do "
            "not use it"
        )
    return file_of


def read_pickle(path: Path) -> dict[str, Tensor]:
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


READERS: dict[str, Reader] = {
    "model.safetensors": safetensors_format.read,
    "pytorch_model.bin": read_pickle,
}

"""Which files of a folder hold the weights, and the tensors in them, as they stand.

In the order of preference: `model.safetensors`; the same in shards, named by an index;
`pytorch_model.bin` (a pickle); that in shards. The formats have their own files, names
and layouts are the business of `key_names.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from torch import Tensor

from minispec.files.checkpoint import pickle_format, safetensors_format
from minispec.files.checkpoint.config import read_json
from minispec.files.errors import CheckpointError, contents, shown

Reader = Callable[[Path], dict[str, Tensor]]
INDEX = ".index.json"
PLAIN_NAME = re.compile(r"[\w-][\w.-]{0,199}")  # a path could lead out of the folder


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
    raise CheckpointError(
        f"no weights in {folder}, which holds {contents(folder)}: expected one of "
        f"{', '.join(READERS)}, or its {INDEX}; fetch them with "
        "scripts/download_weights.py"
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
                    f"{shard} holds {shown(key)}, which {index} expects in "
                    f"{file_of.get(key, 'no file')}; fetch index and shards together"
                )
            tensors[key] = tensor
    lost = sorted(file_of.keys() - tensors.keys())
    if lost:
        raise CheckpointError(
            f"{file_of[lost[0]]} lacks {shown(lost[0])}, which {index} expects in it; "
            "fetch index and shards together"
        )
    return tensors


def shard_map(index: Path) -> dict[str, str]:
    """An index's `weight_map`: key -> name of a file beside the index."""
    file_of = read_json(index).get("weight_map")
    if not isinstance(file_of, dict) or not file_of:
        raise CheckpointError(
            f'{index} is not an index of shards: expected "weight_map", key to file; '
            "download it again"
        )
    for name in file_of.values():
        if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
            raise CheckpointError(
                f"{index} names {shown(repr(name))}, expected plain names of files in "
                "its folder; do not use it"
            )
    return file_of


READERS: dict[str, Reader] = {
    "model.safetensors": safetensors_format.read,
    "pytorch_model.bin": pickle_format.read,
}

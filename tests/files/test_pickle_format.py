"""pytorch_model.bin: the tensors come out, and nothing that the file asks for runs."""

import copy
import io
import json
import os
import pickle
import random
import tarfile
import time
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from minispec.files.checkpoint import load, pickle_format, safetensors_format
from minispec.files.errors import CheckpointError

from support.folders import (
    MODEL, UNTIED, lay, lay_shards, prefixed, same_model, state, stated,
)  # fmt: skip

FILE = "pytorch_model.bin"


@pytest.mark.parametrize("shards", [False, True])
def test_a_pickle_beside_safetensors_is_not_touched(tmp_path, shards):
    lay(tmp_path, state(UNTIED), name=FILE)
    if shards:
        lay_shards(tmp_path, "safetensors")
    else:
        lay(tmp_path, state())
    assert same_model(load(tmp_path))


def test_the_older_format_and_a_training_state_around_the_weights(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(stated()))
    torch.save(state(), tmp_path / FILE, _use_new_zipfile_serialization=False)
    assert same_model(load(tmp_path))
    nested = {"model": prefixed("_orig_mod."), "iter_num": 3, "optimizer": {"lr": 1}}
    assert same_model(load(lay(tmp_path, nested, name=FILE)))


TRAINING = {  # what others store around the weights; a tied head shares its tensor
    "optimizer": torch.optim.AdamW(UNTIED.parameters()).state_dict(),
    "random": random.getstate(),
    "facts": {"type": torch.bfloat16, "device": torch.device("cpu"), "best": [0.5, 1]},
    "shape": torch.Size([2, 3]),
}
FORMS = {
    "a state dict with its metadata": MODEL.state_dict(),
    "parameters": dict(MODEL.named_parameters()),
    "bfloat16": {key: tensor.bfloat16() for key, tensor in state().items()},
    "a training state": {"state_dict": MODEL.state_dict(), **TRAINING},
    "a tied head and masks": state()
    | dict.fromkeys(("wte.weight", "lm_head.weight"), MODEL.wte.weight)
    | {"h.0.attn.bias": torch.ones(1, 1, 9, 9, dtype=torch.bool)},
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("zipped", [True, False])
def test_what_torch_saves_passes(tmp_path, form, zipped):
    (tmp_path / "config.json").write_text(json.dumps(stated()))
    torch.save(
        FORMS[form], tmp_path / FILE, _use_new_zipfile_serialization=zipped
    )
    like = copy.deepcopy(MODEL)
    if form == "bfloat16":
        like.bfloat16().float()
    assert same_model(load(tmp_path), like)


@pytest.mark.parametrize("name", ["model.safetensors", FILE])
def test_a_file_cut_short_anywhere_is_rejected(tmp_path, name):
    lay(tmp_path, state(), name=name)
    raw = (tmp_path / name).read_bytes()
    for length in [*range(0, len(raw), 211), len(raw) - 1]:
        (tmp_path / name).write_bytes(raw[:length])
        with pytest.raises(CheckpointError):
            load(tmp_path)


class Payload:
    """What a hostile pickle does: run something of its own while it is loaded."""

    def __init__(self, call, *arguments):
        self.call, self.arguments = call, arguments

    def __reduce__(self):
        return (self.call, self.arguments)


PAYLOADS = {
    rf"{os.name}\.system": Payload(os.system, "touch ran"),
    r"(builtins|__builtin__)\.exec|exec": Payload(exec, "open('ran', 'w')"),
    "getattr": Payload(Path("ran").touch),
}


@pytest.mark.parametrize("asked", PAYLOADS)
@pytest.mark.parametrize("zipped", [True, False])
def test_a_pickle_that_wants_more_is_rejected_by_name(
    tmp_path, monkeypatch, zipped, asked
):
    monkeypatch.chdir(tmp_path)
    tensors = {"wte.weight": PAYLOADS[asked]}
    torch.save(tensors, FILE, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match=rf"rejected: .*\(.*({asked})\)"):
        pickle_format.read(Path(FILE))
    assert not Path("ran").exists()


@pytest.mark.parametrize("asked", PAYLOADS)
@pytest.mark.parametrize("zipped", [True, False])
def test_torch_is_the_second_wall(tmp_path, monkeypatch, zipped, asked):
    """It is asked for weights alone, whatever passed the first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pickle_format, "check", lambda file: None)
    torch.save(PAYLOADS[asked], FILE, _use_new_zipfile_serialization=zipped)
    with pytest.raises(CheckpointError, match="UnpicklingError"):
        pickle_format.read(Path(FILE))
    assert not Path("ran").exists()


class Scripted(torch.nn.Module):
    """A model as TorchScript stores it, with code that its loader runs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def script(path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.jit.script(Scripted()).save(str(path))


def tar(path):
    with tarfile.open(path, "w") as archive:
        archive.add(__file__, "pickle")


def bomb(path):
    """20 MB of zeros in 20 kB, in the form of torch.save but for the compression."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("m/data.pkl", "w", force_zip64=True) as member:
            for _ in range(20):
                member.write(bytes(10**6))


CONTAINERS = {
    "is a TorchScript archive, which is code; take a safetensors": script,
    "is a tar file": tar,
    "is compressed": bomb,
    "is a Git LFS pointer, not a file of torch.save; run `git lfs pull`": b"version "
    b"https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 5\n",
    "is a web page, not a file of torch.save; download": b"\n<!DOCTYPE html><html>",
    "is a safetensors file, not a file of torch.save; rename it model.safetensors": (
        lambda path: safetensors_format.write(state(), path)
    ),
    "is a GGUF file": b"GGUF\x03\0\0\0",
    "cut short, or not written by torch.save": b"",
}


@pytest.mark.parametrize("message", CONTAINERS)
def test_other_files_are_named_before_torch_sees_them(tmp_path, monkeypatch, message):
    """The first three could run code on torch up to 2.5, or take memory without end."""
    make, path = CONTAINERS[message], tmp_path / FILE
    path.write_bytes(make) if isinstance(make, bytes) else make(path)
    if make:
        monkeypatch.setattr(torch, "load", None)
    with pytest.raises(CheckpointError, match=message):
        pickle_format.read(path)


def test_the_same_for_a_file_named_model_safetensors(tmp_path):
    torch.save(state(), tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match=f"is a file of torch.save.*{FILE}"):
        safetensors_format.read(tmp_path / "model.safetensors")


@pytest.mark.parametrize("protocol", [2, 4])
def test_a_rejected_file_is_said_in_one_line_and_nothing_else(tmp_path, protocol):
    """torch has its own warnings about such files: they would be more lines."""
    path = tmp_path / FILE
    path.write_bytes(pickle.dumps({"wte.weight": 1}, protocol))
    with pytest.raises(CheckpointError) as caught, warnings.catch_warnings():
        warnings.simplefilter("error")
        pickle_format.read(path)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "found, message",
    [
        ([torch.ones(2)], "holds a list"),
        ({"wte.weight": 3}, "'wte.weight' is a int, expected a dense tensor"),
        ({3: torch.ones(2)}, "a key of type int"),
        ({("a", (1,)): torch.ones(2)}, "rejected: .*key that is no text"),
        ({"a\x1b" * 9999: 3}, r"'a\\x1b.*is a int"),
        ({"a": torch.ones(2, 2).to_sparse()}, "rejected: .*_rebuild_sparse_tensor"),
        ({"a": torch.ones(2, 2, device="meta")}, "rejected: .*_rebuild_meta_tensor"),
        ({"a": torch.ones(1).expand(10**12)}, "expected a dense tensor"),
    ],
)
def test_a_pickle_of_something_else_is_rejected(tmp_path, found, message):
    torch.save(found, tmp_path / FILE)
    with pytest.raises(CheckpointError, match=message) as caught:
        pickle_format.read(tmp_path / FILE)
    assert str(caught.value).isprintable() and len(str(caught.value)) < 700


# The opcodes of hostile pickles. PUT and GET name a place in the memo by one byte.
MARK, TUPLE, TUPLE1, REDUCE, SETITEM, APPEND = b"(", b"t", b"\x85", b"R", b"s", b"a"
DICT, LIST, ONE, PUT, GET, STOP = b"}", b"]", b"K\1", b"q", b"h", b"."
HEAD = b"\x80\x02"
GLOBALS = {"ordered": b"ccollections\nOrderedDict\n", "size": b"ctorch\nSize\n"}


def unfolding(begin, end):
    """A list of 15 things: each holds the one before ten times."""
    made = LIST + ONE + PUT + b"\0" + APPEND
    for i in range(15):
        before = GET + bytes([i])
        made += begin + before * 10 + end + PUT + bytes([i + 1]) + APPEND
    return made + GET + b"\x0f"


HOSTILE = {
    "a tuple of more than 1000": DICT + unfolding(MARK, TUPLE) + ONE + SETITEM,
    "more than 1000 objects": DICT + b")" + TUPLE1 * 200_000 + ONE + SETITEM,
    "list or dict in two places": unfolding(LIST + MARK, b"e") + b")" + REDUCE,
    "in two places": MARK + LIST + PUT + b"\0" + TUPLE + PUT + b"\1" + GET + b"\1",
    "dict in two places": GLOBALS["size"] + LIST + TUPLE1 + REDUCE + PUT + b"\0"
    + GET + b"\0",
    "a key that is no text": DICT + b"\x8a\x01\x07" + ONE + SETITEM,
    "made from another object": GLOBALS["ordered"] + LIST + TUPLE1 + REDUCE,
    "what is no function": DICT + LIST + b")" + REDUCE,
    "builtins.bytearray": b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85" + REDUCE,
    "torch._utils._rebuild_qtensor": b"ctorch._utils\n_rebuild_qtensor\n",
    "more than there is on its stack": MARK + ONE + SETITEM,
    "more than 300000 opcodes": DICT + LIST + (ONE + APPEND) * 150_000,
    "LIST": MARK + b"l",
}


def in_zip(pickled):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in (("data.pkl", pickled), ("version", b"3\n")):
            archive.writestr(f"archive/{name}", data)
    return file.getvalue()


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("asked", HOSTILE)
def test_opcodes_are_checked_before_torch_sees_them(
    tmp_path, monkeypatch, zipped, asked
):
    """Memory or time without end, or a crash of the interpreter, were these loaded."""
    pickled = HEAD + HOSTILE[asked] + STOP
    (tmp_path / FILE).write_bytes(in_zip(pickled) if zipped else pickled)
    monkeypatch.setattr(torch, "load", None)
    start = time.process_time()
    with pytest.raises(CheckpointError, match=rf"is rejected: .*{asked}"):
        pickle_format.read(tmp_path / FILE)
    assert time.process_time() - start < 10


def test_what_a_file_says_of_its_dict_is_not_believed(tmp_path):
    """An OrderedDict may come with attributes in place of its methods."""
    pickled = HEAD + GLOBALS["ordered"] + b")" + REDUCE + DICT
    for name in (b"items", b"keys", b"get"):
        pickled += b"X" + len(name).to_bytes(4, "little") + name + ONE + SETITEM
    (tmp_path / FILE).write_bytes(in_zip(pickled + b"b" + STOP))
    assert pickle_format.read(tmp_path / FILE) == {}


def test_reading_takes_time_in_proportion_to_the_file(tmp_path):
    """Names, numbers and nesting without end, read or rejected within seconds."""
    start = time.process_time()
    torch.save({"x" * 10**6 + str(i): 1 for i in range(10)}, tmp_path / FILE)
    with pytest.raises(CheckpointError):
        pickle_format.read(tmp_path / FILE)
    lay(tmp_path, {f"{'a.' * 50}{i}": torch.ones(1) for i in range(20_000)})
    with pytest.raises(CheckpointError, match="no layers"):
        load(tmp_path)
    for text in ('{"n_layer": ' + "9" * 10**6 + "}", "[" * 10**6, '{"a":' * 10**5):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(CheckpointError):
            load(tmp_path)
    assert time.process_time() - start < 20

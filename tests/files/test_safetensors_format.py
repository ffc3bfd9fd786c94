"""Our reader and writer of safetensors against the format's own package.

The fuzz test states the contract: whatever bytes a file holds, `read` gives exactly
what the `safetensors` package reads, or raises CheckpointError. The reader is never
kinder than the package, and stricter only about what STRICTER names.
"""

import json
import time
import tracemalloc
from pathlib import Path

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from minispec.files.checkpoint.safetensors_format import read, write
from minispec.files.checkpoint.safetensors_header import DTYPES, MAX_HEADER
from minispec.files.errors import CheckpointError

THOROUGH = settings.default.max_examples >= 1000  # --hypothesis-profile thorough
FUZZ = 20_000 if THOROUGH else 200  # damaged files
SHARED = [  # the types that both sides can compare
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64,
    torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool,
]  # fmt: skip

shapes = st.lists(st.integers(0, 4), max_size=4)
names = st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8
).filter(lambda name: name != "__metadata__")


@st.composite
def tensors(draw, max_size=4):
    """A few named tensors of any shape and type, 0-dimensional and empty ones too."""
    found = {}
    for name in draw(st.lists(names, max_size=max_size, unique=True)):
        shape, dtype = draw(shapes), draw(st.sampled_from(SHARED))
        seed = torch.Generator().manual_seed(draw(st.integers(0, 9)))
        found[name] = torch.randint(0, 2, shape, generator=seed).to(dtype)
    return found


def same(mine: dict, theirs: dict) -> bool:
    return mine.keys() == theirs.keys() and all(
        mine[k].dtype == theirs[k].dtype
        and mine[k].shape == theirs[k].shape
        and as_bytes(mine[k]) == as_bytes(theirs[k])
        for k in mine
    )


def as_bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def file_of(header, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file, written anew by every example."""
    return tmp_path_factory.mktemp("format") / "model.safetensors"


@given(tensors())
def test_what_we_write_the_package_reads_and_it_lies_aligned(path, given_tensors):
    """Each array at a multiple of its type's size, whatever order they are given in."""
    write(given_tensors, path)
    assert same(given_tensors, safetensors.torch.load_file(path))
    assert same(given_tensors, read(path))
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    for name, tensor in given_tensors.items():
        begin = 8 + length + header[name]["data_offsets"][0]
        assert begin % tensor.element_size() == 0


@given(tensors())
def test_what_the_package_writes_we_read(path, given_tensors):
    safetensors.torch.save_file(given_tensors, path, metadata={"format": "pt"})
    assert same(given_tensors, read(path))


@pytest.mark.parametrize("name", DTYPES)
def test_every_type_round_trips(path, name):
    pattern = torch.arange(48, dtype=torch.uint8) % 2
    tensor = pattern.view(DTYPES[name])
    write({"a": tensor}, path)
    back = read(path)["a"]
    assert back.dtype == DTYPES[name] and as_bytes(back) == as_bytes(pattern)


@pytest.mark.parametrize("shift", range(9))
def test_data_at_any_address_read_the_same(path, shift):
    """Older writers did not align: gpt2's own file has its data at an odd byte."""
    entry = {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}
    text = json.dumps({"a": entry}).encode() + b" " * shift
    values = torch.tensor([1.0, -2.5, 3e-8])
    path.write_bytes(file_of(text, as_bytes(values)))
    back = read(path)["a"]
    assert torch.equal(back, values) and back.data_ptr() % 4 == 0


def test_views_share_the_map_and_never_write_to_the_file(path):
    write({"a": torch.zeros(1000), "b": torch.ones(1000)}, path)
    before, found = path.read_bytes(), read(path)
    assert abs(found["a"].data_ptr() - found["b"].data_ptr()) == 4000  # not copied
    found["a"].fill_(7.0)
    assert path.read_bytes() == before
    assert torch.equal(read(path)["a"], torch.zeros(1000))


def test_a_replaced_file_leaves_its_readers_alone(path):
    write({"a": torch.arange(5000.0)}, path)
    held = read(path)["a"]
    write({"a": held[:3] + 1}, path)
    assert torch.equal(held, torch.arange(5000.0))
    assert torch.equal(read(path)["a"], torch.tensor([1.0, 2.0, 3.0]))


def test_what_cannot_be_written_leaves_nothing(tmp_path):
    half = {"\ud800": torch.zeros(2)}  # of a character: no reader would take it
    for tensors in ({"a": torch.zeros(2, dtype=torch.complex128)}, half):
        with pytest.raises((KeyError, UnicodeEncodeError)):
            write(tensors, tmp_path / "m.safetensors")
    assert list(tmp_path.iterdir()) == []


F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
BROKEN = {
    "duplicate key": b'{"a": %b, "a": %b}' % ((json.dumps(F32).encode(),) * 2),
    "fewer bytes than the shape": {"a": {**F32, "shape": [3]}},
    "more bytes than the shape": {"a": {**F32, "shape": [1]}},
    "overlap": {"a": F32, "b": F32},
    "hole at the start": {"a": {**F32, "shape": [1], "data_offsets": [4, 8]}},
    "hole at the end": {"a": {**F32, "shape": [1], "data_offsets": [0, 4]}},
    "beyond the end": {"a": {**F32, "shape": [4], "data_offsets": [0, 16]}},
    "backwards": {"a": {**F32, "data_offsets": [8, 0]}},
    "unknown type": {"a": {**F32, "dtype": "F33"}},
    "type no text": {"a": {**F32, "dtype": ["F32"]}},
    "negative axis": {"a": {**F32, "shape": [-1, -2]}},
    "axis that is true": {"a": {**F32, "shape": [True, 2]}},
    "axis that is 2.0": {"a": {**F32, "shape": [2.0]}},
    "astronomic shape": {"a": {**F32, "shape": [2**62, 2**62, 0]}},
    "no shape": {"a": {"dtype": "F32", "data_offsets": [0, 8]}},
    "three offsets": {"a": {**F32, "data_offsets": [0, 4, 8]}},
    "metadata that is not text": {"a": F32, "__metadata__": {"n": 1}},
    "no object": [F32],
    "not JSON": b"{",
    "NaN": b'{"a": NaN}',
    "half a character in a name": {"a\ud800": F32},
    "half a character in the metadata": {"a": F32, "__metadata__": {"a": "\ud800"}},
    "zero with a minus": json.dumps({"a": F32}).replace("[0", "[-0").encode(),
    "an axis of minus 0": b'{"a":{"dtype":"F32","shape":[-0],"data_offsets":[0,0]}}',
    "2**64": {"a": {**F32, "shape": [2**64]}},
    "65 axes": {"a": {**F32, "shape": [1] * 64 + [2]}},
    "deep nesting": b'{"a":' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "a number of 5,000 digits": b'{"a": ' + b"9" * 5000 + b"}",
    "UTF-16": json.dumps({"a": F32}).encode("utf-16"),
    "not UTF-8": b'{"\xff": 1}',
    "a space in front": b" " + json.dumps({"a": F32}).encode(),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_malformed_header_is_rejected(path, case):
    path.write_bytes(file_of(BROKEN[case], bytes(8)))
    if case not in ("duplicate key", "a space in front", "65 axes"):  # stricter here
        with pytest.raises(safetensors.SafetensorError):
            safetensors.torch.load_file(path)
    with pytest.raises(CheckpointError, match="malformed header"):
        read(path)


@pytest.mark.parametrize("length", [9, 2**20, MAX_HEADER + 1, 2**63, 2**64 - 1])
def test_a_claimed_length_allocates_nothing(path, length):
    path.write_bytes(length.to_bytes(8, "little") + b"{}      ")
    tracemalloc.start()
    try:
        with pytest.raises(CheckpointError, match=f"claims a header of {length}"):
            read(path)
        assert tracemalloc.get_traced_memory()[1] < 50_000
    finally:
        tracemalloc.stop()


def test_a_header_beyond_ours_is_not_parsed(path):
    path.write_bytes(file_of(b"{}" + b" " * MAX_HEADER))
    with pytest.raises(CheckpointError, match=f"at most {MAX_HEADER} are read"):
        read(path)


def test_a_tensor_at_an_odd_address_may_need_more_memory_than_there_is(
    path, monkeypatch
):
    """The file may be sparse: it claims gigabytes and takes a page."""
    text = json.dumps({"a": {**F32, "data_offsets": [0, 8]}}).encode()
    path.write_bytes(file_of(text + b" " * (-len(text) % 4 + 1), bytes(8)))

    def none_left(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch, "empty", none_left)
    with pytest.raises(CheckpointError, match="needs 8 bytes of memory, more than"):
        read(path)


def test_the_checks_take_time_in_proportion_to_the_header(path):
    """Seconds for what took minutes; and the message stays short."""
    shape = {"dtype": "F32", "shape": [1] * 10**6, "data_offsets": [0, 4]}
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    long_name = {"a\x1b" * 10**6: {**F32, "shape": [3]}}
    start = time.process_time()
    for header in ({"a": shape}, long_name, b'{"a":' * 10**6, b'{"a":' + b"9" * 10**6):
        path.write_bytes(file_of(header, bytes(8)))
        with pytest.raises(CheckpointError) as caught:
            read(path)
        assert len(str(caught.value)) < 500 and str(caught.value).isprintable()
    path.write_bytes(file_of({f"{i:060}": empty for i in range(80_000)}))
    assert len(read(path)) == 80_000
    assert time.process_time() - start < 20


def test_stumps_folders_and_pointer_files_are_named(tmp_path):
    with pytest.raises(CheckpointError, match="is not a file"):
        read(tmp_path)
    file = tmp_path / "model.safetensors"
    for content, message in (
        (b"", "has 0 bytes"), (bytes(7), "has 7 bytes, .* at least 8"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "git lfs pull"),
        (b"<html>", "web page"), (b"<!doctype html>\n{}", "web page"),
    ):  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(CheckpointError, match=message):
            read(file)


# --- fuzzing: well-formed files, damaged -------------------------------------------

sizes = st.one_of(
    st.integers(-2, 40), st.sampled_from([2**31, 2**63 - 1, 2**63, 2**64, 10**30, -0.0])
)
junk = st.one_of(
    st.none(), st.booleans(), sizes, st.floats(), st.text(max_size=3),
    st.lists(sizes, max_size=4),
    st.dictionaries(st.text(max_size=3), sizes, max_size=2),
)  # fmt: skip


def damage_bytes(draw, raw: bytes) -> bytes:
    """Some bytes changed, cut out, put in, or the end cut off."""
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(raw)))
        new = draw(st.binary(max_size=3))
        raw = raw[:at] + new + raw[at + draw(st.sampled_from([0, 1, 3, 10**6])) :]
    return raw


def damage_length(draw, raw: bytes) -> bytes:
    length = draw(st.one_of(st.integers(0, 2 * len(raw)), st.integers(0, 2**64 - 1)))
    return length.to_bytes(8, "little") + raw[8:]


def damage_entry(draw, raw: bytes) -> bytes:
    """One field of one entry replaced, removed or nudged; the JSON stays JSON."""
    length = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + length])
    entry = header[draw(st.sampled_from(sorted(header)))]
    field = draw(st.sampled_from(["dtype", "shape", "data_offsets", "extra"]))
    kind = draw(st.sampled_from(["junk", "drop", "nudge", "type"]))
    if kind == "drop":
        entry.pop(field, None)
    elif kind == "type":
        entry["dtype"] = draw(st.sampled_from([*DTYPES, "F4", "F8_E8M0", "f32"]))
    elif kind == "nudge" and isinstance(entry.get(field), list) and entry[field]:
        at = draw(st.integers(0, len(entry[field]) - 1))
        entry[field][at] += draw(st.sampled_from([-8, -4, -1, 1, 4, 8, 2**63]))
    else:
        entry[field] = draw(junk)
    return file_of(header, raw[8 + length :])


@st.composite
def mutated_files(draw) -> bytes:
    raw = safetensors.torch.save(draw(tensors(max_size=3)), metadata={"format": "pt"})
    damage = draw(st.sampled_from([damage_bytes, damage_length, damage_entry]))
    damaged = damage(draw, raw)
    assume(damaged != raw)
    return damaged


STRICTER = (  # what the package lets pass and we do not
    "must have dtype, shape and data_offsets",  # an entry with a field of its own
    "has type",  # one that torch has no name for
    "__metadata__ must",  # null
    "a key occurs twice",
    "must begin with {",  # a space in front
    "has shape",  # more than 64 axes
    "is not a size",  # in a field of its own
)


@settings(max_examples=FUZZ)
@given(mutated_files())
def test_any_damaged_file_is_rejected_or_read_as_the_package_does(path, raw):
    """How often which: pytest --hypothesis-show-statistics."""
    path.write_bytes(raw)
    try:
        mine = read(path)
    except CheckpointError as error:
        event("rejected")
        accepted = package_reads(path)
        assert accepted is None or any(reason in str(error) for reason in STRICTER)
        return
    event("read as the package reads it")
    theirs = package_reads(path)
    assert theirs is not None, "we read what the package rejects"
    assert same(mine, theirs)
    assert sum(len(as_bytes(tensor)) for tensor in mine.values()) <= len(raw)


def package_reads(path: Path) -> dict | None:
    try:
        return safetensors.torch.load_file(path)
    except Exception:  # its own error, or torch's on what its parser let pass
        return None

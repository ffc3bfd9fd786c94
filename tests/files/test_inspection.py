"""The facts of a folder, each against the thing itself."""

import re
from base64 import b64encode
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from minispec.files import checkpoint, inspection
from minispec.files.checkpoint import safetensors_format, weight_files
from minispec.files.errors import CheckpointError
from minispec.files.head import fingerprint, is_head, save_head
from minispec.files.inspection import head_report, inspect
from minispec.files.inspection import measure_bandwidth, report
from minispec.files.pair import SHIPPED
from minispec.model.gpt2 import GPTConfig

from support.decoding import tiny
from support.folders import lay, state
from support.heads import tiny_head
from support.strategies import SEEDS, configs, tiny_gpt

TINY = tiny_gpt(GPTConfig(1, 1, 4, 5, 6), 1, dtype=torch.float32)


@given(configs(), SEEDS)
def test_facts_are_those_of_the_loaded_model(tmp_path_factory, config, seed):
    folder = tmp_path_factory.mktemp("facts")
    checkpoint.save(tiny_gpt(config, seed), folder, dtype=torch.float16)
    facts, model = inspect(folder, bandwidth=1e9), checkpoint.load(folder)
    parameters = list(model.parameters())
    assert facts.config == model.config
    assert facts.n_parameters == sum(p.numel() for p in parameters)
    assert facts.memory_bytes == sum(p.numel() * p.element_size() for p in parameters)
    cache = model.new_cache(capacity=1)
    held = sum(t.numel() * t.element_size() for t in (*cache.keys, *cache.values))
    assert facts.cache_bytes_per_token == held
    assert facts.stored == {"float16": facts.memory_bytes // 2}
    file = folder / "model.safetensors"
    assert facts.files == {"model.safetensors": file.stat().st_size}
    assert facts.seconds_per_token == pytest.approx(facts.memory_bytes / 1e9)
    assert facts.tokenizer_size is None
    assert facts.tokenizer_problem.startswith("no vocabulary")


def test_masks_are_on_disk_and_not_among_the_parameters(tmp_path):
    checkpoint.save(TINY, tmp_path)
    mask = {"h.0.attn.bias": torch.ones(1, 1, 6, 6, dtype=torch.bool)}
    before = inspect(tmp_path, 1e9)
    file = tmp_path / "model.safetensors"
    safetensors_format.write(dict(TINY.state_dict()) | mask, file)
    facts = inspect(tmp_path, 1e9)
    assert facts.stored == {"float32": facts.memory_bytes, "bool": 36}
    assert replace(facts, stored=before.stored, files=before.files) == before


def test_tied_tensors_of_a_pickle_count_once_as_they_are_stored(tmp_path):
    tensors = state()
    tensors["lm_head.weight"] = tensors["wte.weight"][:]  # a second view
    lay(tmp_path, tensors, name="pytorch_model.bin")
    facts = inspect(tmp_path, 1e9)
    assert facts.stored == {"float32": facts.memory_bytes}


def test_the_weights_are_opened_once(tmp_path, monkeypatch):
    checkpoint.save(TINY, tmp_path)
    opened, read = [], safetensors_format.read
    monkeypatch.setitem(
        weight_files.READERS, "model.safetensors", lambda p: opened.append(p) or read(p)
    )
    inspect(tmp_path, 1e9)
    assert len(opened) == 1


def test_what_cannot_be_loaded_cannot_be_inspected(tmp_path):
    """And of several folders, the one that is at fault is named."""
    for folder, message in ((tmp_path / "absent", "no folder"), (tmp_path, "config")):
        with pytest.raises(CheckpointError, match=message) as caught:
            inspect(folder, 1e9)
        assert str(folder) in str(caught.value)


def test_the_report_says_it_all_and_nothing_that_a_terminal_obeys(tmp_path):
    config = GPTConfig(3, 2, 8, vocab_size=11, n_positions=16, n_inner=20)
    folder = tmp_path / "red\x1b[31m"
    checkpoint.save(tiny_gpt(config, 1, dtype=torch.float32), folder)
    facts = inspect(folder, bandwidth=20e9)
    text = report(replace(facts, files={"a\x1b[2J": 5}))
    for words in (
        str(tmp_path), "2 of width 4", "8, inside the MLP 20", "11 rows", "tied",
        "16 positions", f"{facts.n_parameters:,}", "192 bytes per token", "20 GB/s",
        r"red\x1b[31m", r"a\x1b[2J 5 bytes",
    ):  # fmt: skip
        assert words in text
    assert "\x1b" not in text


def test_a_head_is_named_with_its_target(tmp_path):
    target = tiny(n_layer=3)
    head = tiny_head("medusa", target)
    save_head(head, tmp_path, target)
    assert is_head(tmp_path) and not is_head(SHIPPED / "draft")
    text, whose = head_report(tmp_path), fingerprint(target)
    n_parameters = sum(p.numel() for p in head.parameters())
    for line in ("kind medusa", "n_heads 3", f"{n_parameters:,}", "target *n_layer 3",
                 f"fingerprint {whose}", "model.safetensors"):  # fmt: skip
        assert re.search(line, text)
    assert "target          the shipped one: n_layer 12" in head_report(SHIPPED / "mtp")
    (tmp_path / "config.json").write_text(r'{"kind": "\u001b[31m", "target": [3]}')
    text = head_report(tmp_path)
    assert r"kind \x1b[31m" in text and "not stated ([3])" in text
    assert "\x1b" not in text
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:20])
        assert is_head(tmp_path)
        with pytest.raises(CheckpointError, match="again with scripts/train_heads.py"):
            head_report(tmp_path)


@pytest.mark.parametrize(
    "n_rows, n_bytes, eos_id, says",
    [
        (257, 256, 256, "257 tokens"),
        (264, 256, 256, "257 tokens"),
        (264, 256, 255, "257 ids and EOS 256, the model 264 rows and EOS (255,)"),
        (300, 256, 256, "cut short or of another model"),
        (9, 256, 8, "cut short or of another model"),
        (257, 255, 256, "255 bytes"),
    ],
)
def test_the_tokenizer_is_counted_or_found_unusable(
    tmp_path, n_rows, n_bytes, eos_id, says
):
    model = tiny_gpt(GPTConfig(1, 1, 2, n_rows, 4), 1)
    checkpoint.save(model, tmp_path, eos_id=eos_id)
    lines = [f"{b64encode(bytes([b])).decode()} {b}\n" for b in range(n_bytes)]
    (tmp_path / "bytes.tiktoken").write_text("".join(lines))
    text = report(inspect(tmp_path, 1e9))
    assert says in text.split("tokenizer ", 1)[1].splitlines()[0]


def test_bandwidth_is_bytes_over_the_shortest_time(monkeypatch):
    assert 1e7 < measure_bandwidth(n_bytes=4_000_000, repeats=2) < 1e14
    ticks = iter([0.0, 0.1, 1.0, 5.0, 6.0, 8.0])  # the warm-up does not count
    monkeypatch.setattr(inspection.time, "perf_counter", lambda: next(ticks))
    assert measure_bandwidth(n_bytes=4_096_000, repeats=2) == 4_096_000 / 2

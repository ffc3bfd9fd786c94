"""The facts of a folder, each against the thing itself."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import replace

import pytest
import torch
from hypothesis import given

from minispec import checkpoint, inspection
from minispec.checkpoint import safetensors_format
from minispec.inspection import inspect, measure_bandwidth, report

from strategies import SEEDS, configs, tiny_gpt


@given(configs(), SEEDS)
def test_facts_are_those_of_the_loaded_model(tmp_path_factory, config, seed):
    folder = tmp_path_factory.mktemp("facts")
    checkpoint.save(tiny_gpt(config, seed), folder, dtype=torch.float16)
    facts, model = inspect(folder, bandwidth=1e9), checkpoint.load(folder)
    parameters = list(model.parameters())
    assert facts.config == model.config
    assert facts.n_parameters == sum(p.numel() for p in parameters)
    assert facts.memory_bytes == sum(p.numel() * p.element_size() for p in parameters)
    assert facts.cache_bytes_per_token == model.new_cache().bytes_per_token
    assert facts.stored == {"float16": facts.memory_bytes // 2}
    file = folder / "model.safetensors"
    assert facts.files == {"model.safetensors": file.stat().st_size}
    assert facts.seconds_per_token == pytest.approx(facts.memory_bytes / 1e9)
    assert facts.tokenizer_size is None
    assert facts.tokenizer_problem.startswith("no vocabulary")


def test_masks_are_on_disk_and_not_among_the_parameters(tmp_path):
    model = tiny_gpt(checkpoint.GPTConfig(1, 1, 4, 5, 6), 1, dtype=torch.float32)
    checkpoint.save(model, tmp_path)
    mask = {"h.0.attn.bias": torch.ones(1, 1, 6, 6, dtype=torch.bool)}
    file = tmp_path / "model.safetensors"
    before = inspect(tmp_path, 1e9)
    safetensors_format.write(dict(model.state_dict()) | mask, file)
    facts = inspect(tmp_path, 1e9)
    assert facts.stored == {"float32": facts.memory_bytes, "bool": 36}
    assert replace(facts, stored=before.stored, files=before.files) == before


def test_what_cannot_be_loaded_cannot_be_inspected(tmp_path):
    """And of several folders, the one that is at fault is named."""
    with pytest.raises(checkpoint.CheckpointError, match="no folder .*absent"):
        inspect(tmp_path / "absent", 1e9)
    with pytest.raises(checkpoint.CheckpointError, match="config.json"):
        inspect(tmp_path, 1e9)
    checkpoint.save(tiny_gpt(checkpoint.GPTConfig(1, 1, 4, 5, 6), 1), tmp_path)
    safetensors_format.write({}, tmp_path / "model.safetensors")
    with pytest.raises(checkpoint.CheckpointError, match="but the weights") as caught:
        inspect(tmp_path, 1e9)
    assert str(tmp_path) in str(caught.value)


def test_the_report_says_it_all(tmp_path):
    config = checkpoint.GPTConfig(3, 2, 8, vocab_size=11, n_positions=16, n_inner=20)
    checkpoint.save(tiny_gpt(config, 1, dtype=torch.float32), tmp_path)
    facts = inspect(tmp_path, bandwidth=20e9)
    text = report(facts)
    for words in (
        str(tmp_path), "2 of width 4", "8, inside the MLP 20", "11 rows", "tied",
        "16 positions", f"{facts.n_parameters:,}", "192 bytes per token", "20 GB/s",
    ):  # fmt: skip
        assert words in text


@pytest.mark.parametrize(
    "n_rows, n_bytes, says",
    [
        (257, 256, "257 tokens"),
        (300, 256, "257 tokens"),
        (9, 256, "of another model: 257"),
        (257, 255, "255 bytes"),
    ],
)
def test_the_tokenizer_is_counted_or_found_unusable(tmp_path, n_rows, n_bytes, says):
    model = tiny_gpt(checkpoint.GPTConfig(1, 1, 2, n_rows, 4), 1)
    checkpoint.save(model, tmp_path)
    lines = [f"{b64encode(bytes([b])).decode()} {b}\n" for b in range(n_bytes)]
    (tmp_path / "bytes.tiktoken").write_text("".join(lines))
    text = report(inspect(tmp_path, 1e9))
    assert says in text.split("tokenizer ", 1)[1].splitlines()[0]


def test_bandwidth_is_a_plausible_number():
    assert 1e7 < measure_bandwidth(n_bytes=4_000_000, repeats=2) < 1e14


def test_bandwidth_is_bytes_over_the_shortest_time(monkeypatch):
    ticks = iter([0.0, 0.1, 1.0, 5.0, 6.0, 8.0])  # the warm-up does not count
    monkeypatch.setattr(inspection.time, "perf_counter", lambda: next(ticks))
    assert measure_bandwidth(n_bytes=4_096_000, repeats=2) == 4_096_000 / 2

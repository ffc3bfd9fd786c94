"""Real GPT-2 checkpoints against outputs that other projects have recorded.

    python scripts/download_weights.py distilgpt2 gpt2 gpt2-medium gpt2-xl
    pytest tests/test_real_weights.py -rs

Each model's tests are skipped while its folder is absent. All is greedy and float32;
each row says where its expectation was recorded.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from minispec import autoregressive, speculative
from minispec.draft import ModelDrafter
from minispec.gpt2 import GPT
from minispec.pair import load_model
from minispec.randomness import Seeded
from minispec.sampling import Sampling
from minispec.tokenizer import Tokenizer

pytestmark = pytest.mark.real_weights

WEIGHTS = Path(__file__).resolve().parents[1] / "weights"
GREEDY = Sampling(temperature=0)
EOT = "<|endoftext|>"


class Row(NamedTuple):
    """A prompt and its greedy continuation, as text or as ids."""

    model: str
    prompt: str | list[int]
    expected: str | list[int]
    source: str


HF = "huggingface/transformers: "
RUST = "guillaume-be/rust-bert: "
FASTGPT = "certik/fastGPT: "
BUMBLEBEE = "elixir-nx/bumblebee: test/bumblebee/text/text_generation_test.exs"
ROWS = [
    Row(
        "gpt2",
        [464, 3290],
        [373, 1043, 287, 257, 2214, 1474, 262, 16246, 286, 2688, 290, 2688, 27262, 13,
         198, 198, 464, 3290],
        f"{HF}tests/models/gpt2/test_modeling_gpt2.py",
    ),
    Row(
        "gpt2",
        "Hello, my dog is a little",
        " bit of a mess. I'm not sure if he's going",
        f"{HF}tests/models/gpt2/test_modeling_gpt2.py",
    ),
    Row(
        "gpt2",
        "Today, I",
        "'m going to be doing a lot of research on this. I",
        f"{HF}tests/models/gpt2/test_modeling_gpt2.py",
    ),
    Row(
        "gpt2",
        "Here is my poem:",
        [198, 198, 40, 716, 257, 582, 286, 262, 995, 11] * 2,
        "onnxruntime/mobius: testdata/golden/causal-lm/gpt2_generation.json",
    ),
    Row(
        "gpt2",
        "An increasing sequence: one,",
        " two, three, four, five, six, seven, eight, nine, ten, eleven,",
        f"{HF}generation/streamers.py",
    ),
    Row(
        "gpt2",
        "Alan Turing theorized that computers would one day become very powerful, but "
        "even he could not imagine",
        [703, 484, 561, 307, 1498, 284, 466, 523, 13, 198, 198, 1, 40, 892, 326, 262,
         749, 1593, 1517, 318],
        f"{FASTGPT}tests/test_basic_input.f90",
    ),
    Row(
        "gpt2",
        "Ondřej Čertík was born in",
        [1248, 5332, 287, 262, 7404, 286, 25370, 254, 368, 83, 6557, 81, 11],
        f"{FASTGPT}tests/test_more_inputs.f90",
    ),
    Row(
        "gpt2",
        "San Francisco is",
        [257, 1748, 286, 517, 621, 352, 1510, 661],
        f"{FASTGPT}tests/test_more_inputs.f90",
    ),
    Row(
        "gpt2",
        "Cars are",
        [407, 3142, 284, 307, 973, 287, 262, 7647, 1256, 286, 257, 7072, 13],
        f"{FASTGPT}tests/test_more_inputs.f90",
    ),
    Row(
        "gpt2",
        "Alan Turing theorized that computers would one day become",
        " the most powerful machines on the planet.\n\nThe computer is a machine that "
        "can perform complex calculations, and it can perform these calculations in a "
        "way that is very similar to the human brain.",
        "jaymody/picoGPT: README.md",
    ),
    Row(
        "gpt2",
        "Hello, my name is",
        [1757, 13, 314, 1101, 257, 6260, 11, 290, 314, 1101],
        f"{RUST}tests/gpt2.rs",
    ),
    Row(
        "gpt2",
        [50256],
        [198, 464, 717, 640, 314, 2497, 262, 649, 2196, 286],
        "OpenNMT/CTranslate2: python/tests/test_transformers.py",
    ),
    Row("gpt2", "I was going", " to say, 'Well, I'm going to say,", BUMBLEBEE),
    Row("gpt2", "Hello darkness", ", I am a man of light.", BUMBLEBEE),
    Row(
        "gpt2",
        "The quick brown fox jumps over the lazy",
        ", lazy fox and they both fall to the ground",
        "EleutherAI/lm-evaluation-harness: tests/test_models.py",
    ),
    Row(
        "distilgpt2",
        "A sequence: 1, 2, 3",
        ", 4, 5, 6, 7, 8",
        f"{HF}generation/logits_process.py",
    ),
    Row(
        "distilgpt2",
        "I'm not going to",
        " be able to do that. I'm going to be able to do that",
        f"{HF}generation/logits_process.py",
    ),
    Row(
        "gpt2-medium",
        "What is the answer to life, the universe, and everything?",
        "\n\nThe answer is that we are all one",
        "tinygrad/tinygrad: examples/gpt2.py",
    ),
    Row(
        "gpt2-medium",
        "Hello.",
        " I'm a little late to the party, but",
        "tinygrad/tinygrad: examples/gpt2.py",
    ),
]  # fmt: skip


@cache
def opened(name: str) -> tuple[GPT, Tokenizer]:
    """A model of weights/; skips the test where it has not been downloaded."""
    folder = WEIGHTS / name
    if not folder.is_dir():
        pytest.skip(f"no weights/{name}: run scripts/download_weights.py {name}")
    return load_model(folder)


def ids_of(tokenizer: Tokenizer, text: str | list[int]) -> list[int]:
    is_text = isinstance(text, str)
    return tokenizer.encode(text, allow_special=True) if is_text else list(text)


def greedy(model: GPT, ids: list[int], n: int) -> tuple[int, ...]:
    done = autoregressive.generate(model, torch.tensor(ids), n, Seeded(0), GREEDY)
    return done.tokens


@torch.no_grad()
def logits_after(model: GPT, ids: list[int]) -> Tensor:  # -> [V]
    return model(torch.tensor([ids]))[0, -1]


@torch.no_grad()
def log_probs(model: GPT, ids: list[int]) -> Tensor:  # -> [len(ids) - 1]
    """The model's log-probability of each id but the first."""
    rows = model(torch.tensor([ids]))[0, :-1].log_softmax(-1)
    return rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def close(found: Tensor, expected: list[float], atol: float = 1e-3) -> None:
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=atol)


@pytest.mark.parametrize("row", ROWS, ids=[f"{r.model}-{r.prompt}" for r in ROWS])
def test_recorded_greedy_continuations(row):
    model, tokenizer = opened(row.model)
    expected = ids_of(tokenizer, row.expected)
    prompt = ids_of(tokenizer, row.prompt)
    found = greedy(model, prompt, len(expected))
    assert tokenizer.decode(found) == tokenizer.decode(expected), row.source
    if not isinstance(row.expected, str):
        assert list(found) == row.expected, row.source


def test_recorded_logits():
    """onnxruntime/mobius: testdata/golden/causal-lm/gpt2.json."""
    model, _ = opened("gpt2")
    logits = logits_after(model, [4342, 318, 616, 21247, 25])
    top = logits.topk(5)
    assert top.indices.tolist() == [198, 366, 628, 50256, 383]
    close(
        top.values, [-50.608643, -52.565205, -52.969879, -53.979584, -54.187424], 2e-3
    )
    stats = torch.stack([logits.min(), logits.mean(), logits.std()])
    close(stats, [-73.116066, -64.908468, 2.153748], atol=2e-3)


@pytest.mark.parametrize(
    "name, prompt, token, logit",
    [
        ("gpt2", "One two three four", 1936, -69.4948),
        (
            "distilgpt2",
            "One two three four five six seven eight nine ten eleven",
            14104,
            -48.7065,
        ),
    ],
)
def test_recorded_best_logit(name, prompt, token, logit):
    """guillaume-be/rust-bert: tests/gpt2.rs, tests/distilgpt2.rs."""
    model, tokenizer = opened(name)
    best = logits_after(model, tokenizer.encode(prompt)).max(0)
    assert int(best.indices) == token
    assert float(best.values) == pytest.approx(logit, abs=1e-3)


def test_recorded_log_probs_of_a_continuation():
    """huggingface/transformers: generation/utils.py, compute_transition_scores."""
    model, tokenizer = opened("gpt2")
    prompt, new = tokenizer.encode("Today is"), [262, 1110, 618, 356, 460]
    assert list(greedy(model, prompt, 5)) == new
    found = log_probs(model, prompt + new)[-5:]
    close(found, [-1.414, -2.609, -2.010, -1.859, -2.508])


def test_recorded_log_probs_of_texts():
    """EleutherAI/lm-evaluation-harness: tests/test_models.py."""
    model, tokenizer = opened("gpt2")
    found = log_probs(model, tokenizer.encode("Hello World"))
    assert float(found[-1]) == pytest.approx(-8.682320, rel=1e-3)
    text = (
        "We study empirical scaling laws for language model performance on the "
        "cross-entropy loss."
    )
    each = log_probs(model, ids_of(tokenizer, EOT + text))
    close(each[:5], [-4.9599953, -8.069298, -8.308624, -10.178513, -8.906924], 5e-3)
    assert float(each.sum()) == pytest.approx(-95.00736, rel=1e-3)


@torch.no_grad()
def test_recorded_hidden_state():
    """keras-team/keras-hub: gpt2_backbone_test.py, after the last norm."""
    model, _ = opened("gpt2")
    hidden = model.trunk(torch.tensor([[1169, 2068, 7586, 21831, 13]]))
    close(hidden[0, 0, :5], [-0.1116, -0.0375, -0.2624, 0.00891, -0.0061], 1e-2)


@pytest.mark.parametrize("target_name", ["gpt2-xl", "gpt2-large", "gpt2-medium"])
def test_gpt2_drafts_and_the_text_is_the_targets(target_name):
    """Greedy speculative decoding with a real pair, and the target alone."""
    target, tokenizer = opened(target_name)
    draft, same = opened("gpt2")
    assert tokenizer.same_vocabulary(same)
    prompt = tokenizer.encode("The quick brown fox jumps over the lazy dog, and then")
    found = speculative.generate(
        target, ModelDrafter(draft, GREEDY), torch.tensor(prompt), 4, 48, Seeded(0),
        GREEDY,
    )  # fmt: skip
    assert found.tokens == greedy(target, prompt, 48)
    assert found.target_forwards < 48

"""Real GPT-2 checkpoints against outputs that other projects have recorded.

    python scripts/download_weights.py distilgpt2 gpt2 gpt2-medium gpt2-xl
    pytest tests/files/test_real_weights.py -rs

Each model's tests are skipped while its folder is absent. All is greedy and float32;
each row of recorded.json says where its expectation was recorded.
"""

import json
from functools import cache
from pathlib import Path

import pytest
import torch

from minispec.core.autoregressive import generate_alone
from minispec.core.draft import ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.sampling import Sampling
from minispec.core.speculative import generate
from minispec.core.text import Request
from minispec.files.pair import SHIPPED, load_model

pytestmark = pytest.mark.real_weights

GREEDY = Sampling(temperature=0)
CONTINUATIONS = json.loads(
    Path(__file__).with_name("recorded.json").read_text(encoding="utf-8")
)["continuations"]  # model, prompt, what follows (texts or ids), source


@cache
def opened(name):
    """A model of weights/; skips the test where it has not been downloaded."""
    folder = SHIPPED.parent / name
    if not folder.is_dir():
        pytest.skip(f"no weights/{name}: run scripts/download_weights.py {name}")
    return load_model(folder)


def ids_of(tokenizer, text):
    return tokenizer.encode(text, True) if isinstance(text, str) else text


def greedy(model, ids, n):
    request = Request(torch.tensor(ids), n, GREEDY)
    return generate_alone(model, request, Seeded(0)).tokens


@torch.no_grad()
def logits_of(model, ids):  # -> [n, V]
    return model(torch.tensor([ids]))[0]


def log_probs(model, ids):  # -> [len(ids) - 1], of each id but the first
    rows = logits_of(model, ids)[:-1].log_softmax(-1)
    return rows.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]


def close(found, expected, atol=1e-3):
    torch.testing.assert_close(found, torch.tensor(expected), rtol=0, atol=atol)


@pytest.mark.parametrize("name, prompt, expected, source", CONTINUATIONS)
def test_recorded_greedy_continuations(name, prompt, expected, source):
    model, tokenizer = opened(name)
    wanted = ids_of(tokenizer, expected)
    found = greedy(model, ids_of(tokenizer, prompt), len(wanted))
    assert tokenizer.decode(found) == tokenizer.decode(wanted), source
    assert isinstance(expected, str) or list(found) == expected, source


def test_recorded_logits():
    """onnxruntime/mobius: testdata/golden/causal-lm/gpt2.json."""
    last = logits_of(opened("gpt2")[0], [4342, 318, 616, 21247, 25])[-1]
    top = last.topk(5)
    assert top.indices.tolist() == [198, 366, 628, 50256, 383]
    values = [-50.608643, -52.565205, -52.969879, -53.979584, -54.187424]
    close(top.values, values, 2e-3)
    stats = torch.stack([last.min(), last.mean(), last.std()])
    close(stats, [-73.116066, -64.908468, 2.153748], 2e-3)


ELEVEN = "One two three four five six seven eight nine ten eleven"


@pytest.mark.parametrize(
    "name, prompt, token, logit",
    [("gpt2", ELEVEN[:18], 1936, -69.4948), ("distilgpt2", ELEVEN, 14104, -48.7065)],
)
def test_recorded_best_logit(name, prompt, token, logit):
    """guillaume-be/rust-bert: tests/gpt2.rs, tests/distilgpt2.rs."""
    model, tokenizer = opened(name)
    best = logits_of(model, tokenizer.encode(prompt))[-1].max(0)
    assert int(best.indices) == token
    assert float(best.values) == pytest.approx(logit, abs=1e-3)


def test_recorded_log_probs():
    """transformers: generation/utils.py; EleutherAI: tests/test_models.py."""
    model, tokenizer = opened("gpt2")
    prompt, new = tokenizer.encode("Today is"), [262, 1110, 618, 356, 460]
    assert list(greedy(model, prompt, 5)) == new
    found = log_probs(model, prompt + new)[-5:]
    close(found, [-1.414, -2.609, -2.010, -1.859, -2.508])
    found = log_probs(model, tokenizer.encode("Hello World"))
    assert float(found[-1]) == pytest.approx(-8.682320, rel=1e-3)
    text = "<|endoftext|>We study empirical scaling laws for language model "
    text += "performance on the cross-entropy loss."
    each = log_probs(model, ids_of(tokenizer, text))
    close(each[:5], [-4.9599953, -8.069298, -8.308624, -10.178513, -8.906924], 5e-3)
    assert float(each.sum()) == pytest.approx(-95.00736, rel=1e-3)


@torch.no_grad()
def test_recorded_hidden_state():
    """keras-team/keras-hub: gpt2_backbone_test.py, after the last norm."""
    hidden = opened("gpt2")[0].trunk(torch.tensor([[1169, 2068, 7586, 21831, 13]]))
    close(hidden[0, 0, :5], [-0.1116, -0.0375, -0.2624, 0.00891, -0.0061], 1e-2)


@pytest.mark.parametrize("name", ["gpt2-xl", "gpt2-large", "gpt2-medium"])
def test_gpt2_drafts_and_the_text_is_the_targets(name):
    """Greedy speculative decoding with a real pair, and the target alone."""
    (target, tokenizer), (draft, same) = opened(name), opened("gpt2")
    assert tokenizer.same_vocabulary(same)
    prompt = tokenizer.encode("The quick brown fox jumps over the lazy dog, and then")
    request = Request(torch.tensor(prompt), 48, GREEDY)
    found = generate(target, ModelDrafter(draft, GREEDY), request, Seeded(0))
    assert found.tokens == greedy(target, prompt, 48)
    assert found.target_forwards < 48

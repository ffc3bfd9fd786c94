"""The pair in weights/shakespeare: what it is, and that decoding with it is exact.

Tiny models are proved by enumeration (test_distributions.py). This is the same claim on
real ones, as far as sampling can tell: a G test of the first two tokens, which must be
able to see a sampler that is wrong, too. And `transformers` reads both as they stand.
"""

import hashlib
import re
from collections import Counter

import pytest
import torch

from minispec.core import rejection
from minispec.core.autoregressive import generate_alone
from minispec.core.draft import ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.sampling import Sampling, logits_to_probs
from minispec.core.speculative import generate
from minispec.core.text import Request
from minispec.drafters.ngram import NgramDrafter
from minispec.exactness.statistics import g_test, power
from minispec.files.pair import SHIPPED, load_pair

PROMPT, LONGER = "ROMEO:\n", "ROMEO:\nBut, soft! what light through yonder"
GREEDY = Sampling(temperature=0)
TOP_3 = Sampling(top_k=3)  # so that there are 9 outcomes, not a million
FALSE_ALARM, POWER = 1e-3, 0.95
FEW, MANY = 1_000, 18_000  # draws; the many take minutes
WRONG = 300  # are plenty to find a wrong residual


@pytest.fixture(scope="module")
def pair():
    return load_pair()


@pytest.fixture(scope="module")
def prompt(pair):
    return torch.tensor(pair.tokenizer.encode(PROMPT))


def test_every_file_is_the_one_the_readme_describes():
    described = (SHIPPED.parent / "README.md").read_text(encoding="utf-8")
    files = [path for path in SHIPPED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 50e6
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        name = path.relative_to(SHIPPED).as_posix()
        line = rf"`{re.escape(name)}`.*`{digest}`"
        assert re.search(line, described), f"{name} is now {digest}"


@pytest.mark.parametrize("gamma", [1, 2, 3, 4, 5, 6, 7, 8])
def test_greedy_text_is_the_targets_own(pair, prompt, gamma):
    """In float32, as shipped: on this prompt no two logits are too close to call."""
    request = Request(prompt, 64, GREEDY, gamma)
    alone = generate_alone(pair.target, request, Seeded(0))
    for drafter in (ModelDrafter(pair.draft, GREEDY), NgramDrafter(1024)):
        fast = generate(pair.target, drafter, request, Seeded(gamma))
        assert fast.tokens == alone.tokens
        assert fast.target_forwards < alone.target_forwards


@pytest.fixture(scope="module")
def expected(pair, prompt):
    """P(first, second) after the prompt, without decoding anything."""

    def row(text):
        logits = pair.target(text[None])[0, -1:]
        return logits_to_probs(logits, TOP_3, text)[0].double()

    found = {}
    with torch.inference_mode():
        first = row(prompt)
        for token in first.nonzero()[:, 0]:
            second = row(torch.cat([prompt, token[None]]))
            for other in second.nonzero()[:, 0]:
                found[int(token), int(other)] = float(first[token] * second[other])
    return found


def first_two_tokens(pair, prompt, n_draws):
    """Decodes of three tokens with gamma 2, so that every kind of round occurs."""
    request, drafter = Request(prompt, 3, TOP_3, 2), ModelDrafter(pair.draft, TOP_3)
    runs = (generate(pair.target, drafter, request, Seeded(i)) for i in range(n_draws))
    return Counter(run.tokens[:2] for run in runs)


@pytest.mark.parametrize(
    "n_draws", [FEW, pytest.param(MANY, marks=pytest.mark.slow)]
)
def test_the_first_two_tokens_have_the_targets_distribution(
    pair, prompt, expected, n_draws
):
    counts = first_two_tokens(pair, prompt, n_draws)
    assert g_test(counts, expected).p_value > FALSE_ALARM


@pytest.mark.parametrize("n_draws, shift", [(FEW, 0.1), (MANY, 0.02)])
def test_so_many_draws_find_a_shift(expected, n_draws, shift):
    """So much of the mass moved to the likeliest outcome, where it shows least."""
    likeliest = max(expected, key=expected.get)
    rest = 1 - expected[likeliest]
    shifted = {key: prob * (1 - shift / rest) for key, prob in expected.items()}
    shifted[likeliest] = expected[likeliest] + shift
    assert power(expected, shifted, n_draws, FALSE_ALARM) > POWER


def test_the_g_test_rejects_a_wrong_residual(pair, prompt, expected, monkeypatch):
    """After a rejection, draw from the target's row as if nothing had been drafted."""
    monkeypatch.setattr(rejection, "residual", lambda target_row, draft_row: target_row)
    counts = first_two_tokens(pair, prompt, WRONG)
    assert g_test(counts, expected).p_value < FALSE_ALARM


# In transformers


@pytest.fixture(scope="module")
def theirs():
    """Both models in transformers, in float32 as ours, with nothing left to guess."""
    transformers = pytest.importorskip("transformers", reason="needs transformers")
    found = {}
    for kind in ("target", "draft"):
        found[kind], report = transformers.AutoModelForCausalLM.from_pretrained(
            SHIPPED / kind, dtype=torch.float32, output_loading_info=True
        )
        assert not any(report.values()), report
        assert isinstance(found[kind], transformers.GPT2LMHeadModel)
        tokenizer = transformers.AutoTokenizer.from_pretrained(SHIPPED / kind)
        found[f"{kind}'s tokenizer"] = tokenizer
    return found


@pytest.mark.parametrize("kind", ["target", "draft"])
@torch.no_grad()
def test_each_model_and_tokenizer_gives_our_logits_and_ids(pair, theirs, kind):
    text = f"{LONGER}\n\nwindow   breaks? It's 1597, é🤗<|endoftext|>"
    ids, tokenizer = pair.tokenizer.encode(text, True), theirs[f"{kind}'s tokenizer"]
    assert tokenizer(text)["input_ids"] == ids and tokenizer.decode(ids) == text
    assert tokenizer.eos_token_id == theirs[kind].config.eos_token_id == 1023
    ids = torch.tensor([ids])
    mine, reference = getattr(pair, kind)(ids), theirs[kind](ids).logits
    torch.testing.assert_close(mine, reference, rtol=0, atol=1e-4)


def test_assisted_generation_there_agrees_with_ours(pair, prompt, theirs):
    """Greedy, 64 tokens: its speculative decoding, ours, and its target alone."""
    drafter, request = ModelDrafter(pair.draft, GREEDY), Request(prompt, 64, GREEDY)
    mine = generate(pair.target, drafter, request, Seeded(0))
    wanted = dict(do_sample=False, max_new_tokens=64, eos_token_id=None, pad_token_id=0)
    target, draft = theirs["target"], theirs["draft"]
    for options in ({"assistant_model": draft}, {}):
        ids = target.generate(prompt[None], **options, **wanted)
        assert mine.tokens == tuple(ids[0, len(prompt) :].tolist())

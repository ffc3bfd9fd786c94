"""The shipped pair in `transformers`: it loads as it stands, and decodes the same."""

from __future__ import annotations

import pytest
import torch

from minispec import speculative
from minispec.draft import ModelDrafter
from minispec.pair import SHIPPED, load_pair
from minispec.randomness import Seeded
from minispec.sampling import Sampling

transformers = pytest.importorskip("transformers", reason="needs transformers")
FOLDERS = {kind: SHIPPED / kind for kind in ("target", "draft")}
if not all((folder / "model.safetensors").exists() for folder in FOLDERS.values()):
    pytest.skip("weights/shakespeare is not there", allow_module_level=True)

GREEDY = Sampling(temperature=0)
PROMPT = "ROMEO:\nBut, soft! what light"


@pytest.fixture(scope="module")
def ours():
    return load_pair(*FOLDERS.values())


@pytest.fixture(scope="module")
def theirs():
    """Both models in transformers, in float32 as ours, with nothing left to guess."""
    found = {}
    for kind, folder in FOLDERS.items():
        found[kind], report = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, output_loading_info=True
        )
        assert not any(report.values()), report
    return found


@pytest.mark.parametrize("kind", FOLDERS)
@torch.no_grad()
def test_each_model_loads_and_gives_our_logits(ours, theirs, kind):
    ids = torch.tensor([ours.tokenizer.encode(PROMPT)])
    model, reference = getattr(ours, kind), theirs[kind]
    assert isinstance(reference, transformers.GPT2LMHeadModel)
    torch.testing.assert_close(model(ids), reference(ids).logits, rtol=0, atol=1e-4)
    assert reference.config.eos_token_id == ours.tokenizer.eos_id


@pytest.mark.parametrize("kind", FOLDERS)
def test_the_tokenizer_loads_and_gives_our_ids(ours, kind):
    tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDERS[kind])
    text = f"{PROMPT} through yonder\n\nwindow   breaks? It's 1597, é🤗<|endoftext|>"
    ids = ours.tokenizer.encode(text, allow_special=True)
    assert tokenizer(text)["input_ids"] == ids and tokenizer.decode(ids) == text
    assert tokenizer.eos_token_id == ours.tokenizer.eos_id


def test_assisted_generation_there_agrees_with_ours(ours, theirs):
    """Greedy, 64 tokens: its speculative decoding, ours, and its target alone."""
    prompt = torch.tensor(ours.tokenizer.encode(PROMPT))
    mine = speculative.generate(
        ours.target, ModelDrafter(ours.draft, GREEDY), prompt, 4, 64, Seeded(0), GREEDY
    )
    wanted = dict(do_sample=False, max_new_tokens=64, eos_token_id=None, pad_token_id=0)
    target, draft = theirs["target"], theirs["draft"]
    assisted = target.generate(prompt[None], assistant_model=draft, **wanted)
    alone = target.generate(prompt[None], **wanted)
    assert mine.tokens == tuple(assisted[0, len(prompt) :].tolist())
    assert mine.tokens == tuple(alone[0, len(prompt) :].tolist())

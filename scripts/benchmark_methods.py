"""What `benchmark.py` compares: ways to decode, all with one signature.

Every method decodes exactly the number of tokens asked for: no EOS ends a text, so that
all do the same work.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from minispec import autoregressive, speculative
from minispec.draft import Drafter, ModelDrafter
from minispec.drafters.ngram import NgramDrafter
from minispec.generation import Round
from minispec.gpt2 import GPT
from minispec.randomness import Seeded
from minispec.sampling import Sampling


@dataclass(frozen=True)
class Decoded:
    """The new tokens, and the rounds if there were any."""

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...] = ()


# prompt [n], how many tokens, temperature, seed
Decode = Callable[[Tensor, int, float, int], Decoded]


@dataclass(frozen=True)
class Method:
    """A way to decode, with the draft length it uses, if it has one."""

    kind: str
    gamma: int | None
    decode: Decode

    @property
    def name(self) -> str:
        return self.kind if self.gamma is None else f"{self.kind}, gamma {self.gamma}"


BASELINE = "autoregressive"
SPECULATIVE = "speculative"
PLAIN_TRANSFORMERS = "transformers generate"
ASSISTED = "transformers assisted"
ASSISTED_DEFAULTS = "transformers assisted, as it comes"

# ------------------------------------------------------------------------- minispec


def minispec_methods(target: GPT, draft: GPT, gammas: list[int]) -> list[Method]:
    """The target alone, the draft model at each gamma, prompt lookup at one."""

    def model_drafter(temperature: float) -> Drafter:
        return ModelDrafter(draft, Sampling(temperature))

    def ngram_drafter(temperature: float) -> Drafter:
        return NgramDrafter(target.config.vocab_size)

    middle = gammas[len(gammas) // 2]
    return [
        Method(BASELINE, None, baseline(target)),
        *(Method(SPECULATIVE, g, drafting(target, model_drafter, g)) for g in gammas),
        Method("n-gram", middle, drafting(target, ngram_drafter, middle)),
    ]


def baseline(target: GPT) -> Decode:
    """One token per forward pass."""

    def decode(prompt: Tensor, n_tokens: int, temperature: float, seed: int) -> Decoded:
        done = autoregressive.generate(
            target, prompt, n_tokens, Seeded(seed), Sampling(temperature)
        )
        return Decoded(done.tokens)

    return decode


def drafting(
    target: GPT, make_drafter: Callable[[float], Drafter], gamma: int
) -> Decode:
    """Speculative decoding; the drafter is made for a temperature."""

    def decode(prompt: Tensor, n_tokens: int, temperature: float, seed: int) -> Decoded:
        done = speculative.generate(
            target,
            make_drafter(temperature),
            prompt,
            gamma,
            n_tokens,
            Seeded(seed),
            Sampling(temperature),
        )
        return Decoded(done.tokens, done.rounds)

    return decode


# --------------------------------------------------------------------- transformers


def transformers_methods(target: Path, draft: Path, gammas: list[int]) -> list[Method]:
    """The `generate` of transformers, plain and assisted; none if it is not installed.

    Assisted: once as it comes, and once for each gamma with a constant draft length and
    no confidence cut-off, the setting that does what minispec does.
    """
    try:
        import transformers
    except ImportError:
        return []
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    big, small = load_transformers(target), load_transformers(draft)
    as_it_comes = small.generation_config
    return [
        Method(PLAIN_TRANSFORMERS, None, transformers_decode(big)),
        Method(ASSISTED_DEFAULTS, None, transformers_decode(big, small, as_it_comes)),
        *(
            Method(ASSISTED, g, transformers_decode(big, small, settings))
            for g in gammas
            for settings in [constant_length(small, g)]
        ),
    ]


def load_transformers(folder: Path) -> Any:
    """The folder's model in float32, in evaluation mode, with no token that ends it."""
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(str(folder)).float().eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def constant_length(draft: Any, gamma: int) -> Any:
    """The draft's generation settings with exactly `gamma` tokens every round."""
    settings = copy.deepcopy(draft.generation_config)
    settings.num_assistant_tokens = gamma
    settings.num_assistant_tokens_schedule = "constant"
    settings.assistant_confidence_threshold = 0.0
    return settings


def transformers_decode(target: Any, draft: Any = None, settings: Any = None) -> Decode:
    """`target.generate`, assisted by `draft` under its `settings` if there is one."""

    @torch.inference_mode()
    def decode(prompt: Tensor, n_tokens: int, temperature: float, seed: int) -> Decoded:
        torch.manual_seed(seed)  # transformers draws from the global generator
        chance: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:  # its own default would be top_k=50
            chance.update(temperature=temperature, top_k=0, top_p=1.0)
        if draft is not None:
            draft.generation_config = settings
            chance.update(assistant_model=draft)
        ids = target.generate(
            prompt[None],
            attention_mask=torch.ones_like(prompt[None]),
            max_new_tokens=n_tokens,
            **chance,
        )
        return Decoded(tuple(ids[0, len(prompt) :].tolist()))

    return decode

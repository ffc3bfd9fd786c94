"""What `benchmark.py` compares: ways to decode, with one signature, and their costs.

Every method decodes exactly the number of tokens asked for: no EOS ends a text, so that
all do the same work.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from minispec.core.autoregressive import generate_alone
from minispec.core.draft import Drafter, ModelDrafter
from minispec.core.randomness import Seeded
from minispec.core.rejection import reject
from minispec.core.rollback import rollback
from minispec.core.rounds import Round
from minispec.core.sampling import Sampling
from minispec.core.speculative import generate
from minispec.core.text import Request
from minispec.core.verify import verify
from minispec.drafters.ngram import NgramDrafter
from minispec.files.pair import Pair

BASELINE, SPECULATIVE = "autoregressive", "speculative"
PLAIN, ASSISTED = "transformers generate", "transformers assisted"


class Decoded(NamedTuple):
    """The new tokens, and the rounds if minispec made them."""

    tokens: tuple[int, ...]
    rounds: tuple[Round, ...] = ()


# prompt [n], how many tokens, temperature, seed
Decode = Callable[[Tensor, int, float, int], Decoded]


class Method(NamedTuple):
    """A way to decode, with the draft length it uses, if it has one."""

    kind: str
    gamma: int | None
    decode: Decode

    @property
    def name(self) -> str:
        return self.kind if self.gamma is None else f"{self.kind}, gamma {self.gamma}"


class Sample(NamedTuple):
    """One timed run."""

    name: str
    repeat: int
    seconds: float
    result: Any


def interleave(
    works: Mapping[str, Callable[[int], object]], repeats: int
) -> Iterator[Sample]:
    """Run each work once per repeat, `repeats` times; yield every run as it ends.

    Whatever slows the machine for a while then slows all works alike, and ratios
    within one repeat stay right. Each repeat starts with another work, so that none
    is always first. A work is given the number of its repeat, e.g. as a seed. Warm up
    before: the first call of anything is slow.
    """
    names = list(works)
    for repeat in range(repeats):
        start = repeat % len(names)
        for name in names[start:] + names[:start]:
            began = time.perf_counter()
            result = works[name](repeat)
            yield Sample(name, repeat, time.perf_counter() - began, result)


# ------------------------------------------------------------------------- minispec


def minispec_methods(pair: Pair, gammas: list[int]) -> list[Method]:
    """The target alone, the draft model at each gamma, prompt lookup at one."""
    target = pair.target

    def alone(prompt: Tensor, n: int, temperature: float, seed: int) -> Decoded:
        request = Request(prompt, n, Sampling(temperature))
        return Decoded(generate_alone(target, request, Seeded(seed)).tokens)

    def drafting(make: Callable[[Pair, float], Drafter], gamma: int) -> Decode:
        def decode(prompt: Tensor, n: int, temperature: float, seed: int) -> Decoded:
            request = Request(prompt, n, Sampling(temperature), gamma)
            done = generate(target, make(pair, temperature), request, Seeded(seed))
            return Decoded(done.tokens, done.rounds)

        return decode

    middle = gammas[len(gammas) // 2]
    return [
        Method(BASELINE, None, alone),
        *(Method(SPECULATIVE, gamma, drafting(drafter_of, gamma)) for gamma in gammas),
        Method("n-gram", middle, drafting(lookup_in, middle)),
    ]


def drafter_of(pair: Pair, temperature: float) -> Drafter:
    assert pair.draft is not None
    return ModelDrafter(pair.draft, Sampling(temperature))


def lookup_in(pair: Pair, temperature: float) -> Drafter:
    return NgramDrafter(pair.target.config.vocab_size)


# --------------------------------------------------------------------- transformers


def transformers_methods(target: Path, draft: Path, gammas: list[int]) -> list[Method]:
    """The `generate` of transformers, plain and assisted; none if it is not installed.

    Assisted with a constant draft length and no confidence cut-off, the setting that
    does what minispec does.
    """
    try:
        import transformers
    except ImportError:
        return []
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    big, small = load_transformers(target), load_transformers(draft)
    assisted = (Method(ASSISTED, g, transformers_decode(big, small, g)) for g in gammas)
    return [Method(PLAIN, None, transformers_decode(big)), *assisted]


def load_transformers(folder: Path) -> Any:
    """The folder's model in float32, in evaluation mode, with no token that ends it."""
    from transformers import GPT2LMHeadModel

    model = GPT2LMHeadModel.from_pretrained(str(folder)).float().eval()
    model.generation_config.eos_token_id = None
    model.generation_config.pad_token_id = 0
    return model


def transformers_decode(target: Any, draft: Any = None, gamma: int = 0) -> Decode:
    """`target.generate`, assisted by `draft` at a constant `gamma` if there is one."""

    @torch.inference_mode()
    def decode(prompt: Tensor, n: int, temperature: float, seed: int) -> Decoded:
        torch.manual_seed(seed)  # transformers draws from the global generator
        options: dict[str, Any] = {"do_sample": temperature > 0}
        if temperature > 0:  # its own default would be top_k=50
            options.update(temperature=temperature, top_k=0, top_p=1.0)
        if draft is not None:
            options.update(assistant_model=draft)
            draft.generation_config.num_assistant_tokens = gamma
            draft.generation_config.num_assistant_tokens_schedule = "constant"
            draft.generation_config.assistant_confidence_threshold = 0.0
        mask = torch.ones_like(prompt[None])
        ids = target.generate(
            prompt[None], attention_mask=mask, max_new_tokens=n, **options
        )
        return Decoded(tuple(ids[0, len(prompt) :].tolist()))

    return decode


# ---------------------------------------------------------------------------- costs


class Costs(NamedTuple):
    """Median seconds over a cache of `context` tokens."""

    context: int
    draft_step: float  # one drafted token
    verify: dict[int, float]  # by K: verify and reject K drafts; 0 is a plain step


def measure_costs(
    pair: Pair, prefix: Tensor, lengths: list[int], temperature: float, repeats: int
) -> Costs:  # prefix [n]
    """Time four calls of each part per repeat, interleaved; medians over the repeats.

    Each part leaves its cache as it found it: all of the prefix but the last token. A
    verification comes after a draft, as in a decode: while that is made, weights leave
    the processor's cache, and the pass takes longer than one after another pass.
    """
    target, held, longest = pair.target, len(prefix) - 1, max(lengths)
    cache, randomness = target.new_cache(len(prefix) + longest), Seeded(1)
    sampling, drafter = Sampling(temperature), drafter_of(pair, temperature)
    drafter.begin(cache)

    def propose() -> Any:
        proposal = drafter.propose(prefix, longest, randomness)
        drafter.rollback(held)
        return proposal

    ready = propose()

    def draft_step(repeat: int) -> float:
        return seconds_of(propose) / longest

    def round_of(K: int) -> Callable[[int], float]:
        tokens, rows = ready.tokens[:K], ready.draft_probs[:K]

        def judge() -> None:
            target_probs = verify(target, cache, prefix, tokens, sampling)
            reject(tokens, rows, target_probs, randomness)
            rollback(cache, held)

        return lambda repeat: seconds_of(judge, before=propose if K else int)

    rounds = {f"{K}": round_of(K) for K in {0, *lengths}}
    taken: dict[str, list[float]] = {}
    for work in rounds.values():
        work(0)  # warm up, and fill the cache
    for sample in interleave({"draft": draft_step, **rounds}, repeats):
        taken.setdefault(sample.name, []).append(sample.result)
    medians = {name: statistics.median(seconds) for name, seconds in taken.items()}
    step = medians.pop("draft")
    return Costs(len(prefix), step, {int(K): s for K, s in sorted(medians.items())})


def seconds_of(
    work: Callable[[], object], before: Callable[[], object] = int, n: int = 4
) -> float:
    """The mean time of `n` calls, each with an untimed call before it."""
    total = 0.0
    for _ in range(n):
        before()
        started = time.perf_counter()
        work()
        total += time.perf_counter() - started
    return total / n

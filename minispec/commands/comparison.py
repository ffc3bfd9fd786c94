"""What `minispec compare` measured: as JSON, as a table, and what to try next."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

import torch

from minispec.commands.options import Request
from minispec.commands.streaming import Decode, text_of
from minispec.drafters.ngram import NgramDrafter
from minispec.generation import Generation


@dataclass
class Comparison:
    """Decodes of both kinds, the last perhaps not finished."""

    autoregressive: list[Decode] = field(default_factory=list)
    speculative: list[Decode] = field(default_factory=list)

    def begin(self, speculative: bool) -> Decode:
        """A new decode of a kind, to be filled."""
        decode = Decode()
        (self.speculative if speculative else self.autoregressive).append(decode)
        return decode

    @property
    def repeats(self) -> int:
        """How many decodes of each kind are finished."""
        kinds = (self.autoregressive, self.speculative)
        return min(len(finished(kind)) for kind in kinds)

    @property
    def is_complete(self) -> bool:
        """Whether there is at least one finished decode of each kind."""
        return self.repeats > 0

    @property
    def speedup(self) -> float | None:
        """Speculative over autoregressive tokens per second; None if both are 0."""
        slow = speed(self.autoregressive)
        return speed(self.speculative) / slow if slow else None


def finished(decodes: list[Decode]) -> list[Decode]:
    """Those that came to their end."""
    return [decode for decode in decodes if decode.finish_reason is not None]


def speed(decodes: list[Decode]) -> float:
    """Median tokens per second of the finished decodes."""
    return median(decode.tokens_per_s for decode in finished(decodes))


def as_json(request: Request, comparison: Comparison) -> dict[str, object]:
    """Everything measured, and both texts."""
    alone, fast = comparison.autoregressive, comparison.speculative
    generation = fast[0].generation()
    return {
        "autoregressive_tokens_per_s": speed(alone),
        "speculative_tokens_per_s": speed(fast),
        "speedup": comparison.speedup,
        "acceptance_rate": generation.acceptance_rate,
        "tokens_per_target_forward": generation.tokens_per_target_forward,
        "gamma": request.gamma,
        "temperature": request.sampling.temperature,
        "seed": request.seed,
        "repeats": comparison.repeats,
        "threads": torch.get_num_threads(),
        "drafted": generation.drafted,
        "judged": generation.judged,
        "accepted": generation.accepted,
        "emitted": generation.emitted,
        "target_forwards": generation.target_forwards,
        "autoregressive_text": text_of(request, alone[0]),
        "speculative_text": text_of(request, fast[0]),
        "autoregressive_finish_reason": alone[0].finish_reason,
        "finish_reason": generation.finish_reason,
    }


def progress(comparison: Comparison) -> str:
    """How far an interrupted comparison came."""
    if comparison.is_complete:
        return f"what follows is from {comparison.repeats} finished of each"
    kinds = {
        "the target alone": comparison.autoregressive,
        "speculative": comparison.speculative,
    }
    parts = [
        f"{name} wrote {len(decodes[0].tokens)} tokens"
        f" ({decodes[0].tokens_per_s:.0f} per second)"
        for name, decodes in kinds.items()
        if decodes
    ]
    return ", ".join(parts or ["nothing was written yet"]) + "; nothing to compare"


def table(request: Request, comparison: Comparison) -> str:
    """The figures for people, and what to try next."""
    alone, fast = comparison.autoregressive[0], comparison.speculative[0]
    generation = fast.generation()
    per_forward = len(alone.tokens) / alone.target_forwards if alone.tokens else None
    rows = [
        ("", "target alone", "speculative"),
        (
            "tokens per second",
            f"{speed(comparison.autoregressive):.0f}",
            f"{speed(comparison.speculative):.0f}",
        ),
        ("speed-up", "", two_digits(comparison.speedup, "x")),
        ("acceptance rate", "", acceptance(generation)),
        (
            "tokens per target forward",
            two_digits(per_forward),
            two_digits(generation.tokens_per_target_forward),
        ),
        ("target forwards", str(alone.target_forwards), str(fast.target_forwards)),
        ("tokens", str(len(alone.tokens)), str(generation.emitted)),
    ]
    lines = [f"{name:<27}{left:>14}{right:>18}".rstrip() for name, left, right in rows]
    settings = (
        f"gamma {request.gamma}, temperature {request.sampling.temperature:g}, "
        f"seed {request.seed}, {n_threads()}, median of {comparison.repeats}; "
    )
    settings += sameness(request, alone, fast)
    return "\n".join([*lines, settings, f"next: {advice(request, comparison)}"])


def n_threads() -> str:
    """As torch is set now."""
    n = torch.get_num_threads()
    return f"{n} thread" + "s" * (n > 1)


def acceptance(generation: Generation) -> str:
    """Of how many drafts that were looked at how many were kept: "142/175 = 0.81"."""
    rate = two_digits(generation.acceptance_rate)
    counts = f"{generation.accepted}/{generation.judged} = "
    return counts + rate if generation.judged else rate


def two_digits(value: float | None, unit: str = "") -> str:
    """A figure, or a dash where there was nothing to divide."""
    return "-" if value is None else f"{value:.2f}{unit}"


def sameness(request: Request, alone: Decode, fast: Decode) -> str:
    """How the two texts relate, and why."""
    if alone.tokens == fast.tokens:
        return "the texts are the same"
    if request.sampling.temperature > 0:
        return "two texts of the same law"
    return "the texts part where two tokens' logits are equal but for rounding"


def advice(request: Request, comparison: Comparison) -> str:
    """One thing to try."""
    rate = comparison.speculative[0].generation().acceptance_rate
    gain = comparison.speedup
    if gain is None:
        return "more --tokens, or a shorter prompt: nothing was written"
    copies = isinstance(request.drafter, NgramDrafter)
    if rate is None and copies:
        return "--drafter model: the text gave nothing to copy, so nothing was drafted"
    if rate is None:
        return "more --tokens: for the last one nothing is drafted"
    if gain < 1:
        other = "--drafter model" if copies else "--drafter ngram"
        shorter = "--gamma 1 or " if request.gamma > 1 else ""
        return f"{shorter}{other}: here drafting costs more than it brings"
    if request.sampling.temperature > 0:
        return "--temperature 0, and both texts become the same"
    if rate > 0.8 and request.gamma < 16:
        return f"--gamma {2 * request.gamma}: most drafts are accepted, so try more"
    return f"minispec plan --alpha {rate:.2f}: what other draft lengths would bring"

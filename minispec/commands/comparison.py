"""What `minispec compare` measured: as JSON, as a table, and what to try next."""

from __future__ import annotations

from statistics import median

import torch

from minispec.commands.job import Job, Method
from minispec.commands.streaming import Decode
from minispec.commands.threads import n_threads
from minispec.core.rounds import Generation
from minispec.trees.choices import is_certain

N_POSITIONS = 8  # draft positions that the table has room for


class Comparison:
    """Decodes of both kinds, the last perhaps not finished."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.alone: list[Decode] = []
        self.speculative: list[Decode] = []

    def begin(self, speculative: bool) -> Decode:
        """A new decode of a kind, to be filled."""
        decode = Decode(self.job)
        (self.speculative if speculative else self.alone).append(decode)
        return decode

    @property
    def repeats(self) -> int:
        """How many decodes of each kind are finished."""
        return min(len(finished(self.alone)), len(finished(self.speculative)))

    @property
    def speedup(self) -> float | None:
        """Speculative over autoregressive tokens per second; None if both are 0."""
        slow = speed(self.alone)
        return speed(self.speculative) / slow if slow else None

    @property
    def generation(self) -> Generation:
        """The first speculative decode."""
        return self.speculative[0].generation


def finished(decodes: list[Decode]) -> list[Decode]:
    """Those that came to their end."""
    return [decode for decode in decodes if decode.finish_reason is not None]


def speed(decodes: list[Decode]) -> float:
    """Median tokens per second of the finished decodes."""
    return median(decode.tokens_per_s for decode in finished(decodes))


def accepted_per_drafted(generation: Generation) -> float | None:
    """What serving engines call acceptance rate; None if nothing was drafted."""
    return generation.accepted / generation.drafted if generation.drafted else None


def as_json(comparison: Comparison) -> dict[str, object]:
    """Everything measured, what was asked for, and both texts."""
    generation = comparison.generation
    alone, fast = comparison.alone[0], comparison.speculative[0]
    measured = (
        *("acceptance_rate", "acceptance_by_position", "tokens_per_target_forward"),
        *("drafted", "judged", "accepted", "emitted", "target_forwards"),
    )
    return {
        "autoregressive_tokens_per_s": speed(comparison.alone),
        "speculative_tokens_per_s": speed(comparison.speculative),
        "speedup": comparison.speedup,
        **{name: getattr(generation, name) for name in measured},
        "accepted_per_drafted": accepted_per_drafted(generation),
        **asked(comparison.job),
        "repeats": comparison.repeats,
        "threads": torch.get_num_threads(),
        "autoregressive_text": alone.text,
        "speculative_text": fast.text,
        "autoregressive_finish_reason": alone.finish_reason,
        "finish_reason": fast.finish_reason,
    }


def asked(job: Job) -> dict[str, object]:
    """What the options say."""
    sampling, weight = job.request.sampling, job.target.wte.weight
    drawn = "temperature", "top_k", "top_p", "min_p", "repetition_penalty", "eos_ids"
    return {
        **{name: getattr(job.method, name) for name in job.method._fields[:-1]},
        **{name: getattr(sampling, name) for name in drawn},
        "stops": job.stops,
        "seed": job.seed,
        "dtype": str(weight.dtype).removeprefix("torch."),
        "device": str(weight.device),
        "prompt": job.text,
        "max_new_tokens": job.request.max_new_tokens,
        "min_new_tokens": max(0, sampling.min_length - len(job.request.prompt)),
    }


def named(method: Method) -> str:
    """What was compared: "model, gamma 4", "medusa, tree 3,2,1, coupled"."""
    parts = [method.drafter, method.length]
    parts += [f"judge {method.judge}"] * (method.judge != "reject")
    return ", ".join([*parts, *["coupled"] * method.coupled])


def progress(comparison: Comparison) -> str:
    """How far an interrupted comparison came."""
    n = comparison.repeats
    return f"{n} finished of each{'' if n else '; nothing to compare'}"


def table(comparison: Comparison) -> str:
    """The figures for people, and what to try next."""
    job, fast = comparison.job, comparison.generation
    alone = comparison.alone[0].generation
    speeds = speed(comparison.alone), speed(comparison.speculative)
    forwards = alone.tokens_per_target_forward, fast.tokens_per_target_forward
    rows = [
        ("", "target alone", "speculative"),
        ("tokens per second", *(f"{one:.0f}" for one in speeds)),
        ("speed-up", "", two_digits(comparison.speedup, "x")),
        ("acceptance rate (alpha)", "", share(fast.accepted, fast.judged)),
        ("accepted of all drafted", "", share(fast.accepted, fast.drafted)),
        ("accepted by position", "", positions(fast)),
        ("tokens per target forward", *map(two_digits, forwards)),
        ("target forwards", str(alone.target_forwards), str(fast.target_forwards)),
        ("tokens", str(alone.emitted), str(fast.emitted)),
    ]
    settings = (
        f"{named(job.method)}, temperature {job.request.sampling.temperature:g}, "
        f"seed {job.seed}, {n_threads()}, median of {comparison.repeats}; "
    )
    lines = [f"{name:<27}{left:>14}{right:>18}".rstrip() for name, left, right in rows]
    what = "positions, several nodes each," if job.method.tree else "drafts"
    lines.append(f"(alpha: of the {what} judged; engines report: of all drafted)")
    lines.append(settings + sameness(comparison))
    if job.method.vocabulary:
        lines.append(job.method.vocabulary)
    return "\n".join([*lines, f"next: {advice(comparison)}"])


def share(part: int, whole: int) -> str:
    """A share and what it is of: "142/175 = 0.81"."""
    return f"{part}/{whole} = {part / whole:.2f}" if whole else "-"


def positions(generation: Generation) -> str:
    """The share of rounds that accepted each draft position: "0.81 0.64 0.50"."""
    shares = generation.acceptance_by_position
    shown = " ".join(f"{one:.2f}" for one in shares[:N_POSITIONS]) or "-"
    return shown + " ..." * (len(shares) > N_POSITIONS)


def two_digits(value: float | None, unit: str = "") -> str:
    """A figure, or a dash where there was nothing to divide."""
    return "-" if value is None else f"{value:.2f}{unit}"


def sameness(comparison: Comparison) -> str:
    """How the two texts relate, and why."""
    alone, fast = comparison.alone[0].generation, comparison.generation
    if alone.tokens == fast.tokens:
        return "the texts are the same"
    differ = "; lengths differ, speeds are per token"
    lengths = differ if alone.emitted != fast.emitted else ""
    job = comparison.job
    if job.is_lossy:
        return f"two texts of different distributions: the judge is lossy{lengths}"
    if not is_certain(job.request.sampling):
        return f"two texts of the same distribution{lengths}"
    return f"the texts part where two logits are equal but for rounding{lengths}"


def advice(comparison: Comparison) -> str:
    """One thing to try."""
    job, generation = comparison.job, comparison.generation
    rate, gain = generation.acceptance_rate, comparison.speedup
    gamma = job.method.gamma
    other = "--drafter ngram" if job.method.drafter == "model" else "--drafter model"
    if gain is None or (rate is None and generation.emitted == 1):
        return "more --tokens: there was nothing to draft"
    if rate is None:
        return f"{other}: nothing was drafted"
    if job.method.tree:
        return "the same without --tree: is a chain faster here?"
    if gain < 1:
        shorter = "" if gamma in (1, "auto", None) else "--gamma auto or "
        return f"{shorter}{other}: here drafting costs more than it brings"
    if not is_certain(job.request.sampling):
        return "--coupled or --temperature 0, and both texts become the same"
    if rate > 0.8 and isinstance(gamma, int) and gamma < 16:
        return f"--gamma {2 * gamma}: most drafts are accepted, so try more"
    if isinstance(gamma, int):
        return "--gamma auto: the length that pays best at the costs measured here"
    return "minispec trace: the same decode on a page, round by round"

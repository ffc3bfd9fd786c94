"""Devices and number types: few waits, nothing made elsewhere, rounding that is small.

A mode that sees every call on a tensor stands in for a device: it counts what would
wait for one, and finds tensors that would be made on the CPU. Where there is a CUDA
device, a real decode shows the same.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from minispec import GPT, Generation, GPTConfig, ModelDrafter, Request, Sampling, Seeded
from minispec import generate, generate_alone
from minispec.core.speculative import speculative_rounds
from minispec.exactness import largest_difference, output_distribution
from minispec.files.pair import device_named

from support.decoding import make_drafter, tiny
from support.strategies import tiny_gpt

MAKERS = {"tensor", "empty", "zeros", "ones", "full", "arange", "as_tensor"}
PROMPT = torch.tensor([1, 3, 2])


SAMPLINGS = {
    "sampled": Sampling(1.0),
    "greedy": Sampling(0),
    "everything": Sampling(0.9, 3, 0.9, 0.1, 1.2, min_length=9, eos_ids=(2,)),
}


class Watch(TorchFunctionMode):
    """Counts calls that wait for a device, and names makers that were given none."""

    def __init__(self) -> None:
        super().__init__()
        self.calls, self.homeless = Counter[str](), set[str]()

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        self.calls[name] += 1
        if name in MAKERS and "device" not in kwargs:
            self.homeless.add(name)
        return func(*args, **kwargs)


def watched(kind: str, sampling: Sampling) -> tuple[Generation, Watch]:
    """A decode of rounds of up to four drafts."""
    target, drafter = tiny(), make_drafter(kind, sampling=sampling)
    request = Request(PROMPT, 17, sampling, gamma=4)
    with Watch() as watch:
        return generate(target, drafter, request, Seeded(1)), watch


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
@pytest.mark.parametrize("kind", ["model", "ngram"])
def test_every_tensor_is_made_where_the_models_are(
    kind: str, sampling: Sampling
) -> None:
    assert not watched(kind, sampling)[1].homeless


@pytest.mark.parametrize("temperature", [0, 1])
def test_a_decision_waits_for_the_device_once(temperature: float) -> None:
    """Each draw does, and all ratios of a round together. Beside them a round waits to
    check what was drafted and to note it, and never for each decision to accept."""
    done, watch = watched("model", Sampling(temperature))
    drafting = [one for one in done.rounds if one.tokens]
    draws, waits = done.drafted + len(done.rounds), watch.calls
    assert waits["cpu"] == draws and waits["item"] == waits["__float__"] == 0
    # Highest logits (`amax`) are looked at on a CPU only, where nothing waits.
    lists = waits["tolist"] - waits["amax"]
    assert lists <= 3 * len(drafting) + 2 * len(done.rounds) + 1
    assert waits["__bool__"] <= 3


def test_a_longer_text_costs_no_more_calls() -> None:
    """Per round, whatever the length: nothing goes over the text token by token."""
    calls = []
    for n in (4, 400):
        target = tiny(n_positions=512)
        drafter = make_drafter("model", context=512)
        request = Request(torch.arange(n) % 4, 9, Sampling(0), gamma=2)
        rounds = speculative_rounds(target, drafter, request, Seeded(1))
        next(rounds)  # that of the prompt
        with Watch() as watch:
            one = next(rounds)
        calls.append((len(one.tokens), one.n_accepted, sum(watch.calls.values())))
    (K, _, few), (K_later, _, many) = calls
    assert K == K_later == 2 and abs(many - few) <= 4


# --------------------------------------------------------------------------- rounding

HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])


def narrow(dtype: torch.dtype, seed: int, V: int = 3) -> GPT:
    """Wide enough for sums to depend on their order. The enumeration needs float64, so
    what was rounded to `dtype` is widened that far."""
    model = tiny_gpt(GPTConfig(2, 2, 96, V, n_positions=32), seed, dtype)
    model.head = lambda hidden: GPT.head(model, hidden).double()  # type: ignore
    return model


@HALVES
def test_sampling_in_a_narrow_type_is_the_targets_up_to_its_rounding(
    dtype: torch.dtype,
) -> None:
    """How many rows a pass has may change the last bits of a logit, and nothing more:
    both rows are widened, and compared as they are."""
    target, draft = narrow(dtype, 0), narrow(dtype, 1)
    sampling = Sampling(1.0)
    request = Request(torch.tensor([0, 1]), 3, sampling, gamma=2)
    found = output_distribution(
        lambda chance: generate(
            target, ModelDrafter(draft, sampling), request, chance
        ).tokens
    )
    alone = output_distribution(
        lambda chance: generate_alone(target, request, chance).tokens
    )
    step = torch.finfo(dtype).eps
    assert largest_difference(found, alone) <= 4 * step


@HALVES
def test_a_greedy_text_parts_from_the_targets_only_at_a_near_tie(
    dtype: torch.dtype,
) -> None:
    n_same = 0
    for seed in range(8):
        target, draft = narrow(dtype, seed, 7), narrow(dtype, 99, 7)
        request, greedy = Request(PROMPT, 20, Sampling(0)), Sampling(0)
        fast = generate(target, ModelDrafter(draft, greedy), request, Seeded(0)).tokens
        slow = generate_alone(target, request, Seeded(0)).tokens
        parts = [i for i, (a, b) in enumerate(zip(fast, slow)) if a != b]
        n_same += not parts
        if parts:
            text = torch.tensor([[*PROMPT.tolist(), *slow[: parts[0]]]])
            scores = target(text)[0, -1].double()
            gap = scores[slow[parts[0]]] - scores[fast[parts[0]]]
            assert abs(gap) <= 4 * torch.finfo(dtype).eps * scores.abs().max()
    assert n_same >= 4


# ---------------------------------------------------------------------------- devices


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_on_cuda_the_text_is_the_one_of_the_cpu(sampling: Sampling) -> None:
    texts = []
    for device in ("cpu", "cuda"):
        drafter = make_drafter("model", sampling=sampling)
        drafter.model.to(device)
        request = Request(PROMPT, 17, sampling, gamma=4)
        texts.append(generate(tiny().to(device), drafter, request, Seeded(1)).tokens)
    assert texts[0] == texts[1]


def test_a_device_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr("torch.backends.mps.is_available", lambda: True)
    assert device_named("auto", torch.float32).type == "mps"
    assert device_named("auto", torch.float64).type == "cpu"
    for name, dtype in (("cuda:1", torch.float32), ("mps", torch.float64), ("", None)):
        with pytest.raises(ValueError, match="no device .* choose auto or"):
            device_named(name, dtype)

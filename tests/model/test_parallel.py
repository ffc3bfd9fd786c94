"""A model over two processes is the model, and every rank writes the same text."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

from minispec import GPT, GPTConfig, ModelDrafter, NgramDrafter, Request, Sampling
from minispec import Seeded, generate, generate_alone
from minispec.model.bare import lay_bare
from minispec.model.packed import pack
from minispec.model.parallel import split

from support.strategies import tiny_gpt

pytestmark = pytest.mark.skipif(
    not dist.is_available(), reason="this torch was built without torch.distributed"
)
CONFIG = GPTConfig(2, n_head=2, n_embd=8, vocab_size=7, n_positions=40)  # 7 is odd
PROMPT = torch.tensor([3, 1, 4, 1, 5])


def target(seed: int = 0, **changes: Any) -> GPT:
    return tiny_gpt(GPTConfig(**{**vars(CONFIG), **changes}), seed)


def rank_of_two(rank: int, work: Callable[[], Any], folder: str) -> None:
    where = f"file://{folder}/meet"
    dist.init_process_group("gloo", where, rank=rank, world_size=2)
    torch.save(work(), f"{folder}/{rank}")
    dist.destroy_process_group()


def on_two_ranks(work: Callable[[], Any], folder: Path) -> list[Any]:
    """What `work` returns on each of two ranks."""
    context = mp.get_context("spawn")
    arguments = [(rank, work, str(folder)) for rank in range(2)]
    ranks = [context.Process(target=rank_of_two, args=one) for one in arguments]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(120)
    assert [one.exitcode for one in ranks] == [0, 0]
    return [torch.load(folder / str(rank)) for rank in range(2)]


def requests() -> list[Request]:
    warm, greedy = Sampling(1.1, eos_ids=(6,)), Sampling(temperature=0)
    samplings = warm, greedy, Sampling(noise_seed=3)
    return [Request(PROMPT, 30, sampling) for sampling in samplings]


def texts(model: GPT) -> list[tuple[int, ...]]:
    draft = target(seed=1)
    return [
        run(seed).tokens
        for request in requests()
        for seed in (1, 2)
        for run in (
            lambda s: generate(
                model, ModelDrafter(draft, request.sampling), request, Seeded(s)
            ),
            lambda s: generate(model, NgramDrafter(7), request, Seeded(s)),
            lambda s: generate_alone(model, request, Seeded(s)),
        )
    ]


def work_of_a_rank() -> dict[str, Any]:
    """Logits of both kinds of head, texts, and how often the ranks exchanged."""
    found: dict[str, Any] = {}
    with torch.inference_mode():
        for tied in (True, False):
            model = split(target(tie_word_embeddings=tied))
            cache = model.new_cache()
            first = model(PROMPT[None, :2], cache)
            logits = torch.cat([first, model(PROMPT[None, 2:], cache)], dim=1)
            found[f"logits {tied}"] = logits
    model = split(target())
    found["texts"] = texts(model)
    found["share"] = model.n_parameters - model.wte.weight.numel()
    found |= exchanges_of(model)
    dist.barrier()  # before one of them goes
    return found


def exchanges_of(model: GPT) -> dict[str, int]:
    """How many passes and all-reduces a text takes, alone and speculatively."""
    all_reduce, counts = dist.all_reduce, {"n": 0}

    def counted(*args: Any, **by: Any) -> Any:
        counts["n"] += 1
        return all_reduce(*args, **by)

    dist.all_reduce = counted
    request = requests()[0]
    alone = generate_alone(model, request, Seeded(0)), counts["n"]
    drafter = ModelDrafter(target(), request.sampling)
    fast = generate(model, drafter, request, Seeded(0)), counts["n"] - alone[1]
    dist.all_reduce = all_reduce
    return {
        f"{what} {name}": n
        for name, (done, exchanges) in (("alone", alone), ("fast", fast))
        for what, n in (("passes", done.target_forwards), ("exchanges", exchanges))
    }


def test_two_ranks_are_the_model(tmp_path: Path) -> None:
    found = on_two_ranks(work_of_a_rank, tmp_path)
    with torch.inference_mode():
        for tied in (True, False):
            expected = target(tie_word_embeddings=tied)(PROMPT[None])
            for one in found:
                got = one[f"logits {tied}"]
                torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    assert found[0]["texts"] == found[1]["texts"] == texts(target())
    whole = target()
    assert found[0]["share"] < 0.75 * (whole.n_parameters - whole.wte.weight.numel())
    for one in found:  # two for each layer of a pass, however many tokens it verifies
        for how in ("alone", "fast"):
            n = 2 * CONFIG.n_layer * one[f"passes {how}"]
            assert one[f"exchanges {how}"] == n
        assert one["exchanges fast"] < one["exchanges alone"] / 2


def test_what_cannot_be_shared_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_rank", lambda group=None: 0)
    monkeypatch.setattr(dist, "get_world_size", lambda group=None: 3)
    with pytest.raises(ValueError, match="2 heads cannot be shared out .* 3 processes"):
        split(target())
    with pytest.raises(ValueError, match="10 columns of the MLP"):
        split(target(n_head=3, n_embd=9, n_inner=10))


def test_a_packed_or_bare_model_is_not_split() -> None:
    config = GPTConfig(1, n_head=2, n_embd=64, vocab_size=7, n_positions=8)
    models = [tiny_gpt(config, 0, torch.float32) for _ in range(2)]
    for model in (pack(models[0], least=0), lay_bare(models[1])):
        with pytest.raises(ValueError, match="split the model first"):
            split(model)


def lonely_rank() -> str:
    dist.barrier()  # both are there, and then one is not
    if dist.get_rank() == 0:
        os._exit(0)
    try:
        generate_alone(split(target()), requests()[1], Seeded(0))
    except ConnectionError as error:
        return str(error)
    return "nothing was noticed"


def test_a_rank_that_dies_ends_the_others(tmp_path: Path) -> None:
    context = mp.get_context("spawn")
    ranks = [
        context.Process(target=rank_of_two, args=(rank, lonely_rank, str(tmp_path)))
        for rank in range(2)
    ]
    for one in ranks:
        one.start()
    for one in ranks:
        one.join(120)
    assert "rank 1 lost another rank" in torch.load(tmp_path / "1")

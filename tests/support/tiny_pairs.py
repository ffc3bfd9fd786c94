"""Checkpoint folders for tests: tiny models over the raw bytes.

`chain_folder` makes a model whose text is known: after each byte comes the next of a
given chain, with (nearly) all the probability. So tests can say what must be written.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from minispec.files import checkpoint
from minispec.model.gpt2 import GPT, GPTConfig

from support.vocabularies import write_ranks

V = 257  # the bytes and <|endoftext|>
EOS = 256


def write_vocabulary(folder: Path, n_words: int = 0) -> None:
    """The bytes as a .tiktoken file, and `n_words` longer tokens."""
    tokens = [bytes([b]) for b in range(256)] + [b"a" * (n + 2) for n in range(n_words)]
    write_ranks(folder / "bytes.tiktoken", tokens)


def random_folder(
    folder: Path, seed: int, n_words: int = 0, n_positions: int = 96
) -> Path:
    """A model of random weights: every byte is possible, most text is not UTF-8."""
    config = GPTConfig(1, 1, 8, vocab_size=V + n_words, n_positions=n_positions)
    model = GPT(config).initialize(torch.Generator().manual_seed(seed), std=0.5)
    checkpoint.save(model, folder, torch.float32)
    write_vocabulary(folder, n_words)
    return folder


def random_pair(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Options that name two models of random weights, made in folders of their own."""
    folders = [tmp_path_factory.mktemp(name) for name in ("target", "draft")]
    target, draft = (random_folder(f, seed) for seed, f in enumerate(folders))
    return ["--target", str(target), "--draft", str(draft)]


@torch.no_grad()
def chain_folder(
    folder: Path, chain: bytes, ends: bool = False, n_positions: int = 96
) -> Path:
    """A model that goes through `chain`, of distinct bytes, again and again.

    Anything else is followed by the first byte. With `ends`, the last is followed by
    EOS. The blocks add nothing; embeddings are one-hot, and the head is the table of
    successors.
    """
    assert len(set(chain)) == len(chain)
    successor = torch.full((V,), chain[0])
    successor[list(chain)] = torch.tensor([*chain[1:], EOS if ends else chain[0]])
    config = GPTConfig(1, 1, V, V, n_positions, n_inner=1, tie_word_embeddings=False)
    model = GPT(config)
    for parameter in model.parameters():
        parameter.zero_()
    model.ln_f.weight.fill_(1.0)
    model.wte.weight.copy_(torch.eye(V))
    model.lm_head.weight[successor, torch.arange(V)] = 4.0  # times 16 after ln_f
    checkpoint.save(model, folder, torch.float32)
    write_vocabulary(folder)
    return folder

"""Parameters are counted over all tensors of the file, causal masks among them.

Made by whoever sums a state dict of GPT-2, which stores its masks (inference).
"""

from collections import Counter
from pathlib import Path

import torch

from minispec.analysis import seconds_per_token
from minispec.checkpoint import read_folder
from minispec.checkpoint.weight_files import read_weights, weight_paths
from minispec.inspection import Facts, _tokenizer

REPLACES = "inspection.py:inspect"
CAUGHT_BY = ["test_inspection.py"]


def inspect(
    folder: Path | str, bandwidth: float, dtype: torch.dtype = torch.float32
) -> Facts:
    folder, size = Path(folder), dtype.itemsize
    config, _ = read_folder(folder)
    tokenizer_size, problem = _tokenizer(folder, config.vocab_size)
    n_parameters = sum(tensor.numel() for tensor in read_weights(folder).values())
    stored: Counter[str] = Counter()
    for tensor in read_weights(folder).values():
        name = str(tensor.dtype).removeprefix("torch.")
        stored[name] += tensor.numel() * tensor.element_size()
    return Facts(
        folder=folder,
        config=config,
        tokenizer_size=tokenizer_size,
        tokenizer_problem=problem,
        n_parameters=n_parameters,
        files={path.name: path.stat().st_size for path in weight_paths(folder)},
        stored=dict(stored),
        memory_bytes=n_parameters * size,
        cache_bytes_per_token=2 * config.n_layer * config.n_embd * size,
        bandwidth=bandwidth,
        seconds_per_token=seconds_per_token(n_parameters, size, bandwidth),
    )

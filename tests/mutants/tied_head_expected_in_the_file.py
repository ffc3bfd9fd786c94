"""A file without `lm_head.weight` is refused, although a tied head is never stored.

ggml-org/llama.cpp, issue 12567; huggingface/transformers, issue 38870.
"""

from collections.abc import Mapping

from torch import Tensor

from minispec.checkpoint.key_names import expected_shapes
from minispec.checkpoint.safetensors_format import CheckpointError
from minispec.gpt2 import GPTConfig

REPLACES = "checkpoint/key_names.py:check_shapes"
CAUGHT_BY = ["test_checkpoint.py"]


def check_shapes(tensors: Mapping[str, Tensor], config: GPTConfig) -> None:
    shapes = expected_shapes(config)
    shapes["lm_head.weight"] = (config.vocab_size, config.n_embd)
    for name, shape in shapes.items():
        if name not in tensors or tuple(tensors[name].shape) != shape:
            raise CheckpointError(f"expected {name} with shape {list(shape)}")

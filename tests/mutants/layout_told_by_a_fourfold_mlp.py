"""The layout is read from `c_fc`, assuming that the MLP is 4 E wide.

Made by whoever has seen GPT-2's sizes only; `n_inner` may be anything (compare
keras-team/keras-hub, pull request 1704).
"""

from torch import Tensor

from minispec.checkpoint.key_names import is_matrix

REPLACES = "checkpoint/key_names.py:conv1d_layout"
CAUGHT_BY = ["test_checkpoint.py"]


def conv1d_layout(tensors: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    first = tensors.get("h.0.mlp.c_fc.weight")
    if first is None or tuple(first.shape) != (4 * width, width):
        return tensors
    return {
        name: tensor.t() if is_matrix(name) else tensor
        for name, tensor in tensors.items()
    }

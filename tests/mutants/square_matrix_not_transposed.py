"""Of an nn.Linear checkpoint only matrices whose shape is wrong are transposed.

`attn.c_proj` is square, so it is left as it is. GPT-2's layout was met in
karpathy/nanoGPT (issue 190), nntile/nntile (pull request 370) and lablup/mlxcel (pull
request 926); that it was decided by shape is inference.
"""

from torch import Tensor

from minispec.checkpoint.key_names import is_matrix

REPLACES = "checkpoint/key_names.py:conv1d_layout"
CAUGHT_BY = ["test_checkpoint.py"]


def conv1d_layout(tensors: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    first = tensors.get("h.0.attn.c_attn.weight")
    if first is None or tuple(first.shape) != (3 * width, width):
        return tensors
    return {
        name: tensor.t() if is_matrix(name) and len(set(tensor.shape)) > 1 else tensor
        for name, tensor in tensors.items()
    }

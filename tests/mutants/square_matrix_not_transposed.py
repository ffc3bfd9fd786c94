"""Each matrix of an nn.Linear checkpoint is transposed if its shape asks for it.

`attn.c_proj` is square, so it never asks. GPT-2's layout was met in
karpathy/nanoGPT (issue 190), nntile/nntile (pull request 370) and lablup/mlxcel (pull
request 926); that it was decided by shape is inference.
"""

from torch import Tensor

from minispec.checkpoint.key_names import is_matrix

REPLACES = "checkpoint/key_names.py:conv1d_layout"
CAUGHT_BY = ["test_checkpoint.py"]


def conv1d_layout(tensors: dict[str, Tensor], width: int) -> dict[str, Tensor]:
    def turned(name: str, tensor: Tensor) -> bool:
        widens = "c_attn" in name or "c_fc" in name
        rows, columns = tensor.shape
        return rows > columns if widens else columns > rows

    return {
        name: tensor.t() if is_matrix(name) and turned(name, tensor) else tensor
        for name, tensor in tensors.items()
    }

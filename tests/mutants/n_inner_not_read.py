"""config.json's `n_inner` is not read.

keras-team/keras-hub (pull request 1704) took the width from elsewhere.
"""

REPLACES = "checkpoint/config.py:OPTIONAL"
CAUGHT_BY = ["test_checkpoint.py"]

OPTIONAL = {
    "activation_function": str,
    "layer_norm_epsilon": float,
    "scale_attn_by_inverse_layer_idx": bool,
    "tie_word_embeddings": bool,
}

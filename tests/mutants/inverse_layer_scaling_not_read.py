"""config.json's `scale_attn_by_inverse_layer_idx` is not read, and no key is missed.

huggingface/transformers ignored it before pull request 13573, and so did mlc-ai/mlc-llm
before pull request 1389.
"""

REPLACES = "checkpoint/config.py:OPTIONAL"
CAUGHT_BY = ["test_checkpoint.py"]

OPTIONAL = {
    "n_inner": int,
    "activation_function": str,
    "layer_norm_epsilon": float,
    "tie_word_embeddings": bool,
}

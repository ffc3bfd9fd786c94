"""The model: a GPT-2 by hand.

Read `kv_cache` (what is kept of the past), `layers`, `attention`, then `gpt2`.
"""

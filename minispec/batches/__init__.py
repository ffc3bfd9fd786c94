"""Many texts at once: each as it would be alone, and sooner together.

Read `ragged_cache` (rows of different lengths in one memory), `drafting`, and
`speculative`: the round for all rows, and the list of texts that wait for one.
"""

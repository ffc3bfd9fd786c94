"""Drafts as trees: several guesses at each position, verified in one pass.

`tree` (what is proposed), `verify`, `rejection`, `speculative`: read beside their
namesakes in `core/`. `drafters` and `ngram` grow trees; `shape` computes the best ones.
"""

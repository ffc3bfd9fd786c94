"""Drafts as trees: several guesses at each position, verified in one pass.

Read `tree` (what is proposed), then `verify`, `rejection`, `rounds`, `speculative` and
`checked` beside their namesakes in `core/`. `choices` takes the children of a node and
`growing` adds levels; with them `drafters` makes trees from a model. `factorised` makes
them from heads, `ngram` by copying, and `shape` computes the best ones.
"""

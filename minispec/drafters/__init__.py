"""Other ways to make a `Proposal`, one file each. The plain one is `core/draft.py`.

Read `ngram` and `suffix`, which copy what was said before and have no model. Then
`heads`: what small networks share that read the target's hidden states, `medusa`,
`mtp`, `early_exit`, `eagle` (its step is in `folded`) and `block_diffusion`.
`vocabularies` lets a draft model speak another vocabulary than the target's.
"""

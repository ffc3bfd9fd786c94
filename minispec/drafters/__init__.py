"""Other ways to make a `Proposal`, one file each. The plain one is `core/draft.py`.

Read `ngram`: it copies from the text so far and has no model. Then `heads`: what small
networks share that read the target's hidden states, `medusa`, `mtp`, `early_exit`,
`eagle` (its step is in `folded`) and `block_diffusion`.
"""

"""Speculative decoding itself. Read these files, and you know the subject.

`autoregressive` `sampling` `randomness`: the baseline, and how a token is drawn.
`draft` `verify` `rejection` `rollback`: the four parts of a round.
`text` `stopping` `rounds`: what to write, where it ends, what a decode leaves behind.
`speculative`: the round, and the loop of rounds.
`checked` `analysis`: the border to foreign drafters; how fast it can be.
`lengths` `coupling`: lengths that adapt; dice thrown before the text.
"""

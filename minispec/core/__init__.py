"""Speculative decoding itself. Read these files, and you know the subject.

`autoregressive` `sampling` `randomness`: the baseline, and how a token is drawn.
`draft` `verify` `rejection` `rollback`: the four parts of a round.
`text` `stopping` `rounds`: what to write, where it ends, what a decode leaves behind.
`speculative`: the round, and the loop of rounds.
`analysis`: how fast it can be. `coupling`: dice thrown before the text.
`lengths`: lengths that adapt. `checked`: the border to foreign drafters.
"""

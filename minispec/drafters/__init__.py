"""Other ways to make a `Proposal`, one file each. The plain one is `core/draft.py`.

Read `ngram`: it copies from the text so far and has no model.
"""

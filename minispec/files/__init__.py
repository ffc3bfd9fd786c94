"""What comes from files: models, vocabularies, and the pair of them that decodes.

To read in this order: `tokenizer.py` (text <-> ids), `vocabulary.py` and
`merge_files.py` (where ids come from), `checkpoint/` (a folder <-> GPT), `pair.py`
(target and draft), `inspection.py` (what a folder holds). `whole.py` writes files,
`errors.py` is what goes wrong.
"""

"""A byte without a visible character is written as U+0100 plus the byte itself.

Right up to the space, which is all that one sees; GPT-2 takes the next free character.
Made by whoever reads the alphabet off a few tokens (inference).
"""

REPLACES = "vocabulary.py:BYTE_OF"
CAUGHT_BY = ["test_tokenizer.py::test_the_alphabet_of_gpt2"]

VISIBLE = {*range(33, 127), *range(161, 173), *range(174, 256)}
BYTE_OF = {chr(b if b in VISIBLE else 256 + b): b for b in range(256)}

"""<|endoftext|> in a user's text becomes the special token, asked for or not.

Made by whoever lets the tokenizer decide; then a prompt can end a text (inference).
"""

REPLACES = "tokenizer.py:Tokenizer.encode"
CAUGHT_BY = ["test_tokenizer.py"]


class Tokenizer:
    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        return self.encoding.encode(text, allowed_special="all")

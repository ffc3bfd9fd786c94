"""<|endoftext|> in a text raises, as tiktoken does by default.

simonw/ttok, issue 13.
"""

REPLACES = "tokenizer.py:Tokenizer.encode"
CAUGHT_BY = ["test_tokenizer.py"]


class Tokenizer:
    def encode(self, text: str, allow_special: bool = False) -> list[int]:
        if allow_special:
            return self.encoding.encode(text, allowed_special="all")
        return self.encoding.encode(text)

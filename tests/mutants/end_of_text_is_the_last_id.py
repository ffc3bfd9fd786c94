"""The id of <|endoftext|> is taken to be the last of the vocabulary.

So it is in GPT-2's; whoever fine-tunes adds tokens for padding behind it (inference).
"""

import tiktoken

REPLACES = "tokenizer.py:Tokenizer.__init__"
CAUGHT_BY = ["test_tokenizer.py"]


class Tokenizer:
    def __init__(self, encoding: tiktoken.Encoding) -> None:
        self.encoding = encoding
        self.vocab_size = encoding.n_vocab
        names = sorted(encoding.special_tokens_set)
        self.specials = {name: encoding.encode_single_token(name) for name in names}
        self.eos_id = self.vocab_size - 1
        self._bytes_of = [
            encoding.decode_single_token_bytes(i) for i in range(self.vocab_size)
        ]

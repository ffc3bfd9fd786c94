"""minispec: speculative decoding, written to be read. Start with the README.

    core/       the subject itself: read this first, in the order of its __init__
    model/      a GPT-2 by hand, over an explicit KV cache
    drafters/   other ways to guess ahead
    judges/     other ways to decide which drafts stay
    trees/      several guesses at each position
    batches/    many texts at once
    exactness/  the proof: every outcome of chance, enumerated
    files/      checkpoints, tokenizers, and the pair that ships with the project
    show/       a decode made visible
    commands/   what `python -m minispec COMMAND` does
"""

from minispec.core.autoregressive import generate_alone
from minispec.core.draft import Drafter, ModelDrafter, Proposal
from minispec.core.randomness import Seeded
from minispec.core.rejection import reject
from minispec.core.rounds import Generation, Round
from minispec.core.sampling import Sampling
from minispec.core.speculative import generate, speculative_rounds
from minispec.core.text import Request
from minispec.drafters.ngram import NgramDrafter
from minispec.files.pair import Pair, load_model, load_pair
from minispec.model.gpt2 import GPT, GPTConfig

__version__ = "0.2.0"
__all__ = [
    "GPT",
    "Drafter",
    "GPTConfig",
    "Generation",
    "ModelDrafter",
    "NgramDrafter",
    "Pair",
    "Proposal",
    "Request",
    "Round",
    "Sampling",
    "Seeded",
    "generate",
    "generate_alone",
    "load_model",
    "load_pair",
    "reject",
    "speculative_rounds",
]

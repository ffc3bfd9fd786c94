"""Each round's tokens are decoded by themselves, and split characters become U+FFFD.

waybarrios/vllm-mlx, pull request 109; sgl-project/sglang, issue 31598;
vllm-project/vllm, issue 48853.
"""

from minispec.autoregressive import Step
from minispec.commands.options import Request
from minispec.generation import Round
from minispec.tokenizer import StreamDecoder
from minispec.trace import Paint

REPLACES = "commands/streaming.py:piece_of"
CAUGHT_BY = ["test_cli.py"]


def piece_of(
    step: Step | Round, decoder: StreamDecoder, paint: Paint, request: Request
) -> str:
    hidden = request.limits.eos_ids
    tokens = [token for token in step.committed if token not in hidden]
    return paint(request.pair.tokenizer.decode(tokens), "plain")

"""Where a folder holds both, the pickle is read and not the safetensors file.

Made by whoever adds the newer format behind the older (inference).
"""

from minispec.checkpoint import safetensors_format
from minispec.checkpoint.weight_files import Reader, read_pickle

REPLACES = "checkpoint/weight_files.py:READERS"
CAUGHT_BY = ["test_checkpoint.py"]

READERS: dict[str, Reader] = {
    "pytorch_model.bin": read_pickle,
    "model.safetensors": safetensors_format.read,
}

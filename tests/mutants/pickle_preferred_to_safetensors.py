"""Where a folder holds both, the pickle is read and not the safetensors file.

Made by whoever adds the newer format behind the older (inference).
"""

from minispec.checkpoint import pickle_format, safetensors_format
from minispec.checkpoint.weight_files import Reader

REPLACES = "checkpoint/weight_files.py:READERS"
CAUGHT_BY = ["test_checkpoint.py"]

READERS: dict[str, Reader] = {
    "pytorch_model.bin": pickle_format.read,
    "model.safetensors": safetensors_format.read,
}

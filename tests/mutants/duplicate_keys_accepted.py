"""Of two tensors with one name the last is taken, as Python's `json` does.

safetensors/safetensors, issue 401, is about such a file.
"""

import json
from typing import Any

REPLACES = "checkpoint/safetensors_header.py:_parse_json"
CAUGHT_BY = ["test_safetensors_format.py"]


def _parse_json(text: bytes) -> dict[str, Any]:
    if text[:1] != b"{":
        raise ValueError("it must begin with {")
    return json.loads(text.decode())

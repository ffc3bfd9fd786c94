"""The data stand in the page as plain JSON, and </script> in a text ends them.

Made by whoever takes JSON for safe inside HTML (inference).
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

REPLACES = "trace/page.py:render"
CAUGHT_BY = ["test_trace_page.py"]


def render(data: Mapping[str, Any]) -> str:
    here = Path(str(__file__))

    def part(suffix: str) -> str:
        return here.with_suffix(suffix).read_text(encoding="utf-8")

    script = "\n".join(map(part, (".parts.js", ".says.js", ".js")))
    embedded = json.dumps(data, allow_nan=False)
    page = part(".html").replace("{{style}}", part(".css"))
    page = page.replace("{{script}}", script)
    return page.replace("{{data}}", embedded)

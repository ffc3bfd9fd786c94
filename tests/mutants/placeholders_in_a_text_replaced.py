"""The data are put in first, so "{{style}}" in a prompt is replaced as well.

Made by whoever fills a template in the order of the page (inference).
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
    embedded = json.dumps(data, allow_nan=False).replace("<", "\\u003c")
    page = part(".html").replace("{{data}}", embedded)
    page = page.replace("{{style}}", part(".css"))
    return page.replace("{{script}}", script)

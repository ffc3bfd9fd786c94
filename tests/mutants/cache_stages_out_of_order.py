"""A cache's lengths are shown after rollback before those after verifying.

Made by whoever lists the fields as they are declared elsewhere (inference).
"""

from minispec.trace.recording import Recorded

REPLACES = "trace/page.py:caches_data"
CAUGHT_BY = ["test_trace_page.py"]


def caches_data(recorded: Recorded) -> dict[str, list[int] | None]:
    stages = (recorded.before, recorded.after, recorded.reached)
    draft = [stage.draft for stage in stages if stage.draft is not None]
    return {"target": [stage.target for stage in stages], "draft": draft or None}

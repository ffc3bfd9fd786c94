"""Judges: which drafts stay, and what follows them. Each has the shape of `reject`.

`block` is exact and accepts more; `lossy` holds three that trade the target's
distribution for speed, which `exactness/price` measures. Read them in this order. By
name on the command line, `lenient` takes a lenience of 0.5 and `top-k` a k of 2.
"""

from __future__ import annotations

from minispec.core.rejection import Judge, reject
from minispec.judges.block import reject_block
from minispec.judges.lossy import agree_on_top_k, lenient, typical

# The names on the command line. The output distribution of these is the target's ...
EXACT: dict[str, Judge] = {"reject": reject, "block": reject_block}
# ... and of these it is not, unless the target's rows are one-hot.
LOSSY: dict[str, Judge] = {
    "typical": typical(),
    "lenient": lenient(0.5),
    "top-k": agree_on_top_k(2),
}

"""A mutation tool, mutmut, over the parts of the round.

    python tests/run_mutmut.py run        then `results`, `show NAME`, `run NAME`

The arguments are mutmut's own, and so are the settings, in setup.cfg. One thing is
arranged here that no setting reaches: mutmut leaves out every function with a
decorator, so also `propose` and `verify`. `@torch.inference_mode()` does no harm to it:
a copied function may bear it too.
"""

from __future__ import annotations

import os

import libcst as cst
from mutmut.__main__ import cli
from mutmut.mutation.file_mutation import MutationVisitor

skip_by_rule = MutationVisitor._skip_node_and_children


def skip(visitor: MutationVisitor, node: cst.CSTNode) -> bool:
    """Whether to leave the node and all below it as they are."""
    if isinstance(node, cst.FunctionDef):
        above = [cst.Module([]).code_for_node(one).strip() for one in node.decorators]
        if above == ["@torch.inference_mode()"]:
            return False
    return skip_by_rule(visitor, node)


if __name__ == "__main__":
    MutationVisitor._skip_node_and_children = skip  # type: ignore[method-assign]
    os.environ["OMP_NUM_THREADS"] = "1"  # a forked process waits for threads it lost
    cli()

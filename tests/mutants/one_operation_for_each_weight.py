"""A token is reckoned at one operation per weight: multiply and add count as one.

Data sheets count two; made by whoever mixes up FLOPs and multiply-adds (inference).
"""

REPLACES = "analysis.py:tokens_while_flat"
CAUGHT_BY = ["test_analysis.py"]


def tokens_while_flat(
    bytes_per_parameter: float, bytes_per_second: float, flops_per_second: float
) -> float:
    return bytes_per_parameter * flops_per_second / bytes_per_second

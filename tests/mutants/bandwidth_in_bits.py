"""The time for a token is bits over bytes per second: eight times too long.

Made by whoever takes a link's speed for a memory's (inference).
"""

REPLACES = "analysis.py:seconds_per_token"
CAUGHT_BY = ["test_analysis.py", "test_inspection.py"]


def seconds_per_token(
    n_parameters: float, bytes_per_parameter: float, bytes_per_second: float
) -> float:
    return 8 * n_parameters * bytes_per_parameter / bytes_per_second

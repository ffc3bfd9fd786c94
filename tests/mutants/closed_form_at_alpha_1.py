"""The closed form is used as printed, and divides 0 by 0 where all drafts are kept.

Made by whoever copies equation 1 of Leviathan et al. (inference).
"""

from minispec.analysis import _check_alpha, _check_gamma

REPLACES = "analysis.py:expected_tokens"
CAUGHT_BY = ["test_analysis.py"]


def expected_tokens(alpha: float, gamma: int) -> float:
    _check_alpha(alpha)
    _check_gamma(gamma)
    return (1 - alpha ** (gamma + 1)) / (1 - alpha)

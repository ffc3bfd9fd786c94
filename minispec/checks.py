"""What a number that comes from outside must be: checks that every room shares."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from numbers import Real
from typing import SupportsIndex


def require(condition: bool, name: str, expected: str, owner: object) -> None:
    """Raise a ValueError that names the field, what is allowed and what was given."""
    if not condition:
        raise ValueError(f"{name} must be {expected}, got {getattr(owner, name)}")


def real_number(name: str, value: object) -> float:
    """The value as a float. TypeError for anything but a number, such as "1"."""
    if not isinstance(value, Real):  # Python's and numpy's
        raise TypeError(f"{name} must be a number, got {value!r:.80}")
    return float(value)


def whole_number(name: str, value: SupportsIndex, least: int) -> int:
    """The value as an int. TypeError unless it is whole, ValueError if below `least`.

    numpy's and torch's integers are whole numbers too; 2.0 is not.
    """
    try:
        number = operator.index(value)
    except (TypeError, RuntimeError) as error:  # on `meta` there are no numbers
        raise TypeError(f"{name} must be a whole number, got {value!r:.80}") from error
    if number < least:
        raise ValueError(f"{name} must be at least {least}, got {number!r:.80}")
    return number


def id_tuple(ids: Iterable[SupportsIndex]) -> tuple[int, ...]:
    """EOS ids as a tuple. TypeError or ValueError for what cannot be ids."""
    try:
        each = tuple(ids)
    except TypeError as error:
        expected = "eos_ids must be ids, such as (2,)"
        raise TypeError(f"{expected}, got {ids!r:.80}") from error
    return tuple(whole_number("an EOS id", eos, least=0) for eos in each)

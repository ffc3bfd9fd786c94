"""Values and errors in few words, for the learner who has to see what is wrong."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch import Tensor

from grafting import Call

WIDTH = 150
N_NUMBERS = 24  # a tensor of more is told by its shape


def told_call(call: Call) -> list[str]:
    """name(arguments) and what came out."""
    lengths = [*call.lengths, *[None] * len(call.keywords)]
    values = [*call.arguments, *call.keywords.values()]
    told = [told_value(value, length) for value, length in zip(values, lengths)]
    whole = f"{call.name}({', '.join(told)})"
    if len(whole) > WIDTH:
        lines = [f"  {one}" for one in told]
        return [f"{call.name}(", *lines, f") gave {result(call)}"]
    return [f"{whole} gave {result(call)}"]


def result(call: Call) -> str:
    return call.result if call.result == "an error" else told_value(call.result)


def told_value(value: Any, length: int | None = None) -> str:
    """A value in one line; of a cache, how much it held when it was handed over."""
    if isinstance(value, Tensor):
        return told_tensor(value)
    if isinstance(value, torch.nn.Module):
        return f"a {type(value).__name__}"
    if hasattr(value, "capacity") and hasattr(value, "length"):
        before = value.length if length is None else length
        return f"a cache with {before} of {value.capacity} positions"
    if isinstance(value, (tuple, list)):
        return cut(f"({', '.join(told_value(one) for one in value)})")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return told_dataclass(value)
    if type(value).__repr__ is object.__repr__:
        return f"a {type(value).__name__}"
    return cut(repr(value))


def told_tensor(value: Tensor) -> str:
    kind = str(value.dtype).removeprefix("torch.")
    if value.numel() > N_NUMBERS:
        return f"a {kind} tensor {list(value.shape)}"
    digits = 6 if value.is_floating_point() else 0
    return f"{rounded(value.tolist(), digits)} ({kind} {list(value.shape)})"


def rounded(values: Any, digits: int) -> Any:
    if isinstance(values, list):
        return [rounded(one, digits) for one in values]
    return float(f"{values:.{digits}g}") if isinstance(values, float) else values


def told_dataclass(value: Any) -> str:
    """Only the fields that are not what they are by default."""
    fields = [
        f"{field.name}={told_value(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if field.default is dataclasses.MISSING
        or getattr(value, field.name) != field.default
    ]
    return cut(f"{type(value).__name__}({', '.join(fields)})")


def told_text(error: BaseException, n_lines: int) -> list[str]:
    """What an error says, in so many lines; its type where that is no assertion."""
    lines = [line for line in str(error).splitlines() if line.strip()]
    if not isinstance(error, AssertionError):
        first = lines[0] if lines else ""
        lines = [f"{type(error).__name__}: {first}", *lines[1:]]
    if not lines:
        lines = ["the assertion does not hold"]
    more = ["..."] if len(lines) > n_lines else []
    return [cut(line) for line in lines[:n_lines]] + more


def cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."

"""Values and errors in few words, for the learner who has to see what is wrong."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from grafting import Call

LINE = 96  # a call of more is told over several lines
WIDTH = 150  # a line of more is cut
N_NUMBERS = 24  # a tensor of more is told by its shape


class Calls(dict[str, Call]):
    """The last call of each function, the latest last, and what then went into it.

    A function that writes into its arguments must not change what is told of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, tuple[Any, ...]] = {}

    def __setitem__(self, name: str, call: Call) -> None:
        if failed(call):  # as every call is until it has returned
            self.pop(name, None)
            self.given[name] = tuple(map(kept, call.arguments))
        super().__setitem__(name, call)


def kept(value: Any) -> Any:
    """The value as it is now."""
    if isinstance(value, Tensor):
        return value.detach().clone()
    return list(value) if isinstance(value, list) else value


def failed(call: Call) -> bool:
    return isinstance(call.result, str) and call.result == "an error"


def told_call(
    call: Call, given: Sequence[Any] | None = None, parameters: Sequence[str] = ()
) -> list[str]:
    """name(arguments) and what came out; `given`: the arguments as they went in."""
    given = call.arguments if given is None else given
    pairs = zip(given, call.lengths)
    told = [told_value(value, length) for value, length in pairs]
    names = [f"{name}=" if name != "self" else "" for name in parameters]
    names += [""] * (len(told) - len(names))
    told = [name + one for name, one in zip(names, told)]
    told += [f"{name}={told_value(one)}" for name, one in call.keywords.items()]
    result = "an error" if failed(call) else told_value(call.result)
    for name, before, after in zip(names, given, call.arguments):
        if isinstance(before, (Tensor, list)):
            if told_value(before) != told_value(after):
                result += f" and changed {name.rstrip('=')} to {told_value(after)}"
    line = f"{call.name}({', '.join(told)}) gave {result}"
    if len(line) <= LINE:
        return [line]
    return [f"{call.name}(", *(f"  {one}" for one in told), f") gave {result}"]


def told_value(value: Any, length: int | None = None) -> str:
    """A value in one line; of a cache, how much it held when it was handed over."""
    if isinstance(value, Tensor):
        return told_tensor(value)
    if isinstance(value, torch.nn.Module):
        return a(type(value).__name__)
    if hasattr(value, "capacity") and hasattr(value, "length"):
        before = value.length if length is None else length
        return f"a cache with {before} of {value.capacity} positions"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return told_dataclass(value)
    if isinstance(value, (tuple, list, dict)):
        return cut(told_many(value))
    if isinstance(value, float):
        return repr(rounded(value))
    return cut(clean(repr(value)))


def told_many(value: tuple[Any, ...] | list[Any] | dict[Any, Any]) -> str:
    """A collection, a named tuple with its names."""
    if isinstance(value, dict):
        pairs = (f"{told_value(k)}: {told_value(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    told = [told_value(one) for one in value]
    if isinstance(value, list):
        return f"[{', '.join(told)}]"
    if names := getattr(value, "_fields", ()):
        pairs = (f"{name}={one}" for name, one in zip(names, told))
        return f"{type(value).__name__}({', '.join(pairs)})"
    return f"({told[0]},)" if len(told) == 1 else f"({', '.join(told)})"


def a(noun: str) -> str:
    return f"{'an' if noun[:1].lower() in 'aeio' else 'a'} {noun}"


def told_tensor(value: Tensor) -> str:
    kind = str(value.dtype).removeprefix("torch.")
    if value.numel() > N_NUMBERS:
        return f"{a(kind)} tensor {list(value.shape)}"
    return f"{rounded(value.tolist())} ({kind} {list(value.shape)})"


def rounded(values: Any) -> Any:
    """Six digits, but nothing that is not 1 (or 2, ...) may look as if it were."""
    if isinstance(values, list):
        return [rounded(one) for one in values]
    if not isinstance(values, float):
        return values
    short = float(f"{values:.6g}")
    return values if short.is_integer() else short


def told_dataclass(value: Any) -> str:
    """Only the fields that are not what they are by default."""
    fields = [
        f"{field.name}={told_value(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if field.default is dataclasses.MISSING
        or getattr(value, field.name) != field.default
    ]
    return cut(f"{type(value).__name__}({', '.join(fields)})")


# ----------------------------------------------------------------------------- errors

# What pytest adds about functions themselves: "where f = <...>.f", "where <...> = ...".
OF_FUNCTIONS = re.compile(r"\s*\+ +(where|and) +(<|(\w+) = .*\.\3(\.\.\.)?$)")
OF_PYTEST = re.compile(r"\s*(Use -v+ to|\.\.\.Full output truncated)")
# What pytest adds with -v, and wherever it thinks that it runs in CI: all that was
# compared, once more. A learner is told the same things everywhere.
FULL_DIFF = re.compile(r"\s*Full diff:")


def told_text(error: BaseException, n_lines: int) -> list[str]:
    """What an error says, in so many lines; its type where that is no assertion."""
    said = str(error).splitlines()
    lines = [
        clean(line)
        for line in itertools.takewhile(lambda line: not FULL_DIFF.match(line), said)
        if line.strip() and not OF_FUNCTIONS.match(line) and not OF_PYTEST.match(line)
    ]
    if not isinstance(error, AssertionError):
        first = lines[0] if lines else ""
        lines = [f"{type(error).__name__}: {first}", *lines[1:]]
    if not lines:
        lines = ["the assertion does not hold"]
    more = ["..."] if len(lines) > n_lines else []
    return [cut(line) for line in lines[:n_lines]] + more


def clean(text: str) -> str:
    """Without addresses and where a function comes from."""
    text = re.sub(r"<built-in method (\w+)[^>]*>", r"\1", text)
    text = re.sub(r"<generator object .*? at 0x[0-9a-f]+>", "a generator", text)
    return re.sub(
        r"<(?:[\w.]+\.)?(\w+) object at 0x[0-9a-f]+>", lambda m: a(m[1]), text
    )


def cut(text: str) -> str:
    return text if len(text) <= WIDTH else text[: WIDTH - 3] + "..."

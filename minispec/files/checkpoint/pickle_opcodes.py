"""What a pickle would do, read from its opcodes before anything of it is loaded.

A pickle is a program for a machine with a stack and a memo: `BINUNICODE` pushes a text,
`TUPLE` joins what lies above the last `MARK`, `GLOBAL` names a function and `REDUCE`
calls it. `check` runs the program on what is known of each object in place of the
object, so nothing is built or called, and time is in proportion to the file.

What a state dict needs, and a training state around it, passes. It ends at:

    another function       code, or bytearray(2**31)
    a large tuple          ten times one tuple, that ten times, and so on: to hash it
                           takes for ever, and a deep one overflows the stack in C
    a list or dict again   calls with the same long list, a thousand times
    another key            numbers chosen to have one hash make a dict quadratic
    very many opcodes      torch's reader takes a microsecond for each
"""

from __future__ import annotations

import pickletools
import re
from typing import IO, Any, NamedTuple

FUNCTIONS = re.compile(  # module and name, as the opcode has them
    r"collections OrderedDict|torch\._utils _rebuild_(tensor_v2|parameter)"
    r"|torch (\w+Storage|Size|device|b?float\d+|u?int\d+|bool)"
)
OPCODES = set(  # what torch.save writes
    "PROTO GLOBAL REDUCE BUILD BINPERSID MARK STOP TUPLE TUPLE1 TUPLE2 TUPLE3 "
    "EMPTY_TUPLE EMPTY_LIST EMPTY_DICT APPEND APPENDS SETITEM SETITEMS NONE NEWTRUE "
    "NEWFALSE BININT BININT1 BININT2 LONG1 BINFLOAT BINUNICODE SHORT_BINSTRING "
    "BINPUT LONG_BINPUT BINGET LONG_BINGET".split()
)
GROWING = ("EMPTY_LIST", "EMPTY_DICT", "APPEND", "APPENDS", "SETITEM", "SETITEMS")
KEYS = ("BINUNICODE", "SHORT_BINSTRING", "BININT", "BININT1", "BININT2")
LARGEST = 1_000  # objects in a tuple; Python's random state, often saved, has 628
LONGEST = 300_000  # opcodes of a pickle; a training state of GPT-2 XL has 73,000


class Unsafe(ValueError):
    """A pickle asks for this, and no state dict needs it."""


class Known(NamedTuple):
    """What is known of an object on the stack."""

    function: str = ""  # its name
    size: int = 0  # of a tuple: the objects in it and in the tuples in it
    once: bool = False  # it can be of any length, or holds what can
    key: bool = False  # a text or a small number


def check(file: IO[bytes]) -> None:
    """Read one pickle to its end. Raises Unsafe, or any error where it is damaged."""
    stacks: list[list[Known]] = [[]]  # each MARK begins another
    memo: dict[int, Known] = {}
    argument: Any
    for step, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        name = opcode.name
        if name not in OPCODES or step >= LONGEST:
            raise Unsafe(f"more than {LONGEST} opcodes" if name in OPCODES else name)
        if name == "GLOBAL" and not FUNCTIONS.fullmatch(argument):
            raise Unsafe(argument.replace(" ", "."))
        if name == "MARK":
            stacks.append([])
            continue
        taken = _take(stacks, opcode.stack_before)
        if name.endswith("BINPUT"):
            memo[argument] = stacks[-1][-1]
        if opcode.stack_after:
            kept = memo[argument] if name.endswith("BINGET") else None
            found = kept or Known(key=name in KEYS)
            stacks[-1].append(_made(name, argument, taken, found))


def _take(
    stacks: list[list[Known]], before: list[pickletools.StackObject]
) -> list[Known]:
    """What an opcode takes off the stack: all above the mark where it takes a mark."""
    above: list[Known] = []
    if pickletools.markobject in before:
        above, before = stacks.pop(), before[: before.index(pickletools.markobject)]
    stack = stacks[-1]
    if len(stack) < len(before):
        raise Unsafe("more than there is on its stack")
    below = stack[len(stack) - len(before) :]
    del stack[len(stack) - len(before) :]
    return below + above


def _made(name: str, argument: Any, taken: list[Known], found: Known) -> Known:
    """What an opcode pushes."""
    if name == "GLOBAL":
        return Known(function=argument)
    if name.startswith("SETITEM") and not all(one.key for one in taken[1::2]):
        raise Unsafe("a key that is no text and no small number")
    if name in GROWING:
        return Known(once=True)
    if "TUPLE" in name:
        size = len(taken) + sum(one.size for one in taken)
        if size > LARGEST:
            raise Unsafe(f"a tuple of more than {LARGEST} objects")
        return Known(size=size, once=any(one.once for one in taken))
    if name == "REDUCE":
        if not taken[0].function:
            raise Unsafe("a call of what is no function")
        if "OrderedDict" in taken[0].function and taken[1] != Known():
            raise Unsafe("an OrderedDict that is made from another object")
        return Known(once="_rebuild_" not in taken[0].function)
    if name == "BUILD":
        return taken[0]
    if found.once:
        raise Unsafe("a list or dict in two places")
    return found

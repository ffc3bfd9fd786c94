"""What is raised for files that cannot be used; every message says what to do.

Only regular files are read: a pipe or a device may have no end. And every name from
outside is `shown` on its way to a terminal.
"""

from __future__ import annotations

import errno
import math
import os
from pathlib import Path


class FileError(ValueError):
    """Something is wrong with a file; the message is short and safe for a terminal."""

    def __init__(self, message: str) -> None:
        super().__init__(shown(message, 600))


class CheckpointError(FileError):
    """A checkpoint is not what it should be."""


class TokenizerError(FileError):
    """A vocabulary cannot be read, or a text or an id does not fit it."""


def shown(value: object, limit: int = 80) -> str:
    """A name or a value of a file, shortened in the middle, without control codes."""
    text = str(value)
    if len(text) > limit:
        text = f"{text[: limit // 2]}...{text[-limit // 2 :]}"
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def contents(folder: Path) -> str:
    """What a folder holds, in a few words for a message."""
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    rest = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return ", ".join(shown(name, 40) for name in names[:5]) + rest or "nothing"


def regular(path: Path | str, most: float = math.inf) -> Path:
    """The path, if a regular file of at most so many bytes is there. Raises OSError."""
    try:
        size = os.stat(path).st_size
    except ValueError as error:  # a NUL, or half a character (a surrogate)
        why = "no file can have such a name"
        raise FileNotFoundError(errno.ENOENT, why, shown(path)) from error
    if not os.path.isfile(path):
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    if size > most:
        why = f"it has {size} bytes, at most {most:.0f} are read"
        raise OSError(errno.EFBIG, why, str(path))
    return Path(path)

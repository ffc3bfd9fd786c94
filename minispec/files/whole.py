"""The one way to write a file: it appears whole, or what was there before stays.

    with replacing(path) as part:
        part.write_text(...)

The work goes into a file beside it, which takes its name at the end. A reader never
sees half a file, and a full disk or Ctrl-C costs nothing that was there before.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minispec.files.errors import shown


@contextmanager
def replacing(path: Path | str) -> Iterator[Path]:
    """A temporary path: it becomes `path` on success and vanishes on failure.

    Links are followed. A pipe or a device is written to directly: it has nothing to
    keep. Any OSError on the way is raised as "cannot write `path`".
    """
    with _named(path):
        target, mode = _target(path)
        if mode is not None and not stat.S_ISREG(mode):
            yield target
            return
        part = target.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.part")
        try:
            part.touch()
            yield part
            if mode is not None:
                part.chmod(stat.S_IMODE(mode))
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)


def check_writable(path: Path | str) -> None:
    """Raise OSError where `replacing(path)` could not write, before the work."""
    with _named(path):
        target, mode = _target(path)
        if mode is None or stat.S_ISREG(mode):
            probe = target.with_name(f".{os.getpid()}-{os.urandom(4).hex()}.part")
            probe.touch()
            probe.unlink()


def _target(path: Path | str) -> tuple[Path, int | None]:
    """Where the path leads, and the mode there; None where there is nothing yet."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return Path(os.path.realpath(path)), None
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, "it is a folder")
    if not os.access(path, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    return Path(os.path.realpath(path) if stat.S_ISREG(mode) else path), mode


@contextmanager
def _named(path: Path | str) -> Iterator[None]:
    """An OSError inside says which file could not be written, and why."""
    try:
        yield
    except BrokenPipeError:  # not the fault of the path: the reader has gone
        raise
    except OSError as error:
        why = f"cannot write {shown(path, 200)}: {error.strerror or error}"
        raise OSError(error.errno, why) from error

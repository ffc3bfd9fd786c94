"""How a script ends when something is wrong: one line, and a status that says so."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # installed or not


def ended(main: Callable[[], int | None]) -> int:
    """What `main` returns, whatever becomes of the streams that it writes to.

    A reader that has gone is no error; a full disk is one line and 2.
    """
    # Not above: a process of mutants.py must not know the package before its mutant.
    from minispec.cli import complain, describe, drop_unwritten, prepare_streams

    prepare_streams()
    try:
        try:
            return main() or 0
        finally:
            sys.stdout.flush()  # here, and not when the interpreter ends
    except BrokenPipeError:
        return 0
    except OSError as error:
        complain(f"{Path(sys.argv[0]).name}: {describe(error)}")
        return 2
    finally:
        drop_unwritten()


def status_of(name: str, run: Callable[[], int | None]) -> int:
    """What `run` returns, 0 for None; 2 for bad input, 130 after Ctrl-C.

    Bad input is a ValueError, OSError or ImportError; its text is shown on one line.
    """
    try:
        return run() or 0
    except BrokenPipeError:
        raise  # for `ended`
    except (ValueError, OSError, ImportError) as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"{name}: stopped", file=sys.stderr)
        return 130


def positive(text: str) -> int:
    """An argument that counts something."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text!r}")
    return int(text)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A path to write to; only what was written to the end becomes `path`."""
    part = path.with_name(f"{path.stem}.part{path.suffix}")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)

"""The prompt: from the command line, a file, or standard input."""

from __future__ import annotations

import argparse
import sys

from minispec.commands.ranks import several

PROMPT = "KING HENRY V:\nWhat news, good cousin, from the walls of France?\n"
LONGEST = 1_000_000  # bytes; no model here reads so far, and a pipe may have no end


def add_prompt_options(group: "argparse._ArgumentGroup") -> None:
    """The two ways to say where the prompt is, of which one may be used."""
    given = group.add_mutually_exclusive_group()
    given.add_argument(
        "--prompt",
        metavar="TEXT",
        help="the text to continue; - is standard input (default: two lines of a play)",
    )
    given.add_argument(
        "--prompt-file",
        metavar="FILE",
        help="a UTF-8 file with the text to continue; - is standard input",
    )


def read_prompt(args: argparse.Namespace) -> str:
    """The prompt from the place that the options name; never empty.

    Raises ValueError with a sentence for the user.
    """
    if args.prompt_file is not None:
        name, text = text_of_file(args.prompt_file)
    elif args.prompt == "-":
        name, text = text_of_file("-")
    else:
        name, text = "the prompt", PROMPT if args.prompt is None else args.prompt
    check_text(name, text, "set the terminal to UTF-8, or use --prompt-file")
    return text


def text_of_file(source: str, kind: str = "prompt") -> tuple[str, str]:
    """What to call a source in messages, and its text without a byte order mark."""
    name = "standard input" if source == "-" else f"the {kind} file {source!r:.200}"
    try:
        if source == "-":
            data = read_standard_input()
        else:
            with open(source, "rb") as file:  # may be a pipe: `<(command)` is one
                data = file.read(LONGEST + 1)
        if len(data) > LONGEST:
            raise ValueError(f"{name} has more than {LONGEST} bytes: shorten it")
        return name, data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 (byte {error.start + 1}): convert it to UTF-8 first"
        ) from error
    except OSError as error:
        raise ValueError(
            f"cannot read {name} ({error.strerror}): give the path of a text file"
        ) from error


def read_standard_input() -> bytes:
    """Up to its end, if it has one; at a keyboard, say how to end it."""
    if sys.stdin is None:  # closed by the shell: `minispec <&-`
        raise OSError(None, "it is closed")
    if several():
        raise OSError(None, "several processes cannot share it")
    if sys.stdin.isatty():
        print("type the prompt, then Ctrl-D on a line of its own", file=sys.stderr)
    return sys.stdin.buffer.read(LONGEST + 1)


def check_text(
    name: str, text: str, instead: str = "set the terminal to UTF-8"
) -> None:
    """Raise ValueError for an empty text, and for bytes that are not UTF-8.

    Such bytes of the command line arrive as lone surrogates; `instead` says what to do.
    """
    if not text:
        raise ValueError(f"{name} is empty: give at least one character")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"{name} is not UTF-8 (character {error.start + 1}): {instead}"
        ) from error

#!/usr/bin/env python3
"""The pages of Shakespeare's plays -> the training text and three held-out plays.

Writes OUT/train.txt (34 plays) and OUT/held_out/{macbeth,merchant,tempest}.txt, the
text that the shipped pair is trained on; each file's SHA-256 is checked first. The
pages are in the public domain, about 7 MB:

  git clone https://github.com/TheMITTech/shakespeare
  git -C shakespeare checkout 6b82db852c7322dd33e95db347f0ddfc812c6409
  python scripts/prepare_corpus.py shakespeare

PLAYS may hold NAME/full.html, as that repository does, or NAME.html. A page is HTML
with one anchor for each speaker and one for each line; we keep these two and nothing
else (no headings, no stage directions), in the form of the well-known tinyshakespeare
file: "SPEAKER:", the lines of the speech, and a blank line.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import sys
from collections.abc import Iterator
from html import unescape
from pathlib import Path

from minispec.commands.ending import Parser, ended
from minispec.files.errors import shown
from minispec.files.whole import check_writable, replacing

REPOSITORY = "https://github.com/TheMITTech/shakespeare"
COMMIT = "6b82db852c7322dd33e95db347f0ddfc812c6409"

TRAINING = (
    "1henryiv 1henryvi 2henryiv 2henryvi 3henryvi allswell asyoulikeit cleopatra "
    "comedy_errors coriolanus cymbeline hamlet henryv henryviii john julius_caesar "
    "lear lll measure merry_wives midsummer much_ado othello pericles richardii "
    "richardiii romeo_juliet taming_shrew timon titus troilus_cressida twelfth_night "
    "two_gentlemen winters_tale"
).split()
HELD_OUT = ["macbeth", "merchant", "tempest"]

DIGESTS = """
2a35669a2eedffb14d14f8181bc2c05218f1fcc91d6be1c2216eab1acd4fa95c
b0127e23d9d16beca9dd0df6638d0e11b32719e498272db0ae6e27049c239f68
15a5170e9d56ffc90e73c80ff0c24dfa27d3c85d5cd6877716231980a9860fc5
5cc9335a6e2e24cb46097bf1cefc547f9afdfa474428d29f98611076051df29b
""".split()
NAMES = ["train.txt", *(f"held_out/{name}.txt" for name in HELD_OUT)]
SHA256 = dict(zip(NAMES, DIGESTS))

OPENING = re.compile(r"<a name=(?:(speech\d+)><b>|[\d.]+>)", re.IGNORECASE)
CLOSING = re.compile(r"(</b>)?</a>", re.IGNORECASE)


def plain(markup: str) -> str:
    """The text of a piece of HTML: no tags, one space for each run of whitespace."""
    return " ".join(unescape(re.sub(r"<[^<>]*>", "", markup)).split())


def anchors(page: str) -> Iterator[tuple[bool, str]]:
    """For each anchor whether it names a speaker, and its text.

    The page is read once from left to right, whatever is left open in it.
    """
    end = 0
    while opening := OPENING.search(page, end):
        end = opening.end()
        closing = CLOSING.search(page, end)
        while opening[1] and closing and not closing[1]:
            closing = CLOSING.search(page, closing.end())
        if not closing:
            return
        yield bool(opening[1]), page[end : closing.start()]
        end = closing.end()


def speeches(page: str) -> list[tuple[str, list[str]]]:
    """Every (speaker, lines) of a page, in order.

    The pages are not perfect, and what they get wrong stays simple here. Lines before
    the first speaker (a prologue given to nobody) and speakers without a line (where
    two speak together, the second has the lines) are left out. In 25 places a scene's
    heading runs over into lines, which then end the speech before it.
    """
    found: list[tuple[str, list[str]]] = []
    for is_speaker, markup in anchors(page):
        if is_speaker:
            found.append((unescape(markup).strip(), []))
        elif found:
            found[-1][1].append(plain(markup))
    return [(speaker, lines) for speaker, lines in found if lines]


def play_text(page: str) -> str:
    """A page as plain text; every speech, also the last, ends with a blank line."""
    return "".join(
        "\n".join([f"{speaker}:", *lines]) + "\n\n" for speaker, lines in speeches(page)
    )


def read_page(plays: Path, name: str) -> str:
    """The HTML of one play, from either layout of the folder."""
    for path in (plays / f"{name}.html", plays / name / "full.html"):
        if path.is_file():
            return path.read_text(encoding="iso-8859-1")
    raise ValueError(
        f"{plays} is not a folder with {name}.html or {name}/full.html: clone "
        f"{REPOSITORY} and give its folder (--help shows how)"
    )


def corpus(plays: Path) -> dict[str, str]:
    """Relative file name -> text, for all files that this script writes."""
    texts = {name: play_text(read_page(plays, name)) for name in TRAINING + HELD_OUT}
    train = "".join(texts[name] for name in TRAINING)
    return {"train.txt": train} | {f"held_out/{n}.txt": texts[n] for n in HELD_OUT}


def check(files: dict[str, str], expected: dict[str, str]) -> None:
    """Raise ValueError unless every file has its expected SHA-256."""
    for name, text in files.items():
        found = hashlib.sha256(text.encode()).hexdigest()
        if found != expected[name]:
            raise ValueError(
                f"{name} would have SHA-256 {found}, expected {expected[name]}: "
                "the pages differ from those the pair was trained on; check out "
                f"commit {COMMIT[:12]} of {REPOSITORY} (nothing was written)"
            )


def main(argv: list[str] | None = None) -> int:
    """Read, check, and only then write; 0 when the corpus was written."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("plays", type=Path, help="folder that holds the plays' pages")
    parser.add_argument("--out", type=Path, default=Path("corpus"), metavar="OUT")
    args = parser.parse_args(argv)
    files = corpus(args.plays)
    check(files, SHA256)
    (args.out / "held_out").mkdir(parents=True, exist_ok=True)
    for name in files:
        check_writable(args.out / name)
    for name, text in files.items():
        with replacing(args.out / name) as part:
            part.write_bytes(text.encode())
        print(f"{shown(args.out / name, 1000)}: {len(text):,} characters")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

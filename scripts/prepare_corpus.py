#!/usr/bin/env python3
"""The pages of Shakespeare's plays -> the training text and three held-out plays.

A page is HTML with one anchor for each speaker and one for each line; we keep these
two and nothing else (no headings, no stage directions), in the form of the well-known
tinyshakespeare file:

    SPEAKER:
    a line of the speech
    another line

and a blank line after every speech. What comes out is checked against the SHA-256 of
the files from which the shipped pair was trained.
"""

import argparse
import hashlib
import re
import sys
from html import unescape
from pathlib import Path

from ending import ended, status_of

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

SHA256 = {
    "train.txt": (
        "2a35669a2eedffb14d14f8181bc2c05218f1fcc91d6be1c2216eab1acd4fa95c"
    ),
    "held_out/macbeth.txt": (
        "b0127e23d9d16beca9dd0df6638d0e11b32719e498272db0ae6e27049c239f68"
    ),
    "held_out/merchant.txt": (
        "15a5170e9d56ffc90e73c80ff0c24dfa27d3c85d5cd6877716231980a9860fc5"
    ),
    "held_out/tempest.txt": (
        "5cc9335a6e2e24cb46097bf1cefc547f9afdfa474428d29f98611076051df29b"
    ),
}

SPEAKER_OR_LINE = re.compile(
    r"<a name=speech\d+><b>(?P<speaker>.*?)</b></a>"
    r"|<a name=[\d.]+>(?P<line>.*?)</a>",
    re.IGNORECASE | re.DOTALL,
)

DESCRIPTION = """\
Turn the HTML pages of 37 plays into the text that the shipped pair is trained on:
OUT/train.txt (34 plays) and OUT/held_out/{macbeth,merchant,tempest}.txt.
"""
EPILOG = f"""\
where the pages are (public domain, about 7 MB):
  git clone {REPOSITORY}
  git -C shakespeare checkout {COMMIT}
  python scripts/prepare_corpus.py shakespeare

PLAYS may hold NAME/full.html, as that repository does, or NAME.html.
"""


class CorpusError(ValueError):
    """The pages are missing, or are not the ones that the pair was trained on."""


def plain(markup: str) -> str:
    """The text of a piece of HTML: no tags, one space for each run of whitespace."""
    return " ".join(unescape(re.sub(r"<[^>]*>", "", markup)).split())


def speeches(page: str) -> list[tuple[str, list[str]]]:
    """Every (speaker, lines) of a page, in order.

    The pages are not perfect, and what they get wrong stays simple here. Lines before
    the first speaker (a prologue given to nobody) and speakers without a line (where
    two speak together, the second has the lines) are left out. In 25 places a scene's
    heading runs over into lines, which then end the speech before it.
    """
    found: list[tuple[str, list[str]]] = []
    for match in SPEAKER_OR_LINE.finditer(page):
        if match["speaker"] is not None:
            found.append((unescape(match["speaker"]).strip(), []))
        elif found:
            found[-1][1].append(plain(match["line"]))
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
    raise CorpusError(
        f"{plays} has neither {name}.html nor {name}/full.html: expected the pages "
        f"of {REPOSITORY}; clone it and give its folder (--help shows how)"
    )


def corpus(plays: Path) -> dict[str, str]:
    """Relative file name -> text, for all files that this script writes."""
    if not plays.is_dir():
        raise CorpusError(
            f"{plays} is not a folder: expected the one that holds the plays' pages; "
            f"clone {REPOSITORY} and give its folder (--help shows how)"
        )
    texts = {name: play_text(read_page(plays, name)) for name in TRAINING + HELD_OUT}
    files = {"train.txt": "".join(texts[name] for name in TRAINING)}
    for name in HELD_OUT:
        files[f"held_out/{name}.txt"] = texts[name]
    return files


def check(files: dict[str, str], expected: dict[str, str]) -> None:
    """Raise CorpusError unless every file has its expected SHA-256."""
    for name, text in files.items():
        found = hashlib.sha256(text.encode()).hexdigest()
        if found != expected[name]:
            raise CorpusError(
                f"{name} would have SHA-256 {found}, expected {expected[name]}: "
                "the pages differ from those the pair was trained on; check out "
                f"commit {COMMIT[:12]} of {REPOSITORY} (nothing was written)"
            )


def write(files: dict[str, str], out: Path) -> None:
    """Write the files below `out`, as UTF-8 with plain newlines on every system."""
    for name, text in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())


def parse_args(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("plays", type=Path, help="folder that holds the plays' pages")
    parser.add_argument(
        "--out", type=Path, default=Path("corpus"), help="default: ./corpus"
    )
    return parser.parse_args(argv)


def main(argv: list[str] | None = None) -> int:
    """Run the command line; 0 when the corpus was written, 2 when it could not be."""
    args = parse_args(argv)
    return status_of("prepare_corpus", lambda: prepare(args))


def prepare(args: argparse.Namespace) -> None:
    """Read, check, and only then write."""
    files = corpus(args.plays)
    check(files, SHA256)
    write(files, args.out)
    for name, text in files.items():
        print(f"{args.out / name}: {len(text):,} characters")


if __name__ == "__main__":
    sys.exit(ended(main))

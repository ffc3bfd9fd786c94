#!/usr/bin/env python3
"""Fetch GPT-2 checkpoints from the Hugging Face hub into weights/.

Every file comes from one revision and must have the SHA-256 written in this script; it
appears in weights/NAME only after it was checked. Stop with Ctrl-C whenever you like:
complete files are kept, and the next run goes on with the others. The library shows the
progress and resumes a download that was cut. pip install -e ".[download]" installs it.

  python scripts/download_weights.py --list
  python scripts/download_weights.py distilgpt2 gpt2
  minispec generate --target weights/gpt2 --draft weights/distilgpt2
  python scripts/download_weights.py --dest /big/disk gpt2-xl
  HF_ENDPOINT=https://a.mirror python scripts/download_weights.py gpt2
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from minispec.commands.ending import Parser, ended
from minispec.files.errors import shown

DEST = Path(__file__).resolve().parents[1] / "weights"


class Model(NamedTuple):
    """A repository at a revision. `files`: the SHA-256 of each, or how it begins."""

    repo: str
    revision: str
    megabytes: int
    files: dict[str, str]


VOCABULARY = {
    "vocab.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "merges.txt": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
# Of the configs only the first half of each hash is published.
PINNED = """
distilbert/distilgpt2 2290a62682d06624634c1f46a6ad5be0f47f38aa 353
  4ec5947c1d59fee6 e1ff18884359fe8beb795a5f414feb85a6ce3d929ad019c0d958c039d2b94a1b
openai-community/gpt2 607a30d783dfa663caf39e06633721c8d4cfcd7e 548
  0daed7749b4f02b8 248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707
openai-community/gpt2-medium 6dcaa7a952f72f9298047fd5137cd6e4f05f41da 1520
  ef1a44d889ad1a0a fc5a354a19255ad494f3d71549390baca1ccf61d1d822b9408971705c687c9cd
openai-community/gpt2-large 32b71b12589c2f8d625668d2335a01cac3249519 3247
  7fccdcfd66220553 5f47f3e12f91cd33b662ce7e433b6150ad5512b5884a2cee961b50e9c3bbebce
openai-community/gpt2-xl 15ea56dee5df4983c59b2538573817e1667135e2 6432
  be48115d52314bc2 0f8b28eb05a8075f48b61b6f35332978c74fc7763fa9fb4051a1c30511736a6a
""".split()


def pinned(repo: str, revision: str, size: str, config: str, weights: str) -> Model:
    """A row of the table; the small files that load the model come last."""
    files = {"model.safetensors": weights, **VOCABULARY, "config.json": config}
    return Model(repo, revision, int(size), files)


ALL_PINNED = (pinned(*PINNED[i : i + 5]) for i in range(0, len(PINNED), 5))
MODELS = {model.repo.split("/")[1]: model for model in ALL_PINNED}


def fetch(model: Model, name: str, folder: Path) -> None:
    """One file by the library; ValueError for anything that goes wrong in it."""
    from huggingface_hub import hf_hub_download

    try:
        hf_hub_download(
            model.repo, name, revision=model.revision, local_dir=folder
        )
    except Exception as error:  # it raises its own, its client's and the system's
        said = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(
            f"cannot fetch {model.repo}/{name}: {said[:300]}; run again to go on"
        ) from error


def download(model: Model, folder: Path) -> None:
    """Fetch what is not yet in `folder`, check it, and only then move it there.

    `config.json` comes last, since no folder is loadable without it.
    """
    files, partial = model.files, folder.with_name(f".{folder.name}.partial")
    wanted = [name for name in files if problem(folder / name, files[name])]
    for name in wanted:
        fetch(model, name, partial)
        if wrong := problem(partial / name, files[name]):
            (partial / name).unlink()
            raise ValueError(f"{model.repo}/{name} {wrong}: not kept; run again")
    for name in wanted:
        folder.mkdir(parents=True, exist_ok=True)
        os.replace(partial / name, folder / name)
    shutil.rmtree(partial, ignore_errors=True)


def problem(path: Path, sha256: str) -> str:
    """What is wrong with a file; empty if it is there and has the hash."""
    if not path.is_file():
        return "is missing"
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    if digest.hexdigest().startswith(sha256):
        return ""
    return f"has SHA-256 {digest.hexdigest()[:16]}..., expected {sha256[:16]}..."


def main(arguments: list[str] | None = None) -> int:
    """0 if all is there."""
    parser = Parser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--list", action="store_true", help="show the pinned models")
    parser.add_argument("--dest", type=Path, default=DEST, help="instead of weights/")
    options = parser.parse_args(arguments)
    if not options.models and not options.list:
        parser.error(f"give a model: one or more of {', '.join(MODELS)}")
    if options.list:
        for name, model in MODELS.items():
            where = f"{model.repo} @ {model.revision[:12]}"
            print(f"{name:12} {model.megabytes:6,} MB  {where}")
    if options.models and importlib.util.find_spec("huggingface_hub") is None:
        raise ValueError("huggingface_hub is missing: pip install -e '.[download]'")
    for name in options.models:
        if name not in MODELS:
            raise ValueError(
                f"unknown model {name[:60]!r}: give one of {', '.join(MODELS)}; for "
                "another, `hf download OWNER/NAME --local-dir weights/NAME`"
            )
        download(MODELS[name], options.dest / name)
        print(f"{shown(options.dest / name, 1000)} is ready")
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

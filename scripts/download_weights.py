"""Fetch GPT-2 checkpoints into weights/: `python scripts/download_weights.py gpt2`.

    --list            the models known by name, pinned to a revision and to hashes
    OWNER/NAME        any other GPT-2 of the hub, at whatever `main` is now
    --base-url URL    a mirror with the hub's paths (OWNER/NAME/resolve/REVISION/FILE)

HF_TOKEN (for closed models) goes to huggingface.co alone; HTTPS_PROXY, HTTP_PROXY and
NO_PROXY are honoured. Stop it with Ctrl-C whenever you like: run again, it goes on.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO
from urllib.parse import quote

from ending import ended
from fetching import Silent, difference, fetch
from hub import DownloadError, Hub, Missing
from known_models import MODELS, VOCABULARY, Model

from minispec.cli import one_line

try:
    import fcntl
except ImportError:  # Windows: two downloads at once are then the user's own affair
    fcntl = None  # type: ignore[assignment]

HUB = "https://huggingface.co"
BASE_URL = re.compile(r"https?://[\w.:\[\]-]+(/[\w.~%/-]*)?", re.A | re.I)
DEST = Path(__file__).resolve().parents[1] / "weights"


class Progress(Silent):
    """One line that keeps changing on a terminal, a line now and then elsewhere."""

    def __init__(self, name: str, stream: TextIO) -> None:
        self.name, self.stream, self.live = name, stream, stream.isatty()
        self.started = self.shown = time.monotonic()
        self.first, self.done, self.total = 0, 0, None  # type: int, int, int | None

    def begin(self, done: int, total: int | None) -> None:
        self.first, self.done, self.total = done, done, total
        self.started = time.monotonic()

    def advance(self, n_bytes: int) -> None:
        self.done += n_bytes
        now = time.monotonic()
        if now - self.shown > (0.2 if self.live else 10):
            self.shown = now
            self._show(self.line(now), end="\r" if self.live else "\n")

    def note(self, text: str) -> None:
        self._show(one_line(f"{self.name}: {text}"), end="\n")

    def line(self, now: float) -> str:
        """How much of how much, how fast, and how long it will take."""
        rate = (self.done - self.first) / max(now - self.started, 1e-9)
        text = f"{self.name}  {self.done / 1e6:,.1f}"
        if self.total is None:
            return f"{text} MB  {rate / 1e6:,.1f} MB/s"
        left = (self.total - self.done) / max(rate, 1.0)
        return (
            f"{text} of {self.total / 1e6:,.1f} MB  {rate / 1e6:,.1f} MB/s  "
            f"{left // 60:.0f}:{left % 60:02.0f} left"
        )

    def _show(self, text: str, end: str) -> None:
        clear = "\r\x1b[K" if self.live else ""
        print(f"{clear}{text}", end=end, file=self.stream, flush=True)


def download(model: Model, folder: Path, base_url: str, hub: Hub) -> None:
    """All files of one model: what it needs to run, the weights last."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with alone_in(folder):
            get = Getter(model, folder, base_url, hub)
            get("config.json")
            get_vocabulary(get)
            get_weights(get)
    finally:
        with suppress(OSError):  # for it is not empty; an empty one passes for a model
            folder.rmdir()


class Getter:
    """Fetches files of one model by their names."""

    def __init__(self, model: Model, folder: Path, base_url: str, hub: Hub) -> None:
        self.model, self.folder, self.hub = model, folder, hub
        revision = quote(model.revision, safe="")
        self.url = f"{base_url.rstrip('/')}/{model.repo}/resolve/{revision}"

    def __call__(self, name: str) -> Path:
        """The file, fetched unless a good one is there."""
        path, pin = self.folder / name, self.model.pin(name)
        progress = Progress(f"{self.folder.name}/{name}", sys.stderr)
        if path.is_file():
            problem = difference(path, pin, progress)
            if not problem:
                hint = "" if pin.sha256 else ", unchecked: delete it to fetch it anew"
                progress.note(f"is there already{hint}")
                return path
            progress.note(f"{problem}: fetching it again")
        fetch(f"{self.url}/{name}", path, self.hub, pin, progress)
        progress.note(size_text(path.stat().st_size))
        return path


def size_text(n_bytes: int) -> str:
    return f"{n_bytes / 1e6:,.1f} MB" if n_bytes >= 1e5 else f"{n_bytes:,} bytes"


def get_vocabulary(get: Getter) -> None:
    """Both files, where the repository has them."""
    for name in VOCABULARY:
        try:
            get(name)
        except Missing:
            print(f"{get.model.repo} has no {name}: its tokenizer must come from "
                  "elsewhere", file=sys.stderr)  # fmt: skip


def get_weights(get: Getter) -> None:
    """In the form the repository has them: one file, or shards, safetensors first."""
    # Only now: torch takes seconds, which --list and Ctrl-C should not wait for.
    from minispec.checkpoint.weight_files import INDEX, READERS, shard_map

    for kind in READERS:
        try:
            get(kind)
            return
        except Missing:
            pass
        try:
            index = get(f"{kind}{INDEX}")
        except Missing:
            continue
        for shard in sorted(set(shard_map(index).values())):
            get(shard)
        return
    raise Missing(f"{get.url} has no weights: none of {', '.join(READERS)}, no shards")


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; a second process waits, then finds the files there."""
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another process is filling {folder}: waiting", file=sys.stderr)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)  # which unlocks


def resolve(name: str, revision: str | None) -> Model:
    """The model that a name on the command line means."""
    by_repo = {model.repo: model for model in MODELS.values()}
    known = MODELS.get(name) or by_repo.get(name)
    if known and revision in (None, known.revision):
        return known
    if not known and not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*", name, re.ASCII):
        raise DownloadError(
            f"unknown model {name!r}: give one of {', '.join(MODELS)}, or OWNER/NAME"
        )
    model = Model(known.repo if known else name, revision or "main")
    print(
        f"{name} at {model.revision} is not pinned: no hashes are known beforehand",
        file=sys.stderr,
    )
    return model


def listing() -> str:
    """The models known by name, and how much there is to fetch.

    Where the size of one form of the weights is not published, that of the other is
    shown: they hold the same tensors.
    """
    rows = []
    for name, model in MODELS.items():
        kinds = map(model.pin, ("model.safetensors", "pytorch_model.bin"))
        size = next(pin.size for pin in kinds if pin.size)
        repo = f"{model.repo} @ {model.revision[:12]}"
        rows.append(f"{name:12} {size / 1e6:7,.0f} MB  {repo}")
    return "\n".join(rows)


def token_of_environment() -> str | None:
    """HF_TOKEN, if it can be a token: errors further down would print a bad one."""
    token = os.environ.get("HF_TOKEN", "").strip()
    if not re.fullmatch(r"[!-~]*", token):
        raise DownloadError("HF_TOKEN has characters that no token has: set it anew")
    return token or None


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--list", action="store_true", help="show the models and stop")
    parser.add_argument("--dest", type=Path, default=DEST, help="instead of weights/")
    parser.add_argument("--base-url", default=HUB, help=f"instead of {HUB}")
    parser.add_argument("--revision", help="a branch, tag or commit")
    options = parser.parse_args(arguments)
    if not options.models and not options.list:
        parser.error(f"give a model: one of {', '.join(MODELS)}, or OWNER/NAME")
    if not BASE_URL.fullmatch(options.base_url):
        parser.error(
            f"--base-url must be https://HOST or https://HOST/PATH, got "
            f"{options.base_url!r}"
        )
    return options


def describe(error: Exception) -> str:
    """The error in one line; a file that cannot be written is named."""
    if isinstance(error, OSError) and error.filename is not None:
        return one_line(f"cannot use {error.filename}: {error.strerror}; give --dest")
    return one_line(str(error))


def main(arguments: list[str] | None = None) -> int:
    """0 if all is there; 1 and one line if not; 130 after Ctrl-C."""
    options = parse(arguments)
    if options.list:
        print(listing())
        return 0
    try:
        hub = Hub(HUB, token_of_environment())
        for name in options.models:
            model = resolve(name, options.revision)
            download(model, options.dest / name, options.base_url, hub)
            print(f"{options.dest / name} is ready")
    except BrokenPipeError:
        raise  # for `ended`
    except (DownloadError, ValueError, OSError) as error:  # CheckpointError among them
        print(f"error: {describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; run again to go on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(ended(main))

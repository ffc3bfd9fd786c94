"""Fetch one file over HTTP so that what arrives is whole, or not there at all.

    URL --> NAME.part --(length, SHA-256)--> NAME       the last step is one rename

A cut connection is taken up where it broke, by a byte range. That is only safe if the
file is still the same one: either its SHA-256 is known and is checked at the end, or
the server confirms the ETag noted in `NAME.part.etag` (If-Range, RFC 9110 13.1.5);
otherwise the file is begun anew.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import os
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from pathlib import Path
from urllib.parse import urlsplit

from hub import Broken, DownloadError, Hub, Pin, error_of, place_of

ATTEMPTS = 5  # in a row without a new byte
LONGEST_WAIT = 300.0  # seconds; whoever asks for more is told to come back later
TIMEOUT = 30.0  # seconds of silence
CHUNK = 1 << 20  # bytes
STRONG_ETAG = re.compile('"[!-~]*"')  # weak ones, W/"...", do not promise equal bytes


class Silent:
    """A listener to the progress that shows nothing; `Progress` shows it."""

    def begin(self, done: int, total: int | None) -> None: ...

    def advance(self, n_bytes: int) -> None: ...

    def note(self, text: str) -> None: ...


def fetch(
    url: str,
    path: Path,
    hub: Hub,
    pin: Pin = Pin(),
    listener: Silent = Silent(),
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Make `path` the file at `url`, resuming what an earlier run left.

    Raises DownloadError. A `.part` stays where a later run can use it: after a cut
    connection, Ctrl-C or a full disk, but not after a wrong hash.
    """
    part = path.with_name(f"{path.name}.part")
    resumed = part.exists()
    hub.linked = Pin()
    _receive_patiently(url, part, hub, pin, listener, sleep)
    known = Pin(pin.size or hub.linked.size, pin.sha256 or hub.linked.sha256)
    problem = difference(part, known, listener)
    if problem:
        _etag_file(part).unlink(missing_ok=True)
        part.unlink()
        if not resumed:
            raise DownloadError(f"{url} {problem}: not kept; try another mirror")
        listener.note(f"{problem}; the part on disk was bad: from the start")
        return fetch(url, path, hub, pin, listener, sleep)
    os.replace(part, path)
    _etag_file(part).unlink(missing_ok=True)


def difference(path: Path, pin: Pin, listener: Silent = Silent()) -> str:
    """In what a file is not the pinned one; empty if in nothing."""
    size = path.stat().st_size
    if not size:
        return "is empty"
    if pin.size is not None and size != pin.size:
        return f"has {size} bytes instead of {pin.size}"
    if pin.sha256 is not None:
        listener.note(f"checking {path.name.removesuffix('.part')}")
        digest = _sha256(path)
        if not digest.startswith(pin.sha256):
            return f"has SHA-256 {digest[:16]}... instead of {pin.sha256[:16]}..."
    return ""


def _receive_patiently(
    url: str,
    part: Path,
    hub: Hub,
    pin: Pin,
    listener: Silent,
    sleep: Callable[[float], None],
) -> None:
    """Receive, again and again while it helps, with growing waits."""
    failures, furthest = 0, _size(part)
    while True:
        try:
            return _receive(url, part, hub, pin, listener)
        except Broken as error:
            # Only new ground counts as progress: a server that ignores ranges and
            # always breaks would otherwise keep us forever.
            failures = 1 if _size(part) > furthest else failures + 1
            furthest = max(furthest, _size(part))
            wait = max(float(2 ** (failures - 1)), error.wait or 0.0)
            if failures >= ATTEMPTS or wait > LONGEST_WAIT:
                later = f" (it asks to wait {wait:.0f} s)" if error.wait else ""
                raise DownloadError(f"{url}: {error}{later}; {error.advice}") from error
            listener.note(f"{error}; trying again in {wait:.0f} s")
            sleep(wait)


def _receive(url: str, part: Path, hub: Hub, pin: Pin, listener: Silent) -> None:
    """One attempt: fill `part` to its end, or raise Broken."""
    offset, headers = _resume_headers(part, pin.sha256 or hub.linked.sha256)
    if offset and offset == pin.size:
        return  # an earlier run had all of it and was stopped before the check
    try:
        response = _open(url, hub, headers)
    except urllib.error.HTTPError as error:
        return _settle(url, error, part)
    with response:
        offset, total = place_of(url, response, offset)
        if pin.size is not None and total not in (None, pin.size):
            raise DownloadError(
                f"{url} has {total} bytes instead of {pin.size}: another file; not kept"
            )
        _note_etag(part, response)
        _check_room(part, offset, total)
        listener.begin(offset, total)
        _copy(response, part, offset, listener)
    if total is not None and _size(part) != total:
        raise Broken(f"the connection broke after {_size(part)} of {total} bytes")


def _resume_headers(part: Path, sha256: str | None) -> tuple[int, dict[str, str]]:
    """Where to go on, and how to ask for it."""
    headers = {"Accept-Encoding": "identity", "User-Agent": "minispec"}
    offset = _size(part)
    if offset and sha256 is None:
        etag = _noted_etag(part)
        if not etag:
            return 0, headers
        headers["If-Range"] = etag
    return offset, headers | ({"Range": f"bytes={offset}-"} if offset else {})


def _open(url: str, hub: Hub, headers: dict[str, str]) -> HTTPResponse:
    """Ask, through the environment's proxies, and follow where it leads."""
    try:
        opener = urllib.request.build_opener(hub)
        return opener.open(hub.request(url, headers), timeout=TIMEOUT)
    except urllib.error.HTTPError:
        raise
    except http.client.InvalidURL as error:
        raise _no_address(url, error) from error
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        raise Broken(
            f"no answer from {urlsplit(url).netloc}: {_why(error)}",
            advice="check the network and HTTPS_PROXY, or try later",
        ) from error
    except ValueError as error:  # of many kinds, for an address or where it leads
        raise _no_address(url, error) from error


def _settle(url: str, error: urllib.error.HTTPError, part: Path) -> None:
    """Return if the part is all of the file, which HTTP 416 may mean; or raise."""
    with error:
        if error.code != 416:
            raise error_of(url, error) from error
        if error.headers.get("Content-Range") == f"bytes */{_size(part)}":
            return
        part.unlink(missing_ok=True)
        raise Broken("the part on disk is longer than the file: from the start")


def _copy(response: HTTPResponse, part: Path, offset: int, listener: Silent) -> None:
    """The body, behind the first `offset` bytes of the part."""
    try:
        with part.open("ab") as file:
            file.truncate(offset)
            for chunk in _chunks(response):
                file.write(chunk)
                file.flush()  # so that what is shown as done is done
                listener.advance(len(chunk))
    except OSError as error:
        raise _no_room(part, error) from error


def _chunks(response: HTTPResponse) -> Iterator[bytes]:
    while True:
        try:
            chunk = response.read1(CHUNK)  # what has come: none is lost if no more does
        except (OSError, http.client.HTTPException) as error:
            raise Broken(f"the connection broke: {_why(error)}") from error
        if not chunk:
            return
        yield chunk


def _check_room(part: Path, offset: int, total: int | None) -> None:
    """Better to learn before than after an hour that the disk is too small."""
    free = shutil.disk_usage(part.parent).free + _size(part) - offset
    if total is not None and total - offset > free:
        raise DownloadError(
            f"{part.parent} has {free / 1e6:,.0f} MB free and "
            f"{(total - offset) / 1e6:,.0f} MB are needed: make room or give --dest"
        )


def _no_room(part: Path, error: OSError) -> DownloadError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    what = "the disk is full" if full else f"cannot write ({error.strerror})"
    return DownloadError(
        f"{part}: {what}; make room or give --dest, then run again to go on from there"
    )


def _note_etag(part: Path, response: HTTPResponse) -> None:
    """Keep the ETag beside the file; not every server heeds If-Range."""
    etag, noted = response.headers.get("ETag", ""), _noted_etag(part)
    if response.status == 206 and etag and noted not in ("", etag):
        part.unlink()
        raise Broken("the file changed meanwhile: from the start")
    if etag:
        _etag_file(part).write_text(etag, encoding="utf-8")
    elif response.status != 206:
        _etag_file(part).unlink(missing_ok=True)


def _noted_etag(part: Path) -> str:
    """It; empty if there is none that promises equal bytes."""
    try:
        etag = _etag_file(part).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""
    return etag if STRONG_ETAG.fullmatch(etag) else ""


def _etag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.etag")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def _why(error: Exception) -> str:
    reason = getattr(error, "reason", None) or error
    return getattr(reason, "strerror", None) or str(reason) or type(error).__name__


def _no_address(url: str, error: Exception) -> DownloadError:
    return DownloadError(f"{url} or where it leads is no address ({error}): check it")

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
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPMessage, HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ATTEMPTS = 5  # in a row without a new byte
LONGEST_WAIT = 300.0  # seconds; whoever asks for more is told to come back later
TIMEOUT = 30.0  # seconds of silence
CHUNK = 1 << 20  # bytes
WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}
REASONS = {
    401: "needs a login or does not exist: check the name, or set HF_TOKEN",
    403: "is not open to you: accept its terms on the hub, or set HF_TOKEN",
    404: "does not exist there: check name and revision",
}


class DownloadError(Exception):
    """A file cannot be had; the message is one line for the user."""


class Missing(DownloadError):
    """The server has no such file."""


class Broken(Exception):
    """This attempt failed and another may not; `wait` is what the server asked for."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


@dataclass(frozen=True)
class Pin:
    """What is known about a file beforehand; a hash may be given by its beginning."""

    size: int | None = None
    sha256: str | None = None


class Silent:
    """A listener to the progress that shows nothing; `Progress` shows it."""

    def begin(self, done: int, total: int | None) -> None: ...

    def advance(self, n_bytes: int) -> None: ...

    def note(self, text: str) -> None: ...


class Hub(urllib.request.HTTPRedirectHandler):
    """Requests to one server: the token for its host alone, its word on hashes.

    The hub answers with a redirect to a content server, and says there what the file's
    SHA-256 and size will be (`X-Linked-Etag`, `X-Linked-Size`).
    """

    def __init__(self, origin: str, token: str | None) -> None:
        self.origin, self.token = _origin(origin), token
        self.linked = Pin()

    def request(self, url: str, headers: dict[str, str]) -> urllib.request.Request:
        request = urllib.request.Request(url, headers=headers)
        if self.token and _origin(url) == self.origin:
            # Unredirected: urllib would hand other headers on to any host.
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        return request

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise DownloadError(f"{req.full_url} leads to the insecure {newurl}")
        if _origin(req.full_url) == self.origin:
            self._remember(headers)
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        return new and self.request(newurl, dict(new.header_items()))

    def _remember(self, headers: HTTPMessage) -> None:
        tag, size = headers.get("X-Linked-Etag", ""), headers.get("X-Linked-Size", "")
        found = re.fullmatch('"?([0-9a-f]{64})"?', tag)
        self.linked = Pin(int(size) if size.isdigit() else None, found and found[1])


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
            wait = float(2 ** (failures - 1)) if error.wait is None else error.wait
            if failures >= ATTEMPTS or wait > LONGEST_WAIT:
                later = f" (it asks to wait {wait:.0f} s)" if error.wait else ""
                raise DownloadError(f"{url}: {error}{later}; try later") from error
            listener.note(f"{error}; trying again in {wait:.0f} s")
            sleep(wait)


def _receive(url: str, part: Path, hub: Hub, pin: Pin, listener: Silent) -> None:
    """One attempt: fill `part` to its end, or raise Broken."""
    offset, headers = _resume_headers(part, pin.sha256 or hub.linked.sha256)
    if offset and offset == pin.size:
        return  # an earlier run had all of it and was stopped before the check
    try:
        opener = urllib.request.build_opener(hub)  # with the environment's proxies
        response = opener.open(hub.request(url, headers), timeout=TIMEOUT)
    except urllib.error.HTTPError as error:
        return _refused(url, error, part)
    except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
        raise Broken(f"no answer from {urlsplit(url).netloc}: {_why(error)}") from error
    with response:
        offset, total = _place_of(response, offset)
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
    if sha256 is None:
        try:
            headers["If-Range"] = _etag_file(part).read_text()
        except OSError:
            offset = 0
    if not offset:
        headers.pop("If-Range", None)
        return 0, headers
    return offset, headers | {"Range": f"bytes={offset}-"}


def _refused(url: str, error: urllib.error.HTTPError, part: Path) -> None:
    """Sort an HTTP error: done already, worth another try, or final."""
    with error:
        if error.code == 416:  # nothing beyond what we have: all of it, or too much
            if error.headers.get("Content-Range") == f"bytes */{_size(part)}":
                return
            part.unlink(missing_ok=True)
            raise Broken("the part on disk is longer than the file: from the start", 0)
        if error.code in WORTH_RETRYING:
            wait = _retry_after(error.headers.get("Retry-After"))
            raise Broken(f"HTTP {error.code} {error.reason}", wait) from error
        kind = Missing if error.code == 404 else DownloadError
        reason = REASONS.get(error.code, f"was refused: HTTP {error.code}")
        raise kind(f"{url} {reason}") from error


def _place_of(response: HTTPResponse, offset: int) -> tuple[int, int | None]:
    """Where the body belongs in the file, and how long the file is if that is said."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise DownloadError("the server sends the file compressed, unasked: no use")
    if response.status != 206:  # the range was ignored, or the file has changed
        length = response.headers.get("Content-Length")
        return 0, int(length) if length is not None else None
    said = response.headers.get("Content-Range", "")
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", said)
    if not found or int(found[1]) != offset:
        raise DownloadError(f"asked for bytes from {offset} and got {said!r}: no use")
    return offset, int(found[2])


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
            chunk = response.read(CHUNK)
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
    """Keep the strong ETag beside the file; a weak one does not promise equal bytes."""
    etag = response.headers.get("ETag", "")
    if etag.startswith('"'):
        _etag_file(part).write_text(etag)
    elif response.status != 206:
        _etag_file(part).unlink(missing_ok=True)


def _etag_file(part: Path) -> Path:
    return part.with_name(f"{part.name}.etag")


def _retry_after(value: str | None) -> float | None:
    """Seconds, from seconds or from a date."""
    if value is None:
        return None
    try:
        if value.strip().isdigit():
            return float(value)
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


def _origin(url: str) -> tuple[str, str]:
    return urlsplit(url).scheme, urlsplit(url).netloc.lower()


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
    return str(reason) or type(error).__name__

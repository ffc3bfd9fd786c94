"""Asking a file server, and what its answers mean: redirects, errors, ranges.

The hub answers with a redirect to a content server, and says there what the file's
SHA-256 and size will be (`X-Linked-Etag`, `X-Linked-Size`). Nothing that a server sends
is believed to be well-formed.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPMessage, HTTPResponse
from typing import Any
from urllib.parse import urlsplit

WORTH_RETRYING = {408, 425, 429, 500, 502, 503, 504}
REASONS = {
    401: "needs a login or does not exist: check the name, or set HF_TOKEN",
    403: "is not open to you: accept its terms on the hub, or set HF_TOKEN",
    404: "does not exist there: check name and revision",
    407: "is behind a proxy that wants a password: set it in HTTPS_PROXY",
}


class DownloadError(Exception):
    """A file cannot be had; the message is one line for the user."""


class Missing(DownloadError):
    """The server has no such file."""


class Broken(Exception):
    """This attempt failed and another may not; `wait` is what the server asked for."""

    def __init__(
        self, reason: str, wait: float | None = None, advice: str = "try later"
    ) -> None:
        super().__init__(reason)
        self.wait, self.advice = wait, advice


@dataclass(frozen=True)
class Pin:
    """What is known about a file beforehand; a hash may be given by its beginning."""

    size: int | None = None
    sha256: str | None = None


class Hub(urllib.request.HTTPRedirectHandler):
    """Requests to one server: the token for its host alone, its word on hashes."""

    def __init__(self, origin: str, token: str | None) -> None:
        self.origin, self.token = origin_of(origin), token
        self.linked = Pin()

    def request(self, url: str, headers: dict[str, str]) -> urllib.request.Request:
        request = urllib.request.Request(url, headers=headers)
        if self.token and origin_of(url) == self.origin:
            # Unredirected: urllib would hand other headers on to any host.
            request.add_unredirected_header("Authorization", f"Bearer {self.token}")
        return request

    def redirect_request(
        self, req: Any, fp: Any, code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        safe = ("https",) if req.type == "https" else ("http", "https")
        if urlsplit(newurl).scheme not in safe:
            raise DownloadError(f"{req.full_url} leads to the insecure {newurl}")
        if origin_of(req.full_url) == self.origin:
            self._remember(headers)
        new = super().redirect_request(req, fp, code, msg, headers, newurl)
        return new and self.request(newurl, dict(new.header_items()))

    def _remember(self, headers: HTTPMessage) -> None:
        tag = re.fullmatch('"?([0-9a-f]{64})"?', headers.get("X-Linked-Etag", ""))
        self.linked = Pin(number(headers.get("X-Linked-Size")), tag and tag[1])


def error_of(url: str, error: urllib.error.HTTPError) -> Exception:
    """What an HTTP error means: worth another try, a missing file, or final."""
    if error.code in WORTH_RETRYING:
        wait = retry_after(error.headers.get("Retry-After"))
        return Broken(f"HTTP {error.code} {error.reason}", wait)
    what = "redirects in vain" if 300 <= error.code < 400 else "was refused"
    reason = REASONS.get(error.code, f"{what}: HTTP {error.code}; try another mirror")
    return (Missing if error.code == 404 else DownloadError)(f"{url} {reason}")


def place_of(url: str, response: HTTPResponse, offset: int) -> tuple[int, int | None]:
    """Where the body belongs in the file, and how long the file is if that is said."""
    if response.headers.get("Content-Encoding", "identity") != "identity":
        raise DownloadError(f"{url} comes compressed, unasked; try another mirror")
    if response.status == 200:  # all of it: no range was asked, or it was ignored
        return 0, number(response.headers.get("Content-Length"))
    said = response.headers.get("Content-Range", "")
    found = re.fullmatch(r"bytes ([0-9]{1,18})-[0-9]+/([0-9]{1,18})", said)
    if response.status != 206 or not found or int(found[1]) != offset:
        raise DownloadError(
            f"{url}: asked for bytes from {offset} and got HTTP {response.status} "
            f"{said!r}; try another mirror"
        )
    return offset, int(found[2])


def number(text: str | None) -> int | None:
    """A count of bytes or seconds; None for whatever else stands there."""
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None


def retry_after(value: str | None) -> float | None:
    """Seconds, from seconds or from a date."""
    seconds = number(value)
    if value is None or seconds is not None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def origin_of(url: str) -> tuple[str, str]:
    return urlsplit(url).scheme, urlsplit(url).netloc.lower()

"""The downloader against a server on loopback that does one thing wrong at a time.

A fault is a function that answers one request badly; requests without a fault are
served as a good server does, byte ranges included.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

from script_loader import load_script

script = load_script("download_weights")
# Its neighbours can be imported only now, and are the very modules that it uses.
names = ("fetching", "hub", "known_models")
fetching, hub_module, known_models = map(import_module, names)
DownloadError, Missing = hub_module.DownloadError, hub_module.Missing
Hub, Pin, fetch = hub_module.Hub, hub_module.Pin, fetching.fetch
MODELS, Model = known_models.MODELS, known_models.Model

BODY = bytes(range(256)) * 40  # 10,240 bytes
PIN = Pin(len(BODY), hashlib.sha256(BODY).hexdigest())
PATH = "/o/m/resolve/main/model.safetensors"


def content_range(text: str) -> dict[str, str]:
    return {"Content-Range": f"bytes {text}"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))
        if self.server.faults:
            return self.server.faults.pop(0)(self)
        self.serve()

    def serve(self, etag: str | None = '"v1"', ranges: bool = True) -> None:
        body = self.server.files.get(self.path)
        if body is None:
            return self.answer(404, b"no such file")
        extra = {"ETag": etag} if etag else {}
        wanted = self.headers.get("Range") if ranges else None
        if wanted and self.headers.get("If-Range", etag) == etag:
            first = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if first >= len(body):
                return self.answer(416, b"", **content_range(f"*/{len(body)}"))
            extra |= content_range(f"{first}-{len(body) - 1}/{len(body)}")
            return self.answer(206, body[first:], **extra)
        self.answer(200, body, **extra)

    def answer(
        self, status: int, body: bytes, length: int | None = None, **headers: str
    ) -> None:
        """Send this; with a `length` beyond the body, the connection breaks there."""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        length = len(body) if length is None else length
        self.send_header("Content-Length", str(length))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing: the tests look at what was seen."""


class Server(ThreadingHTTPServer):
    """What it has (`files`), what it will do wrong (`faults`), what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, bytes] = {PATH: BODY}
        self.faults: list[Callable[[Handler], None]] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.url = f"http://127.0.0.1:{self.server_port}"

    @property
    def ranges(self) -> list[str | None]:
        return [headers.get("Range") for _, headers in self.seen]


def start() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


server = pytest.fixture(start)
elsewhere = pytest.fixture(start)


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy and no token from the machine that runs the tests."""
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.delenv("HF_TOKEN", raising=False)


class Waits(list):
    """Stands for time.sleep: notes how long, and does not wait."""

    def __call__(self, seconds: float) -> None:
        self.append(seconds)


def get(server, folder: Path, pin: Pin = PIN, token: str | None = None) -> Waits:
    waits = Waits()
    hub = Hub(server.url, token)
    fetch(server.url + PATH, folder / "model.safetensors", hub, pin, sleep=waits)
    return waits


def whole(folder: Path) -> bool:
    """Whether the file is there, right, and alone."""
    names = [path.name for path in folder.iterdir()]
    return (
        names == ["model.safetensors"]
        and (folder / "model.safetensors").read_bytes() == BODY
    )


# --- faults ---------------------------------------------------------------------------


def cut(at: int) -> Callable[[Handler], None]:
    """The connection breaks after `at` bytes of what was asked for."""

    def fault(handler: Handler) -> None:
        answer = handler.answer

        def broken(status: int, body: bytes, **headers: str) -> None:
            answer(status, body[:at], length=len(body), **headers)

        handler.answer = broken  # type: ignore[method-assign, assignment]
        handler.serve()

    return fault


def broken_at(at: int) -> Callable[[Handler], None]:
    """It breaks after `at` bytes of the file, whatever was asked for; no ETag."""
    return lambda handler: handler.answer(200, BODY[:at], length=len(BODY))


def raw(head: str, body: bytes = b"") -> Callable[[Handler], None]:
    """An answer byte for byte, and the connection closed behind it."""

    def fault(handler: Handler) -> None:
        handler.wfile.write(head.replace("\n", "\r\n").encode("latin-1") + body)
        handler.close_connection = True

    return fault


def status(code: int, **headers: str) -> Callable[[Handler], None]:
    headers = {key.replace("_", "-"): value for key, value in headers.items()}
    return lambda handler: handler.answer(code, b"not now", **headers)


def ignore_range(handler: Handler) -> None:
    handler.serve(ranges=False)


def without_etag(handler: Handler) -> None:
    handler.serve(etag=None)


def redirect(url: str, **headers: str) -> Callable[[Handler], None]:
    return status(302, Location=url, **headers)


def body(data: bytes, **headers: str) -> Callable[[Handler], None]:
    return lambda handler: handler.answer(200, data, **headers)


# --- one file -------------------------------------------------------------------------


@pytest.mark.parametrize("pin", [PIN, Pin()])
def test_a_good_server(server, tmp_path, pin):
    assert get(server, tmp_path, pin) == [] and whole(tmp_path)


@pytest.mark.parametrize("pin", [PIN, Pin()])
def test_a_cut_connection_is_taken_up_where_it_broke(server, tmp_path, pin):
    server.faults = [cut(4000), cut(2000)]
    assert get(server, tmp_path, pin) == [1, 1]  # each got further, so no longer waits
    assert whole(tmp_path)
    assert server.ranges == [None, "bytes=4000-", "bytes=6000-"]


def test_a_server_that_ignores_ranges(server, tmp_path):
    server.faults = [cut(4000), ignore_range]
    get(server, tmp_path)
    assert whole(tmp_path) and server.ranges == [None, "bytes=4000-"]


@pytest.mark.parametrize("lengths", [[4000] * 9, [4000, 2000] * 9])
def test_a_server_that_always_breaks_is_left_in_the_end(server, tmp_path, lengths):
    """Ground that was covered before is no progress, whatever was lost in between."""
    server.faults = [broken_at(at) for at in lengths]
    with pytest.raises(DownloadError, match="broke after 4000 of 10240"):
        get(server, tmp_path)
    assert len(server.seen) == 5


def test_a_file_that_changed_meanwhile_is_not_patched_together(server, tmp_path):
    server.faults = [cut(4000), lambda handler: handler.serve(etag='"v2"')]
    get(server, tmp_path, Pin())
    assert whole(tmp_path)
    assert server.seen[1][1]["If-Range"] == '"v1"'


def test_without_etag_and_hash_it_is_begun_anew(server, tmp_path):
    server.faults = [broken_at(4000), without_etag]
    get(server, tmp_path, Pin())
    assert whole(tmp_path) and server.ranges == [None, None]


def test_an_etag_of_an_earlier_answer_is_not_used(server, tmp_path):
    server.faults = [cut(4000), broken_at(3000)]
    get(server, tmp_path, Pin())
    assert whole(tmp_path) and server.ranges == [None, "bytes=4000-", None]


@pytest.mark.parametrize("etag", ['W/"v1"', 'v1', '"é"'])
def test_an_etag_that_promises_nothing_is_not_used(server, tmp_path, etag):
    def cut_with_it(handler):
        handler.answer(200, BODY[:4000], length=len(BODY), ETag=etag)

    server.faults = [cut_with_it]
    get(server, tmp_path, Pin())
    assert whole(tmp_path) and server.ranges == [None, None]


def test_a_server_that_ignores_if_range_is_seen_through(server, tmp_path):
    """It sends the rest of the new file, and its ETag with it."""
    new = bytes(len(BODY))
    rest = {"ETag": '"v2"', **content_range("4000-10239/10240")}
    server.faults = [cut(4000), lambda handler: handler.answer(206, new[4000:], **rest)]
    get(server, tmp_path, Pin())
    assert whole(tmp_path) and server.ranges == [None, "bytes=4000-", None]


@pytest.mark.parametrize("noted", [b"\xff\xfe", b'"a"\r\nX: y', b"", b"v1"])
def test_a_damaged_note_of_an_etag_is_not_used(server, tmp_path, noted):
    (tmp_path / "model.safetensors.part").write_bytes(bytes(500))
    (tmp_path / "model.safetensors.part.etag").write_bytes(noted)
    get(server, tmp_path, Pin())
    assert whole(tmp_path) and server.ranges == [None]


def test_a_wrong_length_is_refused_before_it_is_read(server, tmp_path):
    server.faults = [body(BODY + b"more")]
    with pytest.raises(DownloadError, match="10244 .* 10240: another file"):
        get(server, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("n_bytes", [len(BODY) - 1, len(BODY) + 1])
def test_a_wrong_length_that_nobody_announced(server, tmp_path, n_bytes):
    server.faults = [raw("HTTP/1.1 200 OK\n\n", bytes(n_bytes))]
    with pytest.raises(DownloadError, match=f"{n_bytes} bytes instead of 10240: not"):
        get(server, tmp_path, Pin(len(BODY)))
    assert list(tmp_path.iterdir()) == []


def test_wrong_bytes_leave_nothing(server, tmp_path):
    server.faults = [body(bytes(len(BODY)), ETag='"v1"')]
    with pytest.raises(DownloadError, match="SHA-256 .* instead of .*not kept"):
        get(server, tmp_path)
    assert list(tmp_path.iterdir()) == [] and len(server.seen) == 1


def test_a_bad_part_on_disk_is_begun_anew(server, tmp_path):
    (tmp_path / "model.safetensors.part").write_bytes(bytes(5000))
    get(server, tmp_path)
    assert whole(tmp_path) and server.ranges == ["bytes=5000-", None]


@pytest.mark.parametrize("pin", [PIN, Pin(None, PIN.sha256)])
def test_a_complete_part_is_only_checked(server, tmp_path, pin):
    (tmp_path / "model.safetensors.part").write_bytes(BODY)
    get(server, tmp_path, pin)
    assert whole(tmp_path) and len(server.seen) == (0 if pin.size else 1)


def test_a_part_longer_than_the_file(server, tmp_path):
    (tmp_path / "model.safetensors.part").write_bytes(BODY + b"more")
    get(server, tmp_path)
    assert whole(tmp_path)


def test_a_wrong_range_is_refused(server, tmp_path):
    (tmp_path / "model.safetensors.part").write_bytes(BODY[:5000])
    wrong = content_range("0-10239/10240")
    server.faults = [lambda handler: handler.answer(206, BODY, **wrong)]
    with pytest.raises(DownloadError, match="asked for bytes from 5000"):
        get(server, tmp_path)


def test_a_compressed_answer_is_refused(server, tmp_path):
    server.faults = [status(200, Content_Encoding="gzip")]
    with pytest.raises(DownloadError, match="compressed"):
        get(server, tmp_path)


@pytest.mark.parametrize(
    "code, message",
    [(404, "does not exist"), (401, "HF_TOKEN"), (403, "terms"), (410, "HTTP 410")],
)
def test_what_no_retry_can_mend(server, tmp_path, code, message):
    server.faults = [status(code)]
    with pytest.raises(DownloadError, match=message) as caught:
        get(server, tmp_path)
    assert isinstance(caught.value, Missing) == (code == 404)
    assert len(server.seen) == 1


def test_busy_servers_are_asked_again_with_growing_waits(server, tmp_path):
    server.faults = [status(503), status(500), status(502), status(504)]
    assert get(server, tmp_path) == [1, 2, 4, 8]
    assert whole(tmp_path)


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504])
def test_what_a_retry_may_mend(server, tmp_path, code):
    server.faults = [status(code)]
    assert get(server, tmp_path) == [1] and whole(tmp_path)


def test_a_busy_server_is_not_asked_forever(server, tmp_path):
    server.faults = [status(503)] * 9
    with pytest.raises(DownloadError, match="HTTP 503.*try later"):
        get(server, tmp_path)
    assert len(server.seen) == 5


def test_retry_after_is_honoured(server, tmp_path):
    date = formatdate(time.time() + 60, usegmt=True)
    server.faults = [
        status(429, Retry_After="7"),
        status(429, Retry_After=date),
        status(503, Retry_After="soon"),
    ]
    waits = get(server, tmp_path)
    assert waits[0] == 7 and 50 < waits[1] <= 60 and waits[2] == 4
    assert whole(tmp_path)


@pytest.mark.parametrize("said", ["0", formatdate(0, usegmt=True)])
def test_waits_grow_whatever_the_server_says(server, tmp_path, said):
    server.faults = [status(429, Retry_After=said)] * 3
    assert get(server, tmp_path) == [1, 2, 4]


def test_a_wait_of_hours_is_left_to_the_user(server, tmp_path):
    server.faults = [status(429, Retry_After="7200")]
    with pytest.raises(DownloadError, match="asks to wait 7200 s"):
        get(server, tmp_path)


def test_no_network_is_one_clear_line(tmp_path):
    message = "no answer from 127.0.0.1:9: .*; check the network"
    with pytest.raises(DownloadError, match=message) as caught:
        get(SimpleNamespace(url="http://127.0.0.1:9"), tmp_path)
    assert "\n" not in str(caught.value)


def test_a_silent_server_is_left(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.2)
    given_up = threading.Event()
    heard: list[bool] = []
    server.faults = [lambda handler: heard.append(given_up.wait(20))]
    assert get(server, tmp_path) == [1]
    assert whole(tmp_path) and not heard  # it was still waiting when we had left
    given_up.set()


def test_what_came_before_the_silence_is_kept(server, tmp_path, monkeypatch):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.2)
    given_up = threading.Event()

    def stall(handler):
        handler.answer(200, BODY[:4000], length=len(BODY), ETag='"v1"')
        handler.wfile.flush()
        given_up.wait(20)

    server.faults = [stall]
    assert get(server, tmp_path) == [1] and whole(tmp_path)
    assert server.ranges == [None, "bytes=4000-"]
    given_up.set()


def test_a_connection_left_open_behind_the_file_is_not_waited_for(
    server, tmp_path, monkeypatch
):
    monkeypatch.setattr(fetching, "TIMEOUT", 0.5)
    done = threading.Event()

    def keep_open(handler):
        raw(f"HTTP/1.1 200 OK\nContent-Length: {len(BODY)}\n\n", BODY)(handler)
        handler.wfile.flush()
        done.wait(20)

    server.faults = [keep_open]
    assert get(server, tmp_path) == [] and whole(tmp_path)
    done.set()


OK = "HTTP/1.1 200 OK\n"
FOUND = "HTTP/1.1 302 Found\nContent-Length: 0\nLocation: "
NONSENSE = {
    "no status": ("\x1b[31m\n\n", "no answer from"),
    "a status of two digits": ("HTTP/1.1 99 X\n\n", "no answer from"),
    "no content": ("HTTP/1.1 204 No Content\n\n", "got HTTP 204"),
    "an empty file": (f"{OK}Content-Length: 0\n\n", "is empty: not kept"),
    "a length in words": (f"{OK}Content-Length: few\n\n", "is empty: not kept"),
    "a length in small digits": (f"{OK}Content-Length: \xb2\n\n", "is empty"),
    "a range unasked": ("HTTP/1.1 206 P\nContent-Range: bytes x\n\n", "from 0 and"),
    "a length beyond any disk": (f"{OK}Content-Length: {10**17}\n\n", "make room"),
    "broken chunks": (f"{OK}Transfer-Encoding: chunked\n\nzz\n", "connection broke"),
    "a circle": (f"{FOUND}{PATH}\n\n", "redirects in vain: HTTP 302"),
    "a redirect to nowhere": ("HTTP/1.1 302 Found\n\n", "redirects in vain"),
    "a redirect to a file": (f"{FOUND}file:///etc/hosts\n\n", "redirects in vain"),
    "a redirect to ftp": (f"{FOUND}ftp://127.0.0.1:9/\n\n", "leads to the insecure"),
    "a redirect to half a host": (f"{FOUND}http://[::1\n\n", "is no address"),
    "a redirect to no port": (f"{FOUND}http://h:x/\n\n", "is no address"),
    "an endless wait": ("HTTP/1.1 429 X\nRetry-After: 9999999\n\n", "asks to wait"),
}


@pytest.mark.parametrize("case", NONSENSE)
def test_nonsense_is_one_error_and_leaves_no_file(server, tmp_path, case):
    head, message = NONSENSE[case]
    server.faults = [raw(head)] * 12
    with pytest.raises(DownloadError, match=message):
        get(server, tmp_path, Pin())
    assert not (tmp_path / "model.safetensors").exists()


# --- redirects, the token, proxies ----------------------------------------------------


def test_the_token_goes_to_the_hub_alone(server, elsewhere, tmp_path):
    moved = PATH.replace("/m/", "/renamed/")
    elsewhere.files["/cdn"] = BODY
    server.faults = [redirect(moved), redirect(f"{elsewhere.url}/cdn")]
    get(server, tmp_path, token="hf_secret")
    assert whole(tmp_path)
    assert [h.get("Authorization") for _, h in server.seen] == ["Bearer hf_secret"] * 2
    assert "Authorization" not in elsewhere.seen[0][1]


@pytest.mark.parametrize(
    "url", ["http://hub/a", "https://hub:8443/a", "https://hub.evil/a", "https://ahub/"]
)
def test_another_scheme_or_port_is_another_host(url):
    hub = Hub("https://hub", "hf_secret")
    assert not hub.request(url, {}).unredirected_hdrs
    assert hub.request("https://hub/a", {}).unredirected_hdrs


def test_the_range_follows_a_redirect(server, elsewhere, tmp_path):
    (tmp_path / "model.safetensors.part").write_bytes(BODY[:5000])
    elsewhere.files["/cdn"] = BODY
    server.faults = [redirect(f"{elsewhere.url}/cdn")]
    get(server, tmp_path)
    assert whole(tmp_path) and elsewhere.ranges == ["bytes=5000-"]


@pytest.mark.parametrize("good", [True, False])
def test_the_hubs_word_on_a_hash_is_checked(server, elsewhere, tmp_path, good):
    """An unpinned file: the redirect says what its SHA-256 will be."""
    elsewhere.files["/cdn"] = BODY if good else bytes(len(BODY))
    linked = {"X_Linked_Etag": f'"{PIN.sha256}"', "X_Linked_Size": str(PIN.size)}
    server.faults = [redirect(f"{elsewhere.url}/cdn", **linked)]
    if good:
        get(server, tmp_path, Pin())
    else:
        with pytest.raises(DownloadError, match="SHA-256"):
            get(server, tmp_path, Pin())
    assert whole(tmp_path) == good


@pytest.mark.parametrize("size", [PIN.size, PIN.size + 1])
def test_the_hubs_word_on_a_size_is_checked(server, elsewhere, tmp_path, size):
    elsewhere.faults = [raw("HTTP/1.1 200 OK\n\n", BODY)]
    server.faults = [redirect(f"{elsewhere.url}/cdn", X_Linked_Size=str(size))]
    if size == PIN.size:
        get(server, tmp_path, Pin())
    else:
        with pytest.raises(DownloadError, match="10240 bytes instead of 10241"):
            get(server, tmp_path, Pin())
    assert whole(tmp_path) == (size == PIN.size)


def test_nobody_elses_word_on_a_hash_counts(server, elsewhere, tmp_path):
    wrong = bytes(len(BODY))
    of_wrong = {"X_Linked_Etag": f'"{hashlib.sha256(wrong).hexdigest()}"'}
    elsewhere.files["/b"] = wrong
    elsewhere.faults = [redirect(f"{elsewhere.url}/b", **of_wrong)]
    linked = {"X_Linked_Etag": f'"{PIN.sha256}"'}
    server.faults = [redirect(f"{elsewhere.url}/a", **linked)]
    with pytest.raises(DownloadError, match="SHA-256"):
        get(server, tmp_path, Pin())


def test_the_hubs_word_is_about_one_file(server, elsewhere, tmp_path):
    hub = Hub(server.url, None)
    elsewhere.files["/cdn"] = BODY
    linked = {"X_Linked_Etag": f'"{PIN.sha256}"'}
    server.faults = [redirect(f"{elsewhere.url}/cdn", **linked), body(b"another")]
    for name in ("first", "second"):
        fetch(server.url + PATH, tmp_path / name, hub)
    assert (tmp_path / "second").read_bytes() == b"another"


def test_a_mirror_never_sees_the_token(server, tmp_path):
    hub = Hub("https://huggingface.co", "hf_secret")
    fetch(server.url + PATH, tmp_path / "model.safetensors", hub, PIN)
    assert "Authorization" not in server.seen[0][1]


def test_a_proxy_of_the_environment_is_used(server, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", server.url)
    url = "http://weights.invalid/file"
    server.files[url] = BODY  # a proxy is asked for the whole URL
    fetch(url, tmp_path / "model.safetensors", Hub(url, None), PIN)
    assert whole(tmp_path) and server.seen[0][0] == url


def test_secure_never_turns_insecure(server):
    hub = Hub("https://huggingface.co", None)
    request = hub.request("https://huggingface.co/a", {})
    with pytest.raises(DownloadError, match="insecure"):
        hub.redirect_request(request, None, 302, "", {}, "http://huggingface.co/a")


# --- the disk -------------------------------------------------------------------------


def test_too_small_a_disk_is_known_before(server, tmp_path, monkeypatch):
    usage = SimpleNamespace(free=1000)
    monkeypatch.setattr(fetching.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DownloadError, match="0 MB free and 0 MB are needed: make room"):
        get(server, tmp_path)


def test_a_disk_that_fills_up_keeps_what_it_has(server, tmp_path, monkeypatch):
    """A limit on file sizes stands for the full disk: it fails in the same place."""
    resource = pytest.importorskip("resource", reason="no limits on this system")
    monkeypatch.setattr(fetching, "CHUNK", 1000)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3500, limits[1]))
    try:
        with pytest.raises(DownloadError, match="cannot write .*run again to go on"):
            get(server, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (tmp_path / "model.safetensors.part").read_bytes() == BODY[:3500]
    get(server, tmp_path)
    assert whole(tmp_path) and server.ranges == [None, "bytes=3500-"]


def test_a_full_disk_is_named(tmp_path):
    error = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert "the disk is full; make room" in str(fetching._no_room(tmp_path, error))


# --- whole models ---------------------------------------------------------------------

FILES = {
    "config.json": b"{}",
    "vocab.json": b'{"a": 0}',
    "merges.txt": b"#version: 0.2\n",
    "model.safetensors": BODY,
}


@pytest.fixture
def hub(server, monkeypatch):
    """The server in the hub's place, with one unpinned model `o/m` on it."""
    monkeypatch.setattr(script, "HUB", server.url)
    server.files = {f"/o/m/resolve/main/{n}": data for n, data in FILES.items()}
    return server


def run(*arguments: object) -> int:
    return script.main([str(argument) for argument in arguments])


def test_a_whole_model(hub, tmp_path, capsys):
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 0
    folder = tmp_path / "o/m"
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == FILES
    out, err = capsys.readouterr()
    assert out == f"{folder} is ready\n" and "o/m at main is not pinned" in err
    asked = len(hub.seen)
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert len(hub.seen) == asked  # nothing is fetched twice
    assert "unchecked: delete it to fetch it anew" in capsys.readouterr().err
    (folder / "config.json").write_bytes(b"")  # what a full disk may leave
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert (folder / "config.json").read_bytes() == FILES["config.json"]


def test_several_models(hub, tmp_path):
    hub.files |= {
        url.replace("/m/", "/n/"): data for url, data in list(hub.files.items())
    }
    assert run("o/m", "o/n", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert (tmp_path / "o/n/model.safetensors").read_bytes() == BODY


def test_a_failure_leaves_no_folder_that_passes_for_a_model(hub, tmp_path):
    hub.files = {}
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 1
    assert not (tmp_path / "o/m").exists()


def test_a_known_name_is_pinned_unless_another_revision_is_asked_for(capsys):
    known = MODELS["gpt2"]
    for name in ("gpt2", known.repo):
        assert script.resolve(name, None) is known
        assert script.resolve(name, known.revision) is known
        assert script.resolve(name, "dev") == Model(known.repo, "dev")
    assert "gpt2 at dev is not pinned" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["model.safetensors", "pytorch_model.bin"])
def test_shards_by_their_index(hub, tmp_path, kind):
    shards = {f"part-{n}.safetensors": bytes([n]) * 9 for n in (1, 2)}
    index = json.dumps({"weight_map": dict(zip("ab", shards))}).encode()
    del hub.files["/o/m/resolve/main/model.safetensors"]
    for name, data in [(f"{kind}.index.json", index), *shards.items()]:
        hub.files[f"/o/m/resolve/main/{name}"] = data
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert (tmp_path / "o/m/part-2.safetensors").read_bytes() == bytes([2]) * 9


def test_an_index_cannot_write_elsewhere(hub, tmp_path, capsys):
    del hub.files["/o/m/resolve/main/model.safetensors"]
    index = json.dumps({"weight_map": {"a": "../../evil"}}).encode()
    hub.files["/o/m/resolve/main/model.safetensors.index.json"] = index
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 1
    assert "outside its folder" in capsys.readouterr().err
    assert not (tmp_path / "evil").exists()


def test_a_model_without_a_tokenizer_is_fetched_and_said(hub, tmp_path, capsys):
    del hub.files["/o/m/resolve/main/vocab.json"]
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert "no vocab.json" in capsys.readouterr().err


def test_a_model_without_weights_is_an_error(hub, tmp_path, capsys):
    del hub.files["/o/m/resolve/main/model.safetensors"]
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 1
    assert "has no weights" in capsys.readouterr().err.splitlines()[-1]


def test_a_revision_is_asked_for(hub, tmp_path):
    hub.files = {f"/o/m/resolve/refs%2Fpr%2F9/{n}": d for n, d in FILES.items()}
    options = ["--dest", tmp_path, "--base-url", hub.url, "--revision", "refs/pr/9"]
    assert run("o/m", *options) == 0


def test_a_pinned_model_is_checked_and_mended(hub, tmp_path, monkeypatch):
    """Every file against its hash, the one already there too."""
    pins = {n: Pin(len(d), hashlib.sha256(d).hexdigest()) for n, d in FILES.items()}
    monkeypatch.setitem(MODELS, "tiny", Model("o/m", "main", pins))
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny/config.json").write_bytes(b"[]")
    assert run("tiny", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert (tmp_path / "tiny/config.json").read_bytes() == b"{}"


NO_NAMES = ["gpt3", "../x", "a/../b", "a/b/c", "/etc/x", "", "a/b\n", "ö/m", "a/b?c"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_an_unknown_name_is_one_line(hub, tmp_path, name, capsys):
    assert run(name, "--dest", tmp_path, "--base-url", hub.url) == 1
    assert "give one of distilgpt2, gpt2," in capsys.readouterr().err
    assert hub.seen == [] and list(tmp_path.iterdir()) == []


NO_URLS = [
    "ftp://x", "x", "", "http://", "https:///x", "http://a b/", "http://a?b",
    "http://a/\n",
]  # fmt: skip


@pytest.mark.parametrize(
    "arguments, message",
    [([], "give a model: one of")]
    + [(["gpt2", "--base-url", url], "must be https://HOST") for url in NO_URLS],
)
def test_usage_errors(arguments, message, capsys):
    with pytest.raises(SystemExit) as caught:
        run(*arguments)
    assert caught.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.parametrize("url", ["http://[::1", "http://h:x", "http://..."])
def test_a_base_url_that_is_no_address_is_one_line(tmp_path, url, capsys):
    assert run("o/m", "--dest", tmp_path, "--base-url", url) == 1
    assert "is no address" in capsys.readouterr().err.splitlines()[-1]


def test_a_mirror_may_have_a_path(tmp_path):
    for base in ("https://a/b", "https://a/b/"):
        get_file = script.Getter(Model("o/m", "v1"), tmp_path, base, Hub(base, None))
        assert get_file.url == "https://a/b/o/m/resolve/v1"


def test_a_folder_in_a_files_place_is_one_line(hub, tmp_path, capsys):
    (tmp_path / "o/m/config.json").mkdir(parents=True)
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 1
    assert "config.json" in capsys.readouterr().err.splitlines()[-1]


def test_a_destination_that_is_a_file_is_one_line(hub, tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run("o/m", "--dest", tmp_path / "file", "--base-url", hub.url) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("error: cannot use") and last.endswith("; give --dest")


def test_a_server_cannot_speak_to_the_terminal(hub, tmp_path, monkeypatch, capsys):
    wait = "Retry-After: 9999999\n\n"
    hub.faults = [raw("\x1b[2J\n\n"), raw(f"HTTP/1.1 503 \x1b[2J\n{wait}")]
    monkeypatch.setattr(script, "fetch", partial(fetch, sleep=Waits()))
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 1
    err = capsys.readouterr().err
    assert err.count(r"\x1b[2J") == 2 and "\x1b" not in err


def test_the_list_names_all(capsys):
    assert run("--list") == 0
    out = capsys.readouterr().out
    assert all(name in out and m.repo in out for name, m in MODELS.items())
    sizes = ("353", "548", "1,520", "3,247", "6,432")
    assert all(f" {size} MB" in out for size in sizes)


def test_ctrl_c_leaves_a_part_to_go_on_from(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(fetching, "CHUNK", 1000)
    advance = script.Progress.advance

    def interrupted(self, n_bytes):
        advance(self, n_bytes)
        if self.done >= 4000:
            raise KeyboardInterrupt

    monkeypatch.setattr(script.Progress, "advance", interrupted)
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 130
    size = (tmp_path / "o/m/model.safetensors.part").stat().st_size
    assert 4000 <= size < 5000 and "run again" in capsys.readouterr().err
    monkeypatch.setattr(script.Progress, "advance", advance)
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 0
    assert (tmp_path / "o/m/model.safetensors").read_bytes() == BODY
    assert hub.ranges[-1] == f"bytes={size}-"


def test_the_token_is_never_printed(hub, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    hub.faults = [status(503), status(403)]
    monkeypatch.setattr(script, "fetch", partial(fetch, sleep=Waits()))
    assert run("o/m", "--dest", tmp_path, "--base-url", hub.url) == 1
    assert hub.seen[0][1]["Authorization"] == "Bearer hf_secret"
    assert "hf_secret" not in "".join(capsys.readouterr())


@pytest.mark.parametrize("token", ["hf_sec\nret", "hf_sécret", "hf sec ret"])
def test_a_token_that_cannot_be_one_is_not_printed_either(monkeypatch, token, capsys):
    try:
        monkeypatch.setenv("HF_TOKEN", token)
    except UnicodeEncodeError:
        pytest.skip("this environment can hold no such token")
    assert run("o/m") == 1
    assert "set it anew" in (err := capsys.readouterr().err) and "ret" not in err


def test_two_at_once_do_not_disturb_each_other(hub, tmp_path, capsys):
    """Two processes would do the same: the lock belongs to the open folder."""
    pytest.importorskip("fcntl", reason="no file locks on this system")

    def slow(handler):
        time.sleep(0.1)
        handler.serve()

    hub.faults = [slow] * 4
    codes: list[int] = []
    arguments = ("o/m", "--dest", tmp_path, "--base-url", hub.url)
    both = [
        threading.Thread(target=lambda: codes.append(run(*arguments))) for _ in "ab"
    ]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert codes == [0, 0] and len(hub.seen) == len(FILES)
    assert "another process is filling" in capsys.readouterr().err
    assert (tmp_path / "o/m/model.safetensors").read_bytes() == BODY


def test_progress_says_how_much_how_fast_and_how_long():
    progress = script.Progress("gpt2/model.safetensors", sys.stderr)
    progress.begin(100_000_000, 500_000_000)
    progress.done, now = 200_000_000, progress.started + 10
    assert progress.line(now) == (
        "gpt2/model.safetensors  200.0 of 500.0 MB  10.0 MB/s  0:30 left"
    )

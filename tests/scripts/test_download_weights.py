"""Downloads, by the real library, from a small hub on the loopback address."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.script_loader import SCRIPTS, load_script, run_script

pytest.importorskip("huggingface_hub")
script = load_script("download_weights")

REVISION = "5" * 40
FILES = {
    "model.safetensors": bytes(range(256)) * 48_000,  # the library keeps 10 MB pieces
    "vocab.json": b"{}",
    "merges.txt": b"#version: 0.2\n",
    "config.json": b'{"n_layer": 1}',
}
SHA256 = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}


class Hub(ThreadingHTTPServer):
    """OWNER/NAME/resolve/REVISION/FILE, with what the library asks of a hub."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = dict(FILES)
        self.cut_at: int | None = None  # the first answer with a body ends there
        self.asked: list[tuple[str, str, str]] = []  # method, path, range
        self.url = f"http://127.0.0.1:{self.server_port}"


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self.answer(b"")

    def do_GET(self) -> None:
        self.answer(None)

    def answer(self, body: bytes | None) -> None:
        hub, asked = self.server, self.headers.get("Range", "")
        hub.asked.append((self.command, self.path, asked))
        start, _, name = self.path.rpartition("/")
        if start != f"/someone/tiny/resolve/{REVISION}" or name not in hub.files:
            self.send_error(404)
            return
        data = hub.files[name]
        first = int(asked[len("bytes=") :].rstrip("-")) if asked else 0
        self.send_response(206 if asked else 200)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("Content-Length", str(len(data) - first))
        if asked:
            place = f"bytes {first}-{len(data) - 1}/{len(data)}"
            self.send_header("Content-Range", place)
        self.end_headers()
        if body is None:
            end, hub.cut_at = hub.cut_at, None
            self.wfile.write(data[first:end])
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Not on the terminal."""


@pytest.fixture
def hub() -> Iterator[Hub]:
    with Hub() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def fetch(hub: Hub, tmp_path: Path):  # type: ignore[no-untyped-def]
    """Run the script for the model `tiny`, which a copy of the script knows."""
    known = f'Model("someone/tiny", "{REVISION}", 1, {SHA256!r})'
    copy = SCRIPTS.joinpath("download_weights.py").read_text(encoding="utf-8")
    begin, main = copy.split("def problem(")
    path = tmp_path / "with_tiny.py"
    path.write_text(f'{begin}MODELS["tiny"] = {known}\n\n\ndef problem({main}')

    def run():  # type: ignore[no-untyped-def]
        return run_script(
            str(path.with_suffix("")),
            *("tiny", "--dest", tmp_path / "weights"),
            HF_ENDPOINT=hub.url,
            HF_HOME=str(tmp_path / "home"),
        )

    return run


def test_every_file_arrives_and_only_a_damaged_one_is_fetched_again(
    hub: Hub, fetch, tmp_path: Path
) -> None:
    folder = tmp_path / "weights" / "tiny"
    done = fetch()
    assert done.returncode == 0, done.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == FILES
    assert [path.name for path in folder.parent.iterdir()] == ["tiny"]
    hub.asked.clear()
    (folder / "model.safetensors").write_bytes(b"damaged")
    assert "is ready" in fetch().stdout
    assert (folder / "model.safetensors").read_bytes() == FILES["model.safetensors"]
    paths = {path for _, path, _ in hub.asked if "/resolve/" in path}
    assert {path.rpartition("/")[2] for path in paths} == {"model.safetensors"}


def test_a_connection_that_breaks_is_resumed(hub: Hub, fetch, tmp_path: Path) -> None:
    hub.cut_at = 11_000_000
    done = fetch()
    assert done.returncode == 0, done.stderr
    file = tmp_path / "weights" / "tiny" / "model.safetensors"
    assert file.read_bytes() == FILES["model.safetensors"]
    assert [asked for _, _, asked in hub.asked if asked] == ["bytes=10485760-"]


def test_other_bytes_leave_nothing_to_load(hub: Hub, fetch, tmp_path: Path) -> None:
    """And the next run mends it."""
    name = "model.safetensors"
    hub.files[name] = b"other bytes" + FILES[name]
    done = fetch()
    assert done.returncode == 2
    complaint = done.stderr.splitlines()[-1]
    assert name in complaint and SHA256[name][:16] in complaint
    assert not [*tmp_path.glob("**/config.json")]
    hub.files = dict(FILES)
    assert fetch().returncode == 0


def test_what_the_hub_lacks_is_one_line(hub: Hub, fetch, tmp_path: Path) -> None:
    del hub.files["vocab.json"]
    done = fetch()
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert "cannot fetch someone/tiny/vocab.json" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "weights" / "tiny").exists()


def test_ctrl_c_keeps_whole_files_and_leaves_nothing_to_load(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pressed in the second file: the first is not asked for again."""
    fetched = []

    def fetch(model: object, name: str, folder: Path) -> None:
        if len(fetched) == 1:
            fetched.append("interrupted")
            raise KeyboardInterrupt
        fetched.append(name)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(FILES[name])

    monkeypatch.setattr(script, "fetch", fetch)
    model = script.Model("someone/tiny", REVISION, 1, SHA256)
    with pytest.raises(KeyboardInterrupt):
        script.download(model, tmp_path / "tiny")
    assert not [*tmp_path.glob("**/config.json")] and not (tmp_path / "tiny").exists()
    script.download(model, tmp_path / "tiny")
    assert {p.name: p.read_bytes() for p in (tmp_path / "tiny").iterdir()} == FILES


def test_the_table_is_whole() -> None:
    """A slip in it would show only after hours of downloading."""
    assert [*script.MODELS] == "distilgpt2 gpt2 gpt2-medium gpt2-large gpt2-xl".split()
    for model in script.MODELS.values():
        assert len(model.revision) == 40 and [*model.files] == [*FILES]
        assert len(model.files["model.safetensors"]) == 64
        assert len(model.files["config.json"]) == 16
        assert set("".join(model.files.values())) <= set("0123456789abcdef")


def test_the_list_and_the_wrong_name() -> None:
    listed = run_script("download_weights", "--list").stdout
    assert len(listed.splitlines()) == 5 and "gpt2-xl       6,432 MB" in listed
    with pytest.raises(ValueError, match="unknown model 'gpt3': give one of distil"):
        script.main(["gpt3"])


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install -e '\.\[download\]'"):
        script.main(["gpt2"])

"""Files are written whole, or what was there before stays."""

import os
from pathlib import Path

import pytest

from minispec.files.whole import check_writable, replacing


def test_a_reader_sees_the_old_file_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "page.html"
    for before, now in ((None, "one"), ("one", "two")):
        with replacing(path) as part:
            part.write_text(now)
            assert (path.read_text() if path.exists() else None) == before
        assert path.read_text() == now and list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "disk full")])
def test_a_failure_leaves_what_was_there_and_nothing_else(tmp_path, failure):
    path = tmp_path / "page.html"
    path.write_text("old")
    with pytest.raises((KeyboardInterrupt, OSError)) as caught, replacing(path) as part:
        part.write_text("half")
        raise failure
    assert path.read_text() == "old" and list(tmp_path.iterdir()) == [path]
    assert caught.type is KeyboardInterrupt or "cannot write" in str(caught.value)


def test_a_link_stays_a_link_and_the_mode_stays(tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    with replacing(link) as part:
        part.write_text("new")
    assert link.is_symlink() and path.read_text() == "new"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_device_is_written_to_directly():
    check_writable(os.devnull)
    with replacing(os.devnull) as part:
        assert part == Path(os.devnull)


@pytest.mark.parametrize("name", ["", "absent/x", "file/x", "x" * 256, "x" * 9999])
def test_what_cannot_be_written_is_rejected_before_the_work(tmp_path, name):
    (tmp_path / "file").touch()
    for reject in (check_writable, lambda path: replacing(path).__enter__()):
        with pytest.raises(OSError, match="cannot write") as caught:
            reject(tmp_path / name)
        assert len(str(caught.value)) < 350
    check_writable(tmp_path / "file")
    check_writable(tmp_path / ("x" * 255))
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() == 0, reason="root may")
def test_a_file_that_may_not_be_written_is_rejected(tmp_path):
    (tmp_path / "file").touch(0o400)
    with pytest.raises(OSError, match="cannot write"):
        check_writable(tmp_path / "file")

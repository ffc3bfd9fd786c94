"""From the plays' pages to text: what is kept, in what form, and what is rejected."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from course.apart import apart
from support.script_loader import load_script

corpus = load_script("prepare_corpus")

PAGE = """<html><head><title>A play: Entire Play</title></head><body>
<H3>ACT I</h3>
<h3>SCENE I. A heath: a tempest</h3>
<blockquote>
<A NAME=1.1.1>heard from afar.</A><br>
<p><i>Enter two Fools</i></p>
</blockquote>

<A NAME=speech1><b>First Fool</b></a>
<A NAME=speech2><b>ALL </b></a>
<blockquote>
<A NAME=1.1.2>Who's   there?\tI &amp; thou,</A><br>
<p><i>Exit</i></p>
<A NAME=1.1.3>[Aside]  or <i>none</i>.</A><br>
</blockquote>

<a name=speech3><b>JULIET</b></a>
<blockquote>
<a name=14>Adieu\xe9!</a><br>
</blockquote>
</body></html>
"""
TEXT = """ALL:
Who's there? I & thou,
[Aside] or none.

JULIET:
Adieu\xe9!

"""
words = st.text("abcXYZ',.;:!?-", min_size=1, max_size=6)
sentences = st.lists(words, min_size=1, max_size=4).map(" ".join)
spoken = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)))


def test_speeches_and_lines_are_kept_and_nothing_else() -> None:
    assert corpus.play_text(PAGE) == TEXT


@given(spoken)
def test_every_speech_written_as_a_page_is_read_back(
    speeches: list[tuple[str, list[str]]]
) -> None:
    page = ""
    for n, (speaker, lines) in enumerate(speeches, start=1):
        page += f"<A NAME=speech{n}><b>{speaker}</b></a>\n<blockquote>\n"
        page += "".join(f"<A NAME=1.1.{n}>{line}</A><br>\n" for line in lines)
        page += "<p><i>Exeunt</i></p>\n</blockquote>\n"
    assert corpus.speeches(page) == speeches


@pytest.mark.parametrize(
    "page",
    [
        "<a name=speech1><b>" * 20_000,
        "<a name=1.1>" * 32_000,
        "<a name=speech1><b>x</a>" * 16_000,
        "<a name=speech1><b>x</b></a><a name=1>" + "<" * 380_000 + "</a>",
    ],
)
def test_what_is_left_open_takes_no_longer(page: str) -> None:
    """Hundredths of a second; minutes when each opening searched to the end."""
    apart(lambda: corpus.play_text(page), seconds=20)


def write_pages(folder: Path, layout: str = "{}.html") -> Path:
    """A page for every play, each with one line of its own."""
    for name in corpus.TRAINING + corpus.HELD_OUT:
        path = folder / layout.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.replace("Adieu", name), encoding="iso-8859-1")
    return folder


@pytest.mark.parametrize("layout", ["{}.html", "{}/full.html"])
def test_both_layouts_give_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    plays, out = write_pages(tmp_path / "plays", layout), tmp_path / "out"
    names = ["macbeth", "merchant", "tempest"]
    expected = {f"held_out/{name}.txt": TEXT.replace("Adieu", name) for name in names}
    training = [TEXT.replace("Adieu", name) for name in sorted(corpus.TRAINING)]
    expected["train.txt"] = "".join(training)
    assert len(training) == 34 and not {*names} & {*corpus.TRAINING}
    digests = {n: hashlib.sha256(text.encode()) for n, text in expected.items()}
    right = {name: digest.hexdigest() for name, digest in digests.items()}
    monkeypatch.setattr(corpus, "SHA256", right)
    assert corpus.main([str(plays), "--out", str(out)]) == 0
    written = {name: (out / name).read_bytes().decode() for name in expected}
    assert written == expected


def test_other_pages_are_rejected_by_their_hash_and_a_missing_one_by_its_name(
    tmp_path: Path,
) -> None:
    plays, out = write_pages(tmp_path / "plays"), tmp_path / "out"
    with pytest.raises(ValueError, match="check out commit") as rejection:
        corpus.main([str(plays), "--out", str(out)])
    assert corpus.SHA256["train.txt"] in str(rejection.value)
    (plays / "hamlet.html").unlink()
    with pytest.raises(ValueError, match="not a folder with hamlet.html"):
        corpus.main([str(plays), "--out", str(out)])
    assert not out.exists()

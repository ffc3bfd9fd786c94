"""From the plays' pages to text: what is kept, in what form, and what is refused."""

import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from script_loader import load_script

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


def test_speeches_and_lines_are_kept_and_nothing_else() -> None:
    assert corpus.play_text(PAGE) == TEXT


words = st.text("abcXYZ',.;:!?-", min_size=1, max_size=6)
sentences = st.lists(words, min_size=1, max_size=4).map(" ".join)
spoken = st.lists(st.tuples(sentences, st.lists(sentences, min_size=1, max_size=3)))


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
    assert corpus.play_text(page).count("\n\n") == len(speeches)


def write_pages(folder: Path, layout: str) -> Path:
    """A page for every play, each with one line of its own."""
    for name in corpus.TRAINING + corpus.HELD_OUT:
        path = folder / layout.format(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.replace("Adieu", name), encoding="iso-8859-1")
    return folder


def digests(files: dict[str, str]) -> dict[str, str]:
    """What the corpus's SHA-256 are if these are the right files."""
    return {n: hashlib.sha256(text.encode()).hexdigest() for n, text in files.items()}


@pytest.mark.parametrize("layout", ["{}.html", "{}/full.html"])
def test_both_layouts_give_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layout: str
) -> None:
    plays, out = write_pages(tmp_path / "plays", layout), tmp_path / "out"
    expected = {
        f"held_out/{name}.txt": TEXT.replace("Adieu", name) for name in corpus.HELD_OUT
    }
    training = [TEXT.replace("Adieu", name) for name in sorted(corpus.TRAINING)]
    expected["train.txt"] = "".join(training)
    assert corpus.corpus(plays) == expected
    monkeypatch.setattr(corpus, "SHA256", digests(expected))
    assert corpus.main([str(plays), "--out", str(out)]) == 0
    for name, text in expected.items():
        assert (out / name).read_bytes() == text.encode()


def test_the_37_plays_are_told_apart() -> None:
    names = corpus.TRAINING + corpus.HELD_OUT
    assert len(set(names)) == len(names) == 37
    assert corpus.HELD_OUT == ["macbeth", "merchant", "tempest"]


def refusal(plays: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that the command says when it refuses; nothing may be written."""
    assert corpus.main([str(plays), "--out", str(out)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and not out.exists()
    return error


def test_other_pages_are_refused_by_their_hash(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays = write_pages(tmp_path / "plays", "{}.html")
    error = refusal(plays, tmp_path / "out", capsys)
    assert corpus.SHA256["train.txt"] in error and "check out commit" in error


def test_a_missing_play_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plays = write_pages(tmp_path / "plays", "{}.html")
    (plays / "hamlet.html").unlink()
    error = refusal(plays, tmp_path / "out", capsys)
    assert "neither hamlet.html nor hamlet/full.html" in error


def test_a_missing_folder_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refusal(tmp_path / "nowhere", tmp_path / "out", capsys)
    assert "nowhere is not a folder" in error and corpus.REPOSITORY in error


def test_help_says_where_the_pages_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        corpus.main(["--help"])
    assert exit_.value.code == 0
    help_text = capsys.readouterr().out
    assert corpus.REPOSITORY in help_text and corpus.COMMIT in help_text

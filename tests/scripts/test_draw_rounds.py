"""The picture on the README's front page: a real decode, and whole in every text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from support.script_loader import load_script

from minispec.core.rounds import Round
from minispec.files.tokenizer import Tokenizer

script = load_script("draw_rounds")
RECT = "{http://www.w3.org/2000/svg}rect"
TEXT = "{http://www.w3.org/2000/svg}text"


def test_every_token_is_drawn_once_with_its_fate_and_as_itself() -> None:
    rounds = [
        Round(tuple(b"<&"), 2, tuple(b'<&"'), None),
        Round(tuple(b"\n]"), 0, tuple(b" "), None),
    ]
    root = ElementTree.fromstring(script.picture(rounds, Tokenizer.from_bytes()))
    drawn = Counter(rect.get("class") for rect in root.iter(RECT))
    in_legend = Counter(dict.fromkeys(script.MEANINGS, 1))
    in_rounds = Counter(accepted=2, bonus=1, rejected=1, unread=1, resampled=1)
    assert drawn == in_rounds + in_legend + Counter(card=1)
    texts = [text.text for text in root.iter(TEXT)]
    assert [text for text in texts if text in '<&"⏎]␣'] == list('<&"⏎]␣')
    assert "2 of 2 accepted: 3 tokens" in texts and "0 of 2 accepted: 1 token" in texts
    assert "2 passes of the target wrote 4 tokens" in texts


def test_the_picture_in_the_repository_is_drawn_by_the_script(tmp_path: Path) -> None:
    again = tmp_path / "rounds.svg"
    script.main(["--out", str(again)])
    assert again.read_bytes() == script.OUT.read_bytes()

"""The picture on the README's front page: a real decode, and whole in every text."""

from __future__ import annotations

from collections import Counter
from xml.etree import ElementTree

from minispec.generation import DraftedToken, Round
from minispec.pair import Pair
from minispec.tokenizer import Tokenizer
from script_loader import load_script

script = load_script("draw_rounds")
RECT = "{http://www.w3.org/2000/svg}rect"
TEXT = "{http://www.w3.org/2000/svg}text"


def drafted(text: str, *fates: str) -> tuple[DraftedToken, ...]:
    return tuple(
        DraftedToken(byte, 0.5, 0.5, fate)  # type: ignore[arg-type]
        for byte, fate in zip(text.encode(), fates)
    )


def test_every_token_is_drawn_once_with_its_fate_and_as_itself() -> None:
    pair = Pair(None, None, Tokenizer.from_bytes())  # type: ignore[arg-type]
    rounds = [
        Round(drafted("<&", "accepted", "accepted"), tuple(b'<&"'), None),
        Round(drafted("\n]", "refused", "unread"), tuple(b" "), None),
    ]
    root = ElementTree.fromstring(script.picture(rounds, pair))
    fates = Counter(rect.get("class") for rect in root.iter(RECT))
    in_legend = dict.fromkeys(script.MEANINGS, 1)
    in_rounds = Counter(accepted=2, bonus=1, refused=1, unread=1, resampled=1)
    assert fates == in_rounds + Counter(in_legend) + Counter(card=1)
    texts = [text.text for text in root.iter(TEXT)]
    assert [text for text in texts if text in '<&"⏎]␣'] == list('<&"⏎]␣')
    assert "2 of 2 kept: 3 tokens" in texts and "0 of 2 kept: 1 token" in texts
    assert "2 passes of the target wrote 4 tokens" in texts


def test_the_picture_in_the_repository_is_drawn_by_the_script(tmp_path) -> None:
    again = tmp_path / "rounds.svg"
    script.main(["--out", str(again)])
    assert again.read_bytes() == script.OUT.read_bytes()

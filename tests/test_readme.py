"""The front page: its code runs, its links lead somewhere, both languages agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ENGLISH, CHINESE = ROOT / "README.md", ROOT / "README.zh-CN.md"
BOTH = pytest.mark.parametrize("page", [ENGLISH, CHINESE], ids=lambda page: page.name)
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)


def prose(page: Path) -> str:
    """The page without its blocks of code."""
    return FENCE.sub("", page.read_text(encoding="utf-8"))


def numbers(text: str) -> list[str]:
    """Every number with a point or a comma in it: the measured figures."""
    return sorted(re.findall(r"\d+(?:[.,]\d+)+", text))


def test_the_two_languages_hold_the_same_code_tables_links_and_figures() -> None:
    english, chinese = (page.read_text(encoding="utf-8") for page in (ENGLISH, CHINESE))
    assert FENCE.findall(english) == FENCE.findall(chinese)
    english, chinese = prose(ENGLISH), prose(CHINESE)
    for pattern in (r"^#+ ", r"\]\((notebooks[^)]*|https:[^)]*)\)", r"^(\|)", r"^- "):
        found = [re.findall(pattern, page, re.M) for page in (english, chinese)]
        assert found[0] == found[1], f"{pattern} differs between the languages"
    assert numbers(english) == numbers(chinese)
    code = [set(re.findall(r"`([^`]+)`", re.sub(r"\s+", " ", p)))
            for p in (english, chinese)]  # fmt: skip
    assert code[0] == code[1]


@BOTH
def test_every_file_that_is_named_exists(page: Path) -> None:
    text = prose(page)
    links = re.findall(r"\]\(([^):]+)\)", text)
    places = "tests|scripts|weights|notebooks|minispec"
    quoted = re.findall(rf"`((?:{places})/[^` ]*)`", text)
    modules = re.findall(r"`([a-z0-9_/]+(?:\.py|/))`", text)
    for name in links + quoted:
        assert (ROOT / name.split("#")[0]).exists(), name
    for name in set(modules) - set(quoted):
        assert (ROOT / name).exists() or (ROOT / "minispec" / name).exists(), name


def test_the_python_on_the_page_runs(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [code for language, code in FENCE.findall(ENGLISH.read_text("utf-8"))
              if language == "python"]  # fmt: skip
    assert blocks
    for code in blocks:
        exec(compile(code, str(ENGLISH), "exec"), {})
    assert capsys.readouterr().out.strip()

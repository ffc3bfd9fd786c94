"""The page in a real browser: headless Chromium, driven by selenium.

Skipped where selenium, Chromium or its driver is missing
(`pip install -e ".[dev]"`, `apt-get install chromium chromium-driver`).
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minispec.cli import main, make_parser
from minispec.commands.options import request_from
from minispec.commands.streaming import Decode, run, text_of

from tiny_pairs import random_folder

webdriver = pytest.importorskip("selenium.webdriver", reason="no selenium installed")
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    BROWSER is None or DRIVER is None, reason="no Chromium with chromedriver installed"
)
PROMPT = "</script><script>alert('1')</script> \"quoted\" <!-- <b>"
FLAGS = (
    "--headless --no-sandbox --disable-gpu --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update"
)
WIDE, NARROW = (1280, 900), (360, 740)
SHOWN = ("where", "says")
TOTALS = {
    "target_forwards": "{}",
    "emitted": "{}",
    "drafted": "{}",
    "accepted": "{}",
    "acceptance_rate": "{:.3f}",
    "tokens_per_target_forward": "{:.3f}",
}


class Page:
    """The page as a reader meets it."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver, self.path = driver, path
        self.open()

    def open(self) -> None:
        self.driver.get(self.path.as_uri())

    def js(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {code}", *arguments)

    def press(self, *keys: str) -> None:
        """To whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def shift(self, key: str) -> None:
        chain = webdriver.ActionChains(self.driver).key_down(Keys.SHIFT)
        chain.send_keys(key).key_up(Keys.SHIFT).perform()

    def click(self, name: str) -> None:
        self.driver.find_element("id", name).click()

    def text(self, selector: str) -> str:
        return self.js("document.querySelector(arguments[0]).textContent", selector)

    def where(self) -> int:
        """The number of the round that is shown."""
        assert self.js("document.querySelectorAll('.round:not([hidden])').length") == 1
        return int(self.text("#where").split()[1])

    def state(self) -> tuple[Any, ...]:
        """All that tells one step from another."""
        selectors = (".round:not([hidden]) .pending", "#text .future")
        counts = [f"document.querySelectorAll('{one}').length" for one in selectors]
        texts = [f"document.getElementById('{one}').textContent" for one in SHOWN]
        return tuple(self.js(f"[{', '.join(counts + texts)}]"))

    def totals(self) -> dict[str, str]:
        """Those of the round that is shown."""
        found = self.js(
            "[...document.querySelectorAll('.round:not([hidden]) [data-total]')]"
            ".map((e) => [e.dataset.total, e.querySelector('dd').textContent])"
        )
        return dict(found)

    def emulate(self, media: str = "screen", scheme: str = "light") -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        command = "Emulation.setEmulatedMedia"
        self.driver.execute_cdp_cmd(command, {"media": media, "features": features})

    def resize(self, width: int, height: int) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1}
        command = "Emulation.setDeviceMetricsOverride"
        self.driver.execute_cdp_cmd(command, {**size, "mobile": False})


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folders = [tmp_path_factory.mktemp(name) for name in ("target", "draft")]
    target, draft = (random_folder(f, seed) for seed, f in enumerate(folders))
    models = ["--target", str(target), "--draft", str(draft)]
    return [*models, "--tokens", "16", "--gamma", "3", "--prompt", PROMPT]


@pytest.fixture(scope="module")
def decode(options: list[str]) -> tuple[Decode, str]:
    """What `generate` makes of the same options, and its text."""
    request = request_from(make_parser().parse_args(["generate", *options]))
    decode = Decode()
    run(request, decode, speculative=True)
    return decode, text_of(request, decode)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings = webdriver.ChromeOptions()
    settings.binary_location = BROWSER
    profile = tmp_path_factory.mktemp("profile")
    for flag in [*FLAGS.split(), f"--user-data-dir={profile}"]:
        settings.add_argument(flag)
    settings.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=settings, service=Service(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, options: list[str]) -> Path:
    out = tmp_path_factory.mktemp("page") / "decode.html"
    assert main(["trace", *options, "--out", str(out)]) == 0
    return out


@pytest.fixture
def page(driver: Any, path: Path) -> Iterator[Page]:
    """Opened afresh; whatever a test does, the console stays empty."""
    page = Page(driver, path)
    page.resize(*WIDE)
    page.emulate()
    yield page
    assert driver.get_log("browser") == []


def test_it_loads_nothing_but_itself(page: Page) -> None:
    assert page.js("performance.getEntriesByType('resource').length") == 0
    assert page.where() == 1


def test_the_text_is_the_prompt_and_the_decode(
    page: Page, decode: tuple[Decode, str]
) -> None:
    assert page.text("#text") == PROMPT + decode[1]
    assert page.js("document.scripts.length") == 2
    assert page.js("document.querySelectorAll('#text *').length") == 1 + len(
        decode[0].tokens
    )


def test_steps_go_forwards_and_back_the_same_way(page: Page) -> None:
    states = [page.state()]
    while page.js("document.getElementById('step-on').ariaDisabled") == "false":
        page.click("step-on")
        states.append(page.state())
    assert len(set(states)) == len(states) > 20
    assert states[-1][:2] == (0, 0)  # at the end nothing is hidden
    page.press(Keys.ARROW_RIGHT)
    assert page.state() == states[-1]
    for state in states[-2::-1]:
        page.click("step-back")
        assert page.state() == state
    page.press(Keys.ARROW_LEFT)
    assert page.state() == states[0]


def test_keys_do_what_buttons_do(page: Page) -> None:
    for key, button in ((Keys.ARROW_RIGHT, "step-on"), (Keys.ARROW_LEFT, "step-back")):
        page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, key)
        by_key = page.state()
        page.press(Keys.HOME, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
        page.click(button)
        assert page.state() == by_key
        page.press(Keys.HOME)
    page.shift(Keys.ARROW_RIGHT)
    page.shift(Keys.ARROW_RIGHT)
    assert page.where() == 2
    by_key = page.state()
    page.press(Keys.HOME)
    page.click("round-on")
    page.click("round-on")
    assert page.state() == by_key
    page.shift(Keys.ARROW_LEFT)
    page.click("round-back")
    assert page.where() == 1


def test_totals_agree_with_the_decode(page: Page, decode: tuple[Decode, str]) -> None:
    """Round by round, against a `Generation` that the page had no part in."""
    so_far = Decode()
    for number, round in enumerate(decode[0].rounds, start=1):
        page.click("round-on")
        assert page.where() == number
        so_far.rounds.append(round)
        so_far.tokens.extend(round.committed)
        generation = so_far.generation()
        expected = {n: f.format(getattr(generation, n)) for n, f in TOTALS.items()}
        assert page.totals() == expected
        rows = page.js(
            "[...document.querySelectorAll('.round:not([hidden]) .drafted tbody tr')]"
            ".map((e) => e.querySelector('.fate').className.split(' ')[1])"
        )
        assert rows == [one.fate for one in round.drafted]
    assert page.state()[:2] == (0, 0)


def test_the_slider_goes_to_the_end_of_a_round(page: Page) -> None:
    page.js("document.getElementById('jump').focus()")
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.where() == 3 and page.state()[0] == 0


def test_a_reader_without_eyes_finds_the_way(page: Page) -> None:
    """Landmarks, names, what is read out; the focus stays where it was put."""
    for landmark in ("header", "nav[aria-label]", "main", "footer"):
        assert page.js(f"document.querySelectorAll('{landmark}').length") == 1
    for name in ("button", "input"):
        for element in page.driver.find_elements("css selector", name):
            assert element.accessible_name
    for section in page.driver.find_elements("css selector", "section:not([hidden])"):
        assert section.accessible_name and section.aria_role == "region"
    assert page.driver.find_element("id", "says").aria_role == "status"
    page.click("round-on")
    page.press(Keys.END)
    assert page.js("document.activeElement.id") == "round-on"
    page.click("round-on")
    assert page.js("document.activeElement.id") == "round-on"


def test_fates_are_told_by_more_than_colour(page: Page) -> None:
    shown = page.js(
        "[...document.querySelectorAll('#signs .fate')].map((e) => "
        "[e.textContent, getComputedStyle(e).borderStyle + "
        "getComputedStyle(e).borderWidth + getComputedStyle(e).borderRadius])"
    )
    texts, shapes = zip(*shown)
    assert len(set(texts)) == len(set(shapes)) == 6


CONTRAST = """(() => {
  const levels = (rgb) => rgb.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
    .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = (rgb) => levels(rgb)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const back = (e) => {
    const own = getComputedStyle(e).backgroundColor;
    return own !== "rgba(0, 0, 0, 0)" || !e.parentElement ? own : back(e.parentElement);
  };
  return Math.min(...[...document.querySelectorAll("body *")]
    .filter((e) => e.checkVisibility() && e.innerText)
    .map((e) => [light(getComputedStyle(e).color), light(back(e))])
    .map(([a, b]) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)));
})()"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_it_fits_and_can_be_read(
    page: Page, scheme: str, size: tuple[int, int]
) -> None:
    page.resize(*size)
    page.emulate(scheme=scheme)
    ground = page.js("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(253, 253, 251)", "dark": "rgb(20, 22, 26)"}[scheme]
    for _ in range(6):
        page.shift(Keys.ARROW_RIGHT)
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        page.press(Keys.ARROW_RIGHT)
        assert page.js(CONTRAST) >= 4.5  # WCAG AA


def test_print_shows_every_round(page: Page, decode: tuple[Decode, str]) -> None:
    page.emulate(media="print", scheme="dark")
    for selector in (".round", ".later", ".fate", "#speed"):
        all_of_them = f"[...document.querySelectorAll('{selector}')]"
        seen = "(e) => e.checkVisibility({visibilityProperty: true})"
        assert page.js(f"{all_of_them}.every({seen})"), selector
    assert page.js("getComputedStyle(document.querySelector('nav')).display") == "none"
    n_rounds = page.js("document.querySelectorAll('.round').length")
    assert n_rounds == len(decode[0].rounds)
    assert page.js("getComputedStyle(document.body).color") == "rgb(28, 30, 33)"


def test_a_decode_of_nothing(page: Page, path: Path, tmp_path: Path) -> None:
    """The same page with no rounds in it."""
    html = path.read_text(encoding="utf-8")
    start = html.index('id="decode">') + len('id="decode">')
    end = html.index("</script>", start)
    data = json.loads(html[start:end])
    data["rounds"] = []
    embedded = json.dumps(data).replace("<", "\\u003c")
    empty = tmp_path / "empty.html"
    empty.write_text(html[:start] + embedded + html[end:], encoding="utf-8")
    nothing = Page(page.driver, empty)
    nothing.press(Keys.ARROW_RIGHT)
    nothing.click("step-on")
    assert "Nothing was decoded" in nothing.text("#says")
    assert nothing.text("#text") == PROMPT

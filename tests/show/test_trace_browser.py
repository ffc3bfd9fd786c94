"""The page in a real browser: headless Chromium, driven by selenium.

Skipped where selenium, Chromium or its driver is missing
(`pip install -e ".[dev]"`, `apt-get install chromium chromium-driver`).
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minispec.commands.cli import main, make_parser
from minispec.commands.job import Job, job_from
from minispec.commands.streaming import Decode, rounds_of
from minispec.core.rounds import Generation
from minispec.show.odds import tries_of
from minispec.show.page import render
from minispec.show.recording import record
from minispec.show.terminal import fates, parents_of, quoted

from support.tiny_pairs import random_pair

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
TOTALS = {
    "target_forwards": "{}",
    "emitted": "{}",
    "drafted": "{}",
    "judged": "{}",
    "accepted": "{}",
    "acceptance_rate": "{:.3f}",
    "tokens_per_target_forward": "{:.3f}",
}


class Page:
    """The page as a reader meets it."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver = driver
        driver.get(path.as_uri())

    def js(self, code: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {code}", *arguments)

    def press(self, *keys: str, shift: bool = False) -> None:
        """To whatever has the focus."""
        chain = webdriver.ActionChains(self.driver)
        chain = chain.key_down(Keys.SHIFT) if shift else chain
        chain = chain.send_keys(*keys)
        (chain.key_up(Keys.SHIFT) if shift else chain).perform()

    def click(self, *names: str) -> None:
        for name in names:
            self.driver.find_element("id", name).click()

    def texts(self, selector: str) -> list[str]:
        code = "[...document.querySelectorAll(arguments[0])].map((e) => e.textContent)"
        return self.js(code, selector)

    def where(self) -> int:
        """The number of the round that is shown."""
        assert len(self.texts(".round:not([hidden])")) == 1
        return int(self.texts("#where")[0].split()[1])

    def state(self) -> tuple[Any, ...]:
        """All that tells one step from another; first what is hidden."""
        hidden = (".round:not([hidden]) .pending", "#text .future")
        counts = (len(self.texts(selector)) for selector in hidden)
        return (*counts, *self.texts("#where, #says"))

    def emulate(self, media: str, scheme: str, size: tuple[int, int]) -> None:
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        look = {"media": media, "features": features}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", look)
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1}
        command = "Emulation.setDeviceMetricsOverride"
        self.driver.execute_cdp_cmd(command, {**metrics, "mobile": False})


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    models = random_pair(tmp_path_factory)
    return [*models, "--tokens", "11", "--gamma", "3", "--prompt", PROMPT]


@pytest.fixture(scope="module")
def decode(options: list[str]) -> Decode:
    """What `generate` makes of the same options."""
    job = job_from(make_parser().parse_args(["generate", *options]))
    decode = Decode(job)
    decode.run(rounds_of(job, speculative=True))
    return decode


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
    page.emulate("screen", "light", WIDE)
    yield page
    assert driver.get_log("browser") == []


def test_the_text_is_the_prompt_and_the_decode_and_nothing_is_loaded(
    page: Page, decode: Decode
) -> None:
    assert page.js("performance.getEntriesByType('resource').length") == 0
    assert page.texts("#text") == [PROMPT + decode.text] and page.where() == 1
    assert len(page.texts("#text *")) == 1 + decode.generation.emitted
    assert len(page.texts("script")) == 2
    shares = decode.generation.acceptance_by_position
    assert page.texts("#position-rows td:nth-child(2)") == [f"{s:.3f}" for s in shares]


def test_no_script_but_its_own_runs(page: Page) -> None:
    """The second wall: the policy holds where markup got in after all."""
    page.js(
        "document.body.insertAdjacentHTML('beforeend', "
        "'<b id=x onclick=\"document.title=1\" style=\"color:red\">x</b>')"
    )
    page.js("document.getElementById('x').click()")
    assert page.driver.title != "1"
    colour = page.js("getComputedStyle(document.getElementById('x')).color")
    assert "rgb(255" not in colour
    told = page.driver.get_log("browser")  # and the browser says why
    assert len(told) == 2 and all("Content Security" in one["message"] for one in told)


def test_steps_go_forwards_and_back_the_same_way(page: Page) -> None:
    states = [page.state()]
    while page.js("document.getElementById('step-on').ariaDisabled") == "false":
        page.click("step-on")
        states.append(page.state())
    assert len(set(states)) == len(states) > 12
    assert states[-1][:2] == (0, 0)  # at the end nothing is hidden
    for state in states[-2::-1]:
        page.press(Keys.ARROW_LEFT)
        assert page.state() == state
    page.click("round-on", "round-on", "step-on", "step-back")
    by_button = page.state()
    page.press(Keys.HOME)
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, shift=True)
    assert page.state() == by_button and page.where() == 2
    page.js("document.getElementById('jump').focus()")
    page.press(Keys.ARROW_RIGHT)
    assert page.where() == 3 and page.state()[0] == 0


def test_totals_and_fates_agree_with_the_decode(page: Page, decode: Decode) -> None:
    """Round by round, against a `Generation` that the page had no part in."""
    for number, one in enumerate(decode.rounds, start=1):
        page.click("round-on")
        assert page.where() == number
        found, shown = Generation(tuple(decode.rounds[:number])), ".round:not([hidden])"
        expected = [form.format(getattr(found, name)) for name, form in TOTALS.items()]
        assert page.texts(f"{shown} [data-total] dd") == expected
        names = page.texts(f"{shown} [data-node] > .node .spoken")
        assert [name.strip() for name in names] == fates(one)
    assert page.state()[:2] == (0, 0)


# -------------------------------------------------------------------------- pictures

VISIBLE = ".round:not([hidden]) .picture:not(.away)"
# Of the picture shown: how wide all pieces of each kind are together, in pixels.
WIDTHS = f"""Object.fromEntries(["overlap", "residual", "surplus"].map((part) =>
  [part, [...document.querySelectorAll("{VISIBLE} .bars .part." + part)]
    .reduce((sum, piece) => sum + piece.getBoundingClientRect().width, 0)]))"""
# For each draft of the round shown: its number, and that of the draft it hangs from.
NESTING = """[...document.querySelectorAll(".round:not([hidden]) [data-node]")]
  .map((item) => [item, item.parentElement.closest("[data-node]")])
  .map((pair) => pair.map((item) => item ? Number(item.dataset.node) : -1))"""
KINDS = {
    "chain": "",
    "block": "--judge block",
    "tree": "--tree 2,2,1",
    "coupled": "--coupled",
}


@pytest.fixture(scope="module", params=KINDS)
def traced(
    request: Any, tmp_path_factory: pytest.TempPathFactory, options: list[str]
) -> tuple[Path, Job]:
    """A page of each kind, and the job that decodes the same."""
    argv = [*options, *KINDS[request.param].split(), "--seed", "7", "--tokens", "24"]
    out = tmp_path_factory.mktemp("kinds") / f"{request.param}.html"
    assert main(["trace", *argv, "--out", str(out)]) == 0
    return out, job_from(make_parser().parse_args(["generate", *argv]))


def test_the_picture_under_the_cursor_is_of_the_rows_that_decided(
    driver: Any, traced: tuple[Path, Job]
) -> None:
    """As wide as the numbers, over the whole vocabulary: the overlap is 1 - TV."""
    path, job = traced
    page, judge = Page(driver, path), job.request.judge
    assert job.drafter is not None
    for one, facts in record(job.target, job.drafter, job.request, job.seed):
        for a_try in tries_of(one, facts, judge):
            page.press(Keys.ARROW_RIGHT)
            assert page.js(f"document.querySelectorAll('{VISIBLE}').length") == 1
            tv = (a_try.wanted - a_try.given).abs().sum().item() / 2
            off = (1 - a_try.wanted.sum().item()) / 2  # of a row that is scaled
            widths = page.js(WIDTHS)
            whole = widths["overlap"] + widths["surplus"]  # the draft's row: 1
            assert widths["overlap"] / whole == pytest.approx(1 - tv - off, abs=0.01)
            assert widths["residual"] / whole == pytest.approx(tv - off, abs=0.01)
            told = page.texts(f"{VISIBLE} .legend b")[0]
            assert float(told.strip("<")) == pytest.approx(1 - tv - off, abs=1e-3)
            (at,) = page.texts(".round:not([hidden]) .at > .node .token")
            assert at == quoted(job.pair.tokenizer, one.tokens[a_try.node])
        page.press(Keys.ARROW_RIGHT)
        assert page.texts(f"{VISIBLE} figcaption") == ["The token after the drafts"]
        page.press(Keys.ARROW_RIGHT)  # the next round
    assert driver.get_log("browser") == []


def test_the_tree_is_the_rounds_and_its_path_what_was_accepted(
    driver: Any, traced: tuple[Path, Job]
) -> None:
    """A chain is a tree too; a click on a draft goes to the step that judges it."""
    path, job = traced
    page, shown = Page(driver, path), ".round:not([hidden])"
    assert job.drafter is not None
    for one, facts in record(job.target, job.drafter, job.request, job.seed):
        page.press(Keys.ARROW_RIGHT, shift=True)
        edges = [[node, parent] for node, parent in enumerate(parents_of(one))]
        assert sorted(page.js(NESTING)) == edges
        text = [quoted(job.pair.tokenizer, token) for token in one.committed]
        accepted = page.texts(f"{shown} .kept[data-node] > .node .token")
        assert accepted == text[: one.n_accepted]
        fate = "[data-node] > .node.accepted .token"
        assert page.texts(f"{shown} {fate}") == accepted
        if one.extra:
            extra = page.texts(f"{shown} .extra .node .token")
            assert extra == text[one.n_accepted :]
    for a_try in tries_of(one, facts, job.request.judge)[:1]:
        item = f"{shown} [data-node='{a_try.node}'] > .node"
        page.driver.find_element("css selector", item).click()
        page.press(Keys.ARROW_LEFT)
        assert "drafted" in page.texts("#says")[0]


def test_a_screen_reader_finds_the_way(page: Page) -> None:
    """Landmarks, names, what is read out; the focus stays where it was put."""
    for landmark in ("header", "nav[aria-label]", "main", "footer"):
        assert len(page.texts(landmark)) == 1
    for element in page.driver.find_elements("css selector", "button, input"):
        assert element.accessible_name
    for section in page.driver.find_elements("css selector", "section:not([hidden])"):
        assert section.accessible_name and section.aria_role == "region"
    assert page.driver.find_element("id", "says").aria_role == "status"
    page.click("round-on")
    page.press(Keys.END)
    assert page.js("document.activeElement.id") == "round-on"


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
    """And what became of a draft is told by words and shapes, not by colour alone."""
    page.emulate("screen", scheme, size)
    for _ in range(4):
        page.press(Keys.ARROW_RIGHT, shift=True)
        assert page.js("document.documentElement.scrollWidth <= innerWidth")
        page.press(Keys.ARROW_RIGHT)
        assert page.js(CONTRAST) >= 4.5  # WCAG AA
    shapes = page.js(
        "[...document.querySelectorAll('#signs .fate')].map(getComputedStyle)"
        ".map((e) => e.borderStyle + e.borderWidth + e.borderRadius)"
    )
    assert len(set(page.texts("#signs .fate"))) == len(set(shapes)) == 6


def test_print_shows_every_round(page: Page, decode: Decode) -> None:
    page.emulate("print", "dark", WIDE)
    seen = page.js(
        "[...document.querySelectorAll('.round, .round .later, #speed')]"
        ".every((e) => e.checkVisibility({visibilityProperty: true}))"
    )
    assert seen and len(page.texts(".round")) == len(decode.rounds)
    assert page.js("getComputedStyle(document.body).color") == "rgb(28, 30, 33)"


def test_a_decode_of_nothing(page: Page, path: Path, tmp_path: Path) -> None:
    found = re.search('id="decode">(.*?)</script>', path.read_text(encoding="utf-8"))
    assert found is not None
    empty = render({**json.loads(found[1]), "rounds": []})
    (tmp_path / "empty.html").write_text(empty, encoding="utf-8")
    nothing = Page(page.driver, tmp_path / "empty.html")
    nothing.press(Keys.ARROW_RIGHT)
    nothing.click("step-on")
    assert "Nothing was decoded" in nothing.texts("#says")[0]
    assert nothing.texts("#text") == [PROMPT]

"""All pages, in both themes, at all widths: nothing is cut, and axe finds nothing serious."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from importlib import resources
from typing import Any, Final, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Page

from gateway.extension import find_extras
from tests.extras.console.browser.kit import (
    HEIGHT,
    HOLDER_PAGES,
    NARROW,
    OPERATOR_PAGES,
    OUTSIDE,
    WIDE,
    Site,
    go,
    move,
    open_call,
    read_title,
    take_pictures,
)
from tests.extras.console.browser.past import start_with_past
from tests.extras.console.kit import Console
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.served import HOLDER, OPERATOR
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

AXE: Final = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
GRAVE: Final = {"serious", "critical"}
RULES_OF_COLOUR: Final = ("color-contrast", "link-in-text-block")
"""Rules whose result depends on the theme and not on the width. They take most of axe's time."""
RUN_AXE: Final = """async ([options, onlyNew]) => {
    await new Promise(requestAnimationFrame);
    if (onlyNew && !newLooks.length) return [];
    const context = onlyNew ? { include: newLooks } : document;
    const found = await axe.run(context, { resultTypes: ["violations"], preload: false, ...options });
    return found.violations.map((one) =>
        ({ id: one.id, impact: one.impact, nodes: one.nodes.map((node) => node.html.slice(0, 200)) }));
}"""

PHONE: Final = {"width": NARROW, "height": HEIGHT}
LARGER_PHONE: Final = 390
WIDTHS: Final = (WIDE, 900, WIDE // 2, LARGER_PHONE, NARROW)
"""Widths of a wide screen, of half of one, of one at 200 % zoom, and of phones."""
MAX_HEIGHT: Final = 3 * 844
"""A page is at most three screens high on the larger phone, until all rows of a table are asked for."""
MEASURE: Final = """async () => {
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
    const { clientWidth, scrollWidth } = document.documentElement;
    const faults = scrollWidth > clientWidth ? [`the page is ${scrollWidth} px wide`] : [];
    for (const region of document.querySelectorAll(".scroll"))
        if (region.checkVisibility() && region.scrollWidth > region.clientWidth) faults.push(`${region.ariaLabel} scrolls`);
    for (const one of document.querySelectorAll(".cards th > div"))
        if (one.scrollWidth > one.clientWidth) faults.push(`${one.textContent} is below its neighbour`);
    for (const one of document.querySelectorAll("main *, #bar *, dialog *")) {
        const { left, right, width } = one.getBoundingClientRect();
        if (one.closest("pre, .unseen, svg, thead, .checks") || !width || !one.checkVisibility()) continue;
        if (left < 0 || right > clientWidth) faults.push(one.outerHTML.slice(0, 120));
    }
    const cards = [...document.querySelectorAll(".cards")].map((one) => one.ariaLabel);
    return { faults, height: document.documentElement.scrollHeight, cards };
}"""
DROP_ALIKE: Final = """() => {
    const seen = new Set();
    for (const row of document.querySelectorAll("tbody tr")) {
        const look = [row, ...row.querySelectorAll("*")]
            .map((one) => [one.tagName, one.getAttribute("class"), ...one.getAttributeNames()].join(" ")).join();
        if (seen.has(look)) row.remove();
        seen.add(look);
    }
}"""
"""Leaves one row of each look: axe takes as long for each of two hundred hours as for the first."""
FIND_NEW_LOOKS: Final = """() => {
    const known = window.knownLooks ??= new Set();
    window.newLooks = [];
    const describe = (one) => {
        const { color, backgroundColor, fontSize, fontWeight, opacity } = getComputedStyle(one);
        return [one.tagName, one.getAttribute("class"), ...one.getAttributeNames(),
            color, backgroundColor, fontSize, fontWeight, opacity].join(" ");
    };
    const visit = (one, above) => {
        if (!one.checkVisibility()) return;
        const path = `${above}/${describe(one)}`;
        const hasText = [...one.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
        if (!hasText && !one.matches("input, select, textarea")) {
            for (const child of one.children) visit(child, path);
            return;
        }
        const look = [path, ...[...one.querySelectorAll("*")].map(describe)].join();
        if (!known.has(look)) newLooks.push(one);
        known.add(look);
    };
    visit(document.body, "");
}"""
"""Finds the texts of a style that no page before had, until one is loaded anew: others have the same contrast."""

WORDY: Final = "audit"
"""The page whose log has a word of 80 characters here, from `reload_twice`."""

Theme = Literal["light", "dark"]
COLOURS: Final = {"runOnly": list(RULES_OF_COLOUR)}
OTHERS: Final = {"rules": {rule: {"enabled": False} for rule in RULES_OF_COLOUR}}
LOOKS: Final[tuple[tuple[int, Theme, dict[str, Any]], ...]] = (
    (NARROW, "light", OTHERS),
    (WIDE, "light", OTHERS),
    (WIDE, "light", COLOURS),
    (WIDE, "dark", COLOURS),
)
"""Pages for axe by width and theme: colours are the same at all widths."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    """A gateway with a past, whose file waits for a restart, and was refused at the last reload."""
    async with start_with_past(tmp_path_factory.mktemp("past")) as console:
        if "reloads" in find_extras():
            await reload_twice(console)
        yield console


async def reload_twice(console: Console) -> None:
    process = console.process
    text = process.config.read_text()
    for changed, said in (
        (
            text.replace(f"port = {console.port}", "port = 1"),
            "a restart is needed for: server.port",
        ),
        (f"{text}\n[models.{'long' * 20}]\nprice = 1", "the reload is refused"),
    ):
        process.config.write_text(changed)
        assert process.process is not None
        process.process.send_signal(signal.SIGHUP)
        await until(lambda: said in process.log, said)  # noqa: B023
    process.config.write_text(text)


async def inspect(page: Page, path: str) -> dict[str, Any]:
    """Return what is out of sight at any width, and axe's serious findings, narrow and wide."""
    faults: dict[str, Any] = {}
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        found = await page.evaluate(MEASURE)
        if found["faults"]:
            faults[f"{path} at {width} px"] = found["faults"]
        if width == LARGER_PHONE and found["height"] > MAX_HEIGHT:
            faults[f"{path} on a phone"] = f"{found['height']} px high"
        if width == WIDE and path != WORDY and found["cards"]:
            faults[f"{path}: cards on a wide screen"] = found["cards"]
    await page.evaluate(DROP_ALIKE)
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(AXE)
    for width, theme, options in LOOKS:
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await page.emulate_media(color_scheme=theme)
        if options == COLOURS and theme == "light":
            await page.evaluate(FIND_NEW_LOOKS)
        violations = await page.evaluate(RUN_AXE, [options, options == COLOURS])
        if grave := [one for one in violations if one["impact"] in GRAVE]:
            faults.setdefault(f"{path} at {width} px, {theme}", []).extend(grave)
    titles = await page.locator("h1").all_inner_texts()
    return faults if len(titles) == 1 else {**faults, f"{path} titles": titles}


PAGES: Final = {
    None: OUTSIDE,
    HOLDER: HOLDER_PAGES,
    OPERATOR: {**OPERATOR_PAGES, "": "Overview", "keys": "Keys"},
}


def choose(pages: dict[str, str]) -> dict[str, str]:
    """Choose each page of another title once. Its other filters and sorts come with all examples."""
    firsts = {(path.partition("?")[0], pages[path]): path for path in reversed(pages)}
    return {path: pages[path] for path in pages if ALL_EXAMPLES or path in firsts.values()}


@pytest.mark.timeout(600)  # some thirty pages, each in six ways
@pytest.mark.parametrize("who", PAGES)
async def test_nothing_is_cut_and_axe_finds_no_fault_on_any_page(
    site: Site, who: str | None
) -> None:
    """The holder's pages with data, and the operator's pages with and without data."""
    page = await site.open("signin", who)
    faults: dict[str, Any] = {}
    for path, title in choose(PAGES[who]).items():
        with site.witness.expecting(404):
            await (go if who is None else move)(page, path)
        assert await read_title(page) == title
        await take_pictures(page, f"{who}-{path}")
        faults |= await inspect(page, path)
    if who is not None:
        await open_call(page)
        await take_pictures(page, f"{who}-call")
        faults |= await inspect(page, "a call")
    assert faults == {}


async def test_error_is_tied_to_its_field(site: Site) -> None:
    """The summary on top has the focus; the field is marked invalid and names the reason."""
    page = await site.open("keys?new=1", HOLDER)
    dialog = page.get_by_role("dialog")
    cap = dialog.get_by_label("Cap, USD")
    await cap.fill("-1")
    with site.witness.expecting(400):
        await dialog.get_by_role("button", name="Create key").click()
        await dialog.get_by_role("alert").wait_for()
    summary = await dialog.get_by_role("alert").inner_text()
    focused = await page.evaluate("document.activeElement.textContent")
    assert focused == summary
    assert await cap.get_attribute("aria-invalid") == "true"
    described = (await cap.get_attribute("aria-describedby") or "").split()
    texts = [await page.locator(f"#{one}").inner_text() for one in described]
    assert summary in texts
    await dialog.get_by_role("link").click()
    assert await cap.evaluate("(field) => field === document.activeElement")


async def test_chart_has_its_table(site: Site) -> None:
    """The picture is one image with a conclusion; the table under it has its data."""
    page = await site.open("usage", HOLDER)
    chart = page.locator(".plot svg[role=img]")
    await chart.wait_for()
    name = await page.evaluate(
        "(svg) => document.getElementById(svg.getAttribute('aria-labelledby')).textContent",
        await chart.element_handle(),
    )
    assert name == (await page.locator("figcaption").inner_text()).split("\n")[0].strip()
    hidden = await chart.evaluate(
        "(svg) => [...svg.querySelectorAll('text')].every((one) => one.ariaHidden === 'true')"
    )
    assert hidden
    assert await page.get_by_role("table", name="Usage by day").is_visible()


async def test_a_script_in_the_page_does_not_run(site: Site) -> None:
    """The policy of every page is strict, and the browser holds to it."""
    page = await site.open("", OPERATOR)
    await page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.ran = true";
            document.head.append(script);
        }"""
    )
    faults = site.witness.faults
    await until(lambda: any("CSP: script-src-elem" in one for one in faults), "a violation")
    assert await page.evaluate("window.ran") is None
    faults.clear()


async def test_cards_are_a_table_to_screen_readers(site: Site) -> None:
    """A row's cells keep their heads, whose labels the cards show to the eye alone."""
    page = await site.open("accounts", OPERATOR, viewport=PHONE)
    table = page.get_by_role("table", name="Accounts")
    assert await table.get_by_role("columnheader", name="Balance, USD").count() == 1
    assert await table.get_by_role("row").get_by_role("rowheader", name="holder").count() == 1
    assert 'cell "Balance' not in await table.aria_snapshot()


async def test_phones_show_the_rest_when_asked(site: Site) -> None:
    """Filters are folded unless one is set, and long tables are cut; the keyboard opens both."""
    page = await site.open("activity", HOLDER, viewport=PHONE)
    model, rows = page.get_by_label("Model"), page.locator("tbody tr:visible")
    assert not await model.is_visible()
    assert await rows.count() == 10
    await page.get_by_role("button", name="Filters").press("Enter")
    assert await model.is_visible()
    await page.get_by_role("button", name="Show all 50").press("Enter")
    assert await rows.count() == 50
    await go(page, "activity?model=gpt-5.5")
    assert await model.is_visible()


async def test_columns_that_tell_nothing_are_left_out(site: Site) -> None:
    """A column by which one sorts stays."""
    page = await site.open("accounts", OPERATOR)
    held = page.get_by_role("columnheader", name="Held")
    assert await held.count() == 0
    await go(page, "accounts?sort=held")
    assert await held.count() == 1

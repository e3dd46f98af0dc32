"""Widths: nothing has to be scrolled sideways; rows are cards where their table does not fit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.browser.kit import (
    HEIGHT,
    HOLDER_PAGES,
    NARROW,
    OPERATOR_PAGES,
    OUTSIDE,
    WIDE,
    Site,
    go,
    settle,
)
from tests.browser.past import start_with_past
from tests.console.kit import HOLDER, OPERATOR, Console
from tests.support.rows import each_row

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PHONE: Final = {"width": NARROW, "height": HEIGHT}
HALF: Final = 900
ZOOMED: Final = WIDE // 2
"""The width that 200 % zoom leaves of a wide screen."""
FIND_OUTSIDE: Final = """async () => {
    for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
    const { clientWidth, scrollWidth } = document.documentElement;
    const faults = scrollWidth > clientWidth ? [`the page is ${scrollWidth} px wide`] : [];
    for (const region of document.querySelectorAll(".scroll"))
        if (region.scrollWidth > region.clientWidth) faults.push(`${region.ariaLabel} scrolls`);
    for (const one of document.querySelectorAll("main *")) {
        const { left, right, width } = one.getBoundingClientRect();
        if (one.closest("pre, .unseen, svg, thead") || !width) continue;
        if (left < 0 || right > clientWidth) faults.push(one.outerHTML.slice(0, 120));
    }
    return faults;
}"""
FIND_CARDS: Final = "() => [...document.querySelectorAll('.cards')].map((one) => one.ariaLabel)"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with start_with_past(tmp_path_factory.mktemp("past")) as console:
        yield console


@each_row("width", [WIDE, HALF, ZOOMED])
async def test_no_table_is_cut_on_a_usual_screen(site: Site, width: int) -> None:
    faults = {}
    for who, pages in ((HOLDER, HOLDER_PAGES), (OPERATOR, OPERATOR_PAGES)):
        page = await site.open("signin", who, viewport={"width": width, "height": HEIGHT})
        for path in pages:
            with site.witness.expecting(404):
                await go(page, path)
            if found := await page.evaluate(FIND_OUTSIDE):
                faults[path] = found
            if width == WIDE and (cards := await page.evaluate(FIND_CARDS)):
                faults[path] = cards
    assert faults == {}


async def test_nothing_has_to_be_scrolled_sideways(site: Site) -> None:
    faults = {}
    for who, pages in ((HOLDER, HOLDER_PAGES), (OPERATOR, OPERATOR_PAGES), (None, OUTSIDE)):
        page = await site.open("signin", who, viewport=PHONE)
        for path in pages:
            with site.witness.expecting(404):
                await go(page, path)
            if found := await page.evaluate(FIND_OUTSIDE):
                faults[path] = found
    assert faults == {}


async def test_cards_are_a_table_to_screen_readers(site: Site) -> None:
    """A row's cells keep their heads, whose labels the cards show to the eye alone."""
    page = await site.open("accounts", OPERATOR, viewport=PHONE)
    table = page.get_by_role("table", name="Accounts")
    assert await table.get_by_role("columnheader", name="Balance, USD").count() == 1
    assert await table.get_by_role("row").get_by_role("rowheader", name="holder").count() == 1
    assert 'cell "Balance' not in await table.aria_snapshot()


async def test_every_action_of_a_card_can_be_pressed(site: Site) -> None:
    """A key's limits are set by its card, and shown on it and on the operator's."""
    page = await site.open("keys", HOLDER, viewport=PHONE)
    await page.get_by_role("button", name="Edit CI").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Requests per minute").fill("12")
    await dialog.get_by_label("Requests at once").fill("3")
    await dialog.get_by_role("button", name="Save").click()
    await dialog.wait_for(state="detached")
    await settle(page)
    assert await read_badges(page, "CI") == ["12 requests/min", "3 at once"]
    page = await site.open(f"accounts/{HOLDER}", OPERATOR)
    assert await read_badges(page, "CI") == ["12 requests/min", "3 at once"]
    page = await site.open("keys", HOLDER, viewport=PHONE)
    await page.get_by_role("button", name="Edit CI").click()
    dialog = page.get_by_role("dialog")
    assert await dialog.get_by_label("Requests at once").input_value() == "3"
    await dialog.get_by_label("Requests at once").fill("51")
    with site.witness.expecting(400):
        await dialog.get_by_role("button", name="Save").click()
        await dialog.get_by_role("alert").wait_for()
    assert "from 1 to 50" in await dialog.get_by_role("alert").inner_text()


async def read_badges(page: Page, key: str) -> list[str]:
    row = page.get_by_role("region", name="Keys").get_by_role("row").filter(has_text=key)
    return await row.locator(".badge").all_inner_texts()

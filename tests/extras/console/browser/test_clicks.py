"""A click counts, whatever the page does between the press and the release of the button."""

from __future__ import annotations

import asyncio
from typing import Final

import pytest
from playwright.async_api import Locator, Page

from tests.extras.console.browser.kit import Site, wait_for_title
from tests.support.served import OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PRESS_SECONDS: Final = 0.3


async def press(page: Page, target: Locator) -> None:
    """Press the mouse as long as people do, who take a tenth of a second."""
    box = await target.bounding_box()
    assert box is not None
    await page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    await page.mouse.down()
    await asyncio.sleep(PRESS_SECONDS)
    await page.mouse.up()


async def test_a_click_counts_that_ends_the_typing_of_a_date(site: Site) -> None:
    """Where the field is left, the page is built anew, and the click's target with it."""
    page = await site.open("billing", OPERATOR)
    await page.get_by_label("From").focus()
    await page.keyboard.type("10152023")
    await press(page, page.locator("main").get_by_role("link", name="holder").first)
    await wait_for_title(page, "holder")

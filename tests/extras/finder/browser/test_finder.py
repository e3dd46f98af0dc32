"""What is chosen in the search while the gateway looks for more."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Browser, Route

from tests.extras.console.browser.kit import Site, Witness, wait_for_title
from tests.extras.console.kit import open_console
from tests.support.served import OPERATOR
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def test_a_chosen_page_stays_chosen_when_more_is_found(
    browser: Browser, tmp_path: Path
) -> None:
    held: list[Route] = []
    async with open_console(tmp_path) as console:
        site = Site(browser, console, Witness(console.root_url))
        page = await site.open("", OPERATOR)
        await page.route("**/api/search?**", lambda route: held.append(route))  # noqa: PLW0108
        await page.get_by_role("button", name="Search").click()
        await page.get_by_role("combobox").press_sequentially("ac")
        await until(lambda: held, "the request")
        await page.keyboard.press("ArrowDown")
        await held.pop().continue_()
        await page.get_by_text("Enter opens").wait_for()
        await page.keyboard.press("Enter")
        await wait_for_title(page, "Accounts")
        await site.close()
        assert site.witness.faults == []

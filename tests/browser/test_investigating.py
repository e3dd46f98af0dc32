"""An operator finds out what happened: who spent most today, and why a call failed."""

from __future__ import annotations

import pytest

from tests.browser.kit import Site, go, open_call, read_table, wait_for_title
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def make_call(console: Console, name: str) -> str:
    made = await console.post(f"{API}/keys", {"name": "support"}, as_=name)
    reply = await console.complete(made.json["secret"])
    return reply.headers["x-request-id"]


async def test_who_spent_most_today_stands_first(site: Site, console: Console) -> None:
    await make_call(console, OTHER)
    page = await site.open("accounts")
    async with page.expect_response("**/accounts?sort=spent_today*"):
        await page.get_by_label("Sort by").select_option("spent_today")
    await page.locator("main:not([aria-busy])").wait_for()
    rows = await read_table(page, "Accounts")
    spent = [float(row["Today, USD"]) for row in rows]
    assert spent == sorted(spent, reverse=True)
    assert spent[0] > 0


async def test_a_movement_leads_to_its_call(site: Site, console: Console) -> None:
    """From an account's page, and from the holder's own billing."""
    request_id = await make_call(console, OTHER)
    for who, path in ((OPERATOR, f"accounts/{OTHER}"), (OTHER, "billing")):
        page = await site.open(path, who)
        await page.get_by_role("link", name=request_id).click()
        await wait_for_title(page, "Call")
        text = await page.inner_text("main")
        assert request_id in text
        assert "The reply is complete." in text
        assert page.url.endswith(f"/console/activity/{request_id}")


async def test_calls_are_filtered_by_account_and_outcome(site: Site, console: Console) -> None:
    request_id = await make_call(console, HOLDER)
    page = await site.open("activity")
    await page.get_by_label("Account", exact=True).fill(HOLDER)
    await page.keyboard.press("Enter")
    await page.wait_for_url(f"**account={HOLDER}**")
    await page.get_by_role("link", name=request_id).wait_for()
    async with page.expect_response("**/activity?*outcome=failed*"):
        await page.get_by_label("Outcome").select_option("failed")
    await page.get_by_text("No calls match these filters.").wait_for()


async def test_who_has_no_such_call_is_told_why(site: Site, console: Console) -> None:
    own_id, request_id = await make_call(console, HOLDER), await make_call(console, OTHER)
    page = await site.open("", HOLDER)
    with site.witness.expecting(404):
        await go(page, f"activity/{request_id}")
    text = await page.inner_text("main")
    assert "There is no call of that request id" in text
    assert "refused before it began" in text
    assert await open_call(page) == own_id

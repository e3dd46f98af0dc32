"""Pages that are looked at show what happens, and take nothing out of anybody's hands."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, Request, expect

from gateway.base.ids import digest, make_request_id
from gateway.extras.live_pages import renewer
from gateway.ledger.base import Hold
from tests.extras.console.browser.kit import Site, Witness, go
from tests.extras.console.kit import API, Console, open_console
from tests.ledger.contract.kit import admission, settlement
from tests.support.served import HOLDER, OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PAUSE: Final = 5_000
"""Milliseconds between two looks of a page."""


@pytest_asyncio.fixture(loop_scope="session")
async def site(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Site]:
    monkeypatch.setattr(renewer, "SHARED_SECONDS", -1.0)  # the pages' clock is faster
    async with open_console(tmp_path) as console:
        site = Site(browser, console, Witness(console.root_url))
        yield site
        await site.close()
        assert site.witness.faults == []


async def begin(console: Console, name: str = HOLDER) -> Hold:
    """Begin a call of an account."""
    ledger = console.gateway.ledger
    key = ledger.find_key(digest(await console.add_key(name)))
    assert key is not None
    now_ms = ledger.clock()
    made = ledger.hold(key, admission(started_ms=now_ms, id_=make_request_id(now_ms)))
    await ledger.wait_admitted(made)
    return made


async def end(console: Console, hold: Hold) -> None:
    ledger = console.gateway.ledger
    await ledger.settle(hold, replace(settlement(77), ended_ms=ledger.clock()))


async def look(site: Site, path: str, as_: str = OPERATOR) -> Page:
    """Open a page whose clock is the test's."""
    context = await site.enter(as_)
    page = await context.new_page()
    await page.clock.install()
    await go(page, path)
    await page.get_by_role("button", name="Live").wait_for()
    await pause(page)  # the first look has nothing to compare with
    return page


async def pause(page: Page) -> None:
    """Let the page look again, and wait until it waits for its next look."""
    button = page.locator(".live button")
    told = await button.get_attribute("title")
    async with page.expect_response(f"**{API}/live"):
        await page.clock.run_for(PAUSE)
    # It says as of when the page is, right before it waits. Until then another pause would be lost.
    await expect(button).not_to_have_attribute("title", told or "")


async def test_a_call_in_flight_appears_and_ends(site: Site) -> None:
    page = await look(site, "activity")
    await expect(page.get_by_text("No calls yet")).to_be_visible()
    hold = await begin(site.console)
    await pause(page)
    row = page.locator("tbody tr")
    await expect(row).to_contain_text("in flight")
    await expect(page.get_by_role("link", name="1 call in flight")).to_be_visible()
    link = row.get_by_role("link").first
    await link.focus()
    await row.evaluate("(one) => { one.marked = true; }")
    other = await begin(site.console, OPERATOR)
    await end(site.console, hold)
    await pause(page)
    await expect(row).to_have_count(2)
    await expect(row.nth(1)).to_contain_text("done")
    await expect(link.first).not_to_be_focused()
    assert await row.nth(1).evaluate("(one) => one.marked && one.contains(document.activeElement)")
    await end(site.console, other)


async def test_what_somebody_has_in_hand_stays(site: Site) -> None:
    """A form that is being filled, the focus, what is folded open, a dialog, selected text."""
    console = site.console
    await end(console, await begin(console))
    page = await look(site, "activity")
    field = page.get_by_label("Request id", exact=True)
    await field.press_sequentially("req_half")
    await end(console, await begin(console))
    await pause(page)
    await expect(page.locator("tbody tr")).to_have_count(2)
    await expect(field).to_have_value("req_half")
    await expect(field).to_be_focused()
    own = await look(site, "", HOLDER)
    details, calls = own.locator("details"), own.get_by_role("region", name="Latest calls")
    await details.locator("summary").click()
    await end(console, await begin(console))
    await pause(own)
    await expect(calls.locator("tbody tr")).to_have_count(3)
    assert await details.get_attribute("open") is not None
    await go(page, "accounts/holder")
    await pause(page)
    await page.get_by_role("button", name="Correct").click()
    await page.locator("dialog[open]").wait_for()
    await rest(page)
    await page.keyboard.press("Escape")
    selected, balance = page.locator(".balance"), page.locator(".balance .big")
    await selected.evaluate("(one) => getSelection().selectAllChildren(one)")
    before = await page.evaluate("String(getSelection())")
    shown = await balance.text_content()
    with console.open_books() as books:
        books.entries.credit(HOLDER, 10**9)
    await pause(page)
    assert await page.evaluate("String(getSelection())") == before
    await selected.evaluate("(one) => getSelection().removeAllRanges()")
    with console.open_books() as books:
        books.entries.credit(HOLDER, 10**9)
    await pause(page)
    await expect(balance).not_to_have_text(shown or "")


async def test_rows_stay_under_the_pointer_of_who_scrolled_to_them(site: Site) -> None:
    """Also where the browser itself, as Safari, does not keep them there. At the top new rows come into view."""
    for _ in range(12):
        await end(site.console, await begin(site.console))
    page = await look(site, "activity")
    await page.evaluate("document.documentElement.style.overflowAnchor = 'none'")
    rows = page.locator("tbody tr")
    request_id = await rows.nth(6).locator("a.mono").inner_text()
    await page.evaluate("scrollTo(0, 400)")
    row = rows.filter(has_text=request_id)
    await row.hover()
    before = await row.evaluate("(one) => one.getBoundingClientRect().top")
    await end(site.console, await begin(site.console))
    await pause(page)
    await expect(rows).to_have_count(13)
    after = await row.evaluate("(one) => one.getBoundingClientRect().top")
    assert abs(after - before) < 1, "a browser scrolls by whole pixels"


async def test_trends_of_a_span_that_ends_now_are_renewed_once_a_minute(site: Site) -> None:
    pytest.importorskip("gateway.extras.trends")
    await end(site.console, await begin(site.console))
    page = await look(site, "trends")
    details = page.locator("details.steps")
    await details.locator("summary").click()
    calls = page.locator(".figures div", has_text="Calls").locator("dd").first
    await end(site.console, await begin(site.console))
    await pause(page)
    await expect(calls).to_contain_text("1")
    for _ in range(11):
        await pause(page)
    await expect(calls).to_contain_text("2")
    assert await details.get_attribute("open") is not None
    await expect(details.locator("tbody td[data-label=Calls]").last).to_contain_text("2")
    await go(page, "trends?day=2026-01-01")
    await expect(page.get_by_role("button", name="Live")).to_have_count(0)


async def rest(page: Page) -> None:
    """Let the pause pass without a look."""
    looks: list[str] = []

    def note(request: Request) -> None:
        looks.append(request.url)

    page.on("request", note)
    await page.clock.run_for(PAUSE)
    await page.evaluate(f"fetch('{API}/session')")  # what was asked for before has come
    page.remove_listener("request", note)
    assert [one for one in looks if one.endswith("/live")] == []


async def test_ids_that_nobody_has_are_not_asked_for_again(site: Site) -> None:
    """The page says so once; another filter makes it live again."""
    context = await site.enter(OPERATOR)
    page = await context.new_page()
    await page.clock.install()
    with site.witness.expecting(404):
        await go(page, "activity?request_id=req_nobody")
    await expect(page.get_by_text("No call has that request id")).to_be_visible()
    await expect(page.get_by_role("button", name="Live")).to_have_count(0)
    await rest(page)
    await go(page, "activity?key=key_nobody")
    await expect(page.get_by_text("No calls match these filters")).to_be_visible()
    await page.get_by_role("button", name="Live").wait_for()
    await pause(page)


async def test_a_look_that_fails_keeps_the_page_and_says_since_when(site: Site) -> None:
    page = await look(site, "providers", OPERATOR)
    await page.route(f"**{API}/live", lambda route: route.abort())
    site.witness.is_absent = True
    await page.clock.run_for(PAUSE)
    await expect(page.locator(".live")).to_contain_text("not renewed since")
    await expect(page.locator("tbody tr").first).to_be_visible()
    await page.unroute(f"**{API}/live")
    await pause(page)
    await expect(page.locator(".live")).to_have_text("Live")
    site.witness.faults.clear()  # Chromium's word for what was broken off


async def test_it_is_stopped_and_goes_on(site: Site) -> None:
    page = await look(site, "refusals")
    button = page.locator(".live button")
    await button.click()
    await expect(button).to_have_text(re.compile(r"^Paused, \d\d:\d\d UTC$"))
    await go(page, "refusals")
    await expect(button).to_have_attribute("aria-pressed", "false")
    await rest(page)
    async with page.expect_response(f"**{API}/live"):
        await button.click()
    await pause(page)

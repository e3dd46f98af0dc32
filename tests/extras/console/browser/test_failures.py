"""The page explains restarts, a locked database, malformed replies and refused requests, and shows nothing outdated."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Final

import pytest
from playwright.async_api import Page, Route, expect

from gateway.extras.observations.book import ObservationBook
from tests.extras.console.browser.kit import Site, go, move, settle, wait_for_title
from tests.extras.console.kit import API, Console
from tests.support.process import GatewayProcess
from tests.support.rows import told_together
from tests.support.served import HOLDER, OPERATOR, OTHER
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FAILED: Final = "Not available just now"
INNARDS: Final = ("Traceback", "sqlite", "Error:", ".py", "undefined", "[object", " at ")


async def assert_friendly(page: Page) -> None:
    """Check for a sentence and a way to go on, without internal details."""
    await settle(page)
    await wait_for_title(page, FAILED)
    text = await page.inner_text("main")
    assert [one for one in INNARDS if one in text] == []
    assert await page.get_by_role("button", name="Try again").is_visible()
    assert await page.get_by_role("alert").inner_text()


@contextmanager
def stopped(process: GatewayProcess) -> Iterator[None]:
    process.stop()
    try:
        yield
    finally:
        process.start()


async def test_page_and_form_go_on_after_a_restart_of_the_gateway(
    site: Site, console: Console
) -> None:
    """The page reports that the gateway is away, and goes on where it was; what was typed stays."""
    page, form = [await site.open(path, HOLDER) for path in ("keys", "keys?new=1")]
    dialog = form.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("patient")
    process = console.process
    with site.witness.expecting(503, absent=True), stopped(process):
        await page.get_by_role("link", name="Usage").click()
        await assert_friendly(page)
        await page.get_by_role("button", name="Try again").click()
        await assert_friendly(page)
        await dialog.get_by_role("button", name="Create key").click()
        await dialog.get_by_role("alert").get_by_text("does not answer").wait_for()
    await page.get_by_role("button", name="Try again").click()
    await wait_for_title(page, "Usage")
    assert page.url == f"{site.home}/console/usage"
    assert await dialog.get_by_label("Name").input_value() == "patient"
    await dialog.get_by_role("button", name="Create key").click()
    await wait_for_title(form, "Key created")


async def test_a_locked_database_can_be_read(site: Site, console: Console) -> None:
    """While another process holds the lock, reading works and writing gets a clear error."""
    page = await site.open("keys?new=1", HOLDER)
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("waiting")
    with closing(sqlite3.connect(console.database, timeout=5)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        page.set_default_timeout(20_000)
        with site.witness.expecting(503):
            await dialog.get_by_role("button", name="Create key").click()
            alert = dialog.get_by_role("alert")
            await alert.get_by_text("try again").wait_for()
        other = await site.enter(None)
        reply = await other.request.get("/console/")
        assert reply.status == 200
        connection.rollback()
    await dialog.get_by_role("button", name="Create key").click()
    await wait_for_title(page, "Key created")


USAGE: Final = {
    "by": "model",
    "from": "2026-01-01",
    "to": "2026-01-02",
    "rows": [],
    "chart": {"unit": "day", "points": []},
    "error": {"message": "The range is wrong."},
}
BAD_ANSWERS: Final = {
    503: '{"error": {"message": "The ledger cannot be used just now.", "code": "x"}}',
    500: "<h1>Internal Server Error</h1>Traceback (most recent call last)",
    502: "",
    200: "not JSON",
}


async def test_a_bad_answer_is_shown_as_a_sentence(site: Site) -> None:
    """Whatever a proxy makes of a reply, the page shows a sentence for it."""
    page = await site.open("", HOLDER)

    async def play(status: int, body: str) -> None:
        async def answer(route: Route) -> None:
            await route.fulfill(status=status, body=body, content_type="application/json")

        await move(page, "")
        await page.route(f"**{API}/billing?**", answer)
        await page.route(f"**{API}/billing", answer)
        with site.witness.expecting(status):
            await page.get_by_role("link", name="Billing").click()
            await assert_friendly(page)
        await page.unroute_all()
        await page.get_by_role("button", name="Try again").click()
        await wait_for_title(page, "Billing")

    with told_together() as row:
        for status, body in BAD_ANSWERS.items():
            with row(f"{status} {body}"):
                await play(status, body)


async def test_a_late_reply_does_not_replace_that_to_a_later_choice(site: Site) -> None:
    page, held = await site.open("usage", HOLDER), list[Route]()
    for status in (200, 400):
        await page.route("**/usage?by=model*", lambda route: held.append(route), times=1)  # noqa: PLW0108
        await page.get_by_label("Table by").select_option("model")
        await until(lambda: held, "the first request")
        await page.get_by_label("Table by").select_option("key")
        await page.get_by_role("heading", name="By key").wait_for()
        with site.witness.expecting(400):
            async with page.expect_response("**/usage?by=model*") as reply:
                await held.pop().fulfill(status=status, json=USAGE)
            await (await reply.value).finished()
        await page.evaluate("() => new Promise((done) => setTimeout(done))")
        assert await page.get_by_role("heading", name="By key").is_visible()
        await page.get_by_label("Table by").select_option("day")


async def test_another_sign_in_of_the_browser_shows_in_all_tabs(
    site: Site, console: Console
) -> None:
    context = await site.enter(HOLDER)
    first, second = [await context.new_page() for _ in range(2)]
    await go(first, "keys")
    await go(second, f"signin#token={console.make_link_token(OTHER)}")
    await second.get_by_role("button", name="Sign in with this link").click()
    await first.locator(".who").get_by_text(OTHER, exact=True).wait_for()


async def test_a_page_that_is_left_takes_along_what_a_dialog_shows(site: Site) -> None:
    """Browsers may keep it for the step back. The headless one does not, so it is told so."""
    page = await site.open("accounts/other", OPERATOR)
    await page.get_by_role("button", name="Sign-in link").click()
    await page.get_by_role("button", name="Make a link").click()
    await page.get_by_role("textbox", name="Link").wait_for()
    await page.evaluate("dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true }))")
    await expect(page.locator("dialog")).to_have_count(0)
    assert "gwl_" not in await page.content()


async def test_a_search_finds_a_refused_request(site: Site, console: Console) -> None:
    """For its holder, and by the link in the list of refusals for operators."""
    made = await console.post(f"{API}/keys", {"name": "support"}, as_=HOLDER)
    await console.complete(made.json["secret"])  # without calls there is nothing to search
    refused = await console.complete(made.json["secret"], model="no/such")
    request_id = refused.headers["x-request-id"]

    def is_kept() -> bool:
        with console.open_books() as books:
            latest = ObservationBook(books).read_refused(None, 0, 1)
        return [one.request_id for one in latest] == [request_id]

    await until(is_kept, "the refusal")
    page = await site.open("activity", HOLDER)
    await page.get_by_label("Request id").fill(f" {request_id} ")
    await page.keyboard.press("Enter")
    await page.get_by_text("model_not_found").wait_for()
    text = await page.inner_text("main")
    assert "refused this request" in text
    assert "no/such" in text
    assert "There is no model of that name" in text
    assert re.search(r"Key\s+support sk-ru-…", text)
    await move(page, "")
    told = page.locator(".notice", has_text="Refused today")
    await expect(told).to_contain_text(re.compile(r"1 × model_not_found, by key support ….{4} \("))
    await told.get_by_role("link", name="the last").click()
    await page.get_by_text("There is no model of that name").wait_for()
    page = await site.open("refusals", OPERATOR)
    await page.get_by_role("link", name=request_id).click()
    await wait_for_title(page, "Call")
    await page.get_by_text("no/such").wait_for()

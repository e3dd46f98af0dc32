"""B13: a session that idles out, is ended elsewhere, or whose password changes leads to the sign-in,
and from there back to where one was.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from console_kit import HOLDER, OPERATOR, Console
from playwright.async_api import Page

from browser.kit import Site, go, settle, wait_for_title
from gateway import signin

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PASSWORD: Final = "a long password, for tests"
MONTH_MS: Final = 31 * 86_400_000


def set_password(console: Console, name: str, password: str = PASSWORD) -> None:
    with console.open_books() as books:
        signin.set_password(books, name, password)


def idle_out(database: Path) -> None:
    """All sessions were last used a month ago."""
    with closing(sqlite3.connect(database, timeout=5)) as connection, connection:
        connection.execute("UPDATE sessions SET last_seen_ms = last_seen_ms - ?", (MONTH_MS,))


async def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    await wait_for_title(page, "Sign in")
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def test_b13_idle_session_comes_back(site: Site, console: Console) -> None:
    set_password(console, HOLDER)
    page = await site.open("keys", HOLDER)
    idle_out(console.database)
    with site.witness.expecting(401):
        await page.get_by_role("link", name="Billing").click()
        await sign_in(page, HOLDER)
        await wait_for_title(page, "Billing")
    assert page.url == f"{site.home}/console/billing"


async def test_b13_filters_survive_the_sign_in(site: Site, console: Console) -> None:
    """The way back is the whole address, from a reload too."""
    set_password(console, HOLDER)
    page = await site.open("usage?by=model&show=tokens", HOLDER)
    idle_out(console.database)
    with site.witness.expecting(401):
        await page.reload()
        await sign_in(page, HOLDER)
        await wait_for_title(page, "Usage")
    assert page.url == f"{site.home}/console/usage?by=model&show=tokens"
    assert await page.get_by_label("Table by").input_value() == "model"


async def test_b13_session_ends_under_a_form(site: Site, console: Console) -> None:
    """A form that is sent too late changes nothing, and its dialog goes away with its page."""
    set_password(console, HOLDER)
    page = await site.open("keys?new=1", HOLDER)
    await page.get_by_role("dialog").get_by_label("Name").fill("too late")
    idle_out(console.database)
    with site.witness.expecting(401):
        await page.get_by_role("button", name="Create key").click()
        await wait_for_title(page, "Sign in")
    assert await page.get_by_role("dialog").count() == 0
    await sign_in(page, HOLDER)
    await wait_for_title(page, "Keys")
    assert await page.get_by_text("too late").count() == 0


async def test_b13_revoked_elsewhere(site: Site, console: Console) -> None:
    set_password(console, HOLDER)
    here = await site.open("activity", HOLDER)
    elsewhere = await site.open("settings", HOLDER)
    await elsewhere.get_by_role("button", name="Sign out everywhere else").click()
    await elsewhere.get_by_role("button", name="Sign out everywhere else").wait_for(
        state="detached"
    )
    with site.witness.expecting(401):
        await here.get_by_role("link", name="Models").click()
        await sign_in(here, HOLDER)
        await wait_for_title(here, "Models")
    await go(elsewhere, "settings")
    sessions = elsewhere.get_by_role("table", name="Sessions").get_by_role("row")
    assert await sessions.count() == 3  # the heads, this one, the one that came back


async def test_b13_password_change(site: Site, console: Console) -> None:
    """On the page itself: the own session goes on under a new id, all others end."""
    set_password(console, HOLDER)
    here = await site.open("signin", None)
    await sign_in(here, HOLDER)
    await wait_for_title(here, "Overview")
    elsewhere = await site.open("keys", HOLDER)
    before = await here.context.cookies()
    await here.get_by_role("link", name="Settings").click()
    await here.get_by_label("Current password").fill("not the password")
    await here.get_by_label("New password").fill("another long password")
    with site.witness.expecting(403):
        await here.get_by_role("button", name="Save password").click()
        await here.get_by_role("alert").get_by_text("The current password is wrong.").wait_for()
    await here.get_by_label("Current password").fill(PASSWORD)
    await here.get_by_role("button", name="Save password").click()
    await here.get_by_text("The password is saved.").first.wait_for()
    assert (await here.context.cookies())[0]["value"] != before[0]["value"]
    await here.reload()
    await settle(here)
    await wait_for_title(here, "Settings")
    with site.witness.expecting(401):
        await elsewhere.get_by_role("link", name="Overview").click()
        await sign_in(elsewhere, HOLDER)
        wrong = elsewhere.get_by_role("alert").get_by_text("Name or password is wrong")
        await wrong.wait_for()
        await elsewhere.get_by_label("Password").fill("another long password")
        await elsewhere.get_by_role("button", name="Sign in").click()
        await wait_for_title(elsewhere, "Overview")


async def test_b13_signing_out(site: Site) -> None:
    """The way back of a browser shows nothing of the one who left."""
    page = await site.open("billing", OPERATOR)
    with site.witness.expecting(401):
        await page.get_by_role("button", name="Sign out").click()
        await wait_for_title(page, "Sign in")
        await page.go_back()
        await wait_for_title(page, "Sign in")
    assert await page.context.cookies() == []


async def test_b13_used_link(site: Site, console: Console) -> None:
    """A link works once, and previews of it do not use it up."""
    token = console.make_link_token(OPERATOR)
    preview = await site.open(f"signin#token={token}", None)
    assert token not in preview.url
    page = await site.open(f"signin#token={token}", None)
    await page.get_by_role("button", name="Sign in with this link").click()
    await wait_for_title(page, "Overview")
    with site.witness.expecting(401):
        await preview.get_by_role("button", name="Sign in with this link").click()
        await preview.get_by_role("alert").get_by_text("This link does not work").wait_for()
    await preview.get_by_role("link", name="Use a password instead").click()
    await preview.get_by_label("Password").wait_for()

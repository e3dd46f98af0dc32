"""Ended sessions lead to the sign-in and back: expired, ended elsewhere, new password."""

from __future__ import annotations

import base64
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest
from playwright.async_api import Page

from gateway.admin import signin
from gateway.times import unix_ms
from tests.browser.kit import HEIGHT, NARROW, WIDE, Site, go, settle, wait_for_title
from tests.browser.test_accessible import inspect
from tests.console.kit import HOLDER, OPERATOR, Console

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

PASSWORD: Final = "a long password, for tests"
MONTH_MS: Final = 31 * 86_400_000


def set_password(console: Console, name: str, password: str = PASSWORD) -> None:
    with console.open_books() as books:
        signin.set_password(books, name, password)


def idle_out(database: Path) -> None:
    """Make the last use of all sessions a month old."""
    with closing(sqlite3.connect(database, timeout=5)) as connection, connection:
        connection.execute("UPDATE sessions SET last_seen_ms = last_seen_ms - ?", (MONTH_MS,))


async def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    await wait_for_title(page, "Sign in")
    await page.get_by_label("Name").fill(name)
    await page.get_by_label("Password").fill(password)
    await page.get_by_role("button", name="Sign in").click()


async def test_filters_survive_the_sign_in(site: Site, console: Console) -> None:
    """After the sign-in the whole address is restored, also after a reload."""
    set_password(console, HOLDER)
    page = await site.open("usage?by=model&show=tokens", HOLDER)
    idle_out(console.database)
    with site.witness.expecting(401):
        await page.reload()
        await sign_in(page, HOLDER)
        await wait_for_title(page, "Usage")
    assert page.url == f"{site.home}/console/usage?by=model&show=tokens"
    assert await page.get_by_label("Table by").input_value() == "model"


async def test_a_form_sent_after_the_session_changes_nothing(site: Site, console: Console) -> None:
    """A form that is sent too late changes nothing, and its dialog closes."""
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


async def test_a_password_change_ends_the_other_sessions(site: Site, console: Console) -> None:
    """The own session continues under a new id, all others end."""
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


async def test_signing_out_leaves_nothing_behind_the_back_button(site: Site) -> None:
    """The browser's back button shows nothing of the account that signed out."""
    page = await site.open("billing", OPERATOR)
    with site.witness.expecting(401):
        await page.get_by_role("button", name="Sign out").click()
        await wait_for_title(page, "Sign in")
        await page.go_back()
        # The page before has the same title, and stays until the session is found to be over.
        await page.wait_for_url("**/signin?next=*")
        await wait_for_title(page, "Sign in")
    assert await page.context.cookies() == []


async def test_a_used_link_is_refused(site: Site, console: Console) -> None:
    """A link works once, and previews of it do not use it up."""
    token = console.make_link_token(OPERATOR)
    preview = await site.open(f"signin#token={token}", None)
    assert token not in preview.url
    page = await site.open(f"signin#token={token}", None)
    await page.get_by_role("button", name="Sign in with this link").click()
    await wait_for_title(page, "Overview")
    with site.witness.expecting(401):
        await preview.get_by_role("button", name="Sign in with this link").click()
        await preview.get_by_role("alert").get_by_text("This link is not valid").wait_for()
    await preview.get_by_role("link", name="Use a password instead").click()
    await preview.get_by_label("Password").wait_for()


async def test_somebody_is_let_in_and_removed(site: Site) -> None:
    """By a link from Settings; the corner then names the person, and the removal ends the session."""
    page = await site.open("settings", HOLDER)
    await page.get_by_role("button", name="Let somebody in").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("dana")
    await page.get_by_role("button", name="Make a link").click()
    dialog = page.get_by_role("dialog").filter(has=page.get_by_label("Link"))
    address = await dialog.get_by_label("Link").input_value()
    faults: dict[str, Any] = await inspect(page, "link")
    await dialog.get_by_role("button", name="Done").click()
    await page.get_by_text("link until").wait_for()
    hers = await site.open(address.partition("/console/")[2], None)
    await hers.get_by_role("button", name="Sign in with this link").click()
    await hers.get_by_text(f"{HOLDER}/dana").wait_for()
    await go(hers, "settings")
    await hers.get_by_label("New password").fill(PASSWORD)
    await hers.get_by_role("button", name="Save password").click()
    await hers.get_by_text("The password is saved.").first.wait_for()
    assert await hers.get_by_role("button", name="Let somebody in").count() == 0
    await page.reload()
    await page.get_by_role("button", name=f"Remove {HOLDER}/dana").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await page.get_by_text(f"{HOLDER}/dana", exact=True).wait_for(state="detached")
    with site.witness.expecting(401):
        await hers.get_by_role("link", name="Keys").click()
        await wait_for_title(hers, "Sign in")
    assert faults == {}


def show_code(secret: str, steps: int = 0) -> str:
    return signin.compute_code(base64.b32decode(secret), unix_ms() // signin.STEP_MS + steps)


async def test_one_time_codes_are_set_up_asked_for_and_removed(
    site: Site, console: Console
) -> None:
    """Key and recovery codes are shown once; a sign-in asks for a code after the password."""
    set_password(console, OPERATOR)
    page = await site.open("settings", OPERATOR)
    faults: dict[str, Any] = await inspect(page, "settings")
    await page.get_by_role("button", name="Set up").click()
    await page.get_by_role("dialog").get_by_role("button", name="Show the key").click()
    dialog = page.get_by_role("dialog").filter(has=page.get_by_label("Key"))
    secret = await dialog.get_by_label("Key").input_value()
    link = dialog.get_by_role("link", name="open it there")
    assert secret in str(await link.get_attribute("href"))
    faults |= await inspect(page, "key")
    with site.witness.expecting(403):
        await dialog.get_by_label("Code").fill("000000")
        await dialog.get_by_role("button", name="Turn on").click()
        await dialog.get_by_role("alert").get_by_text("This code is wrong").wait_for()
    await dialog.get_by_label("Code").fill(show_code(secret))
    await dialog.get_by_role("button", name="Turn on").click()
    await wait_for_title(page, "One-time codes are on")
    faults |= await inspect(page, "recovery codes")
    recovery = await page.locator("main li code").all_inner_texts()
    assert len(recovery) == 10
    await page.get_by_role("button", name="I stored them").click()
    await page.get_by_text("10 recovery codes left").wait_for()
    shown = await page.content()
    assert not any(one in shown for one in (secret, *recovery))
    faults |= await inspect(page, "set up")
    await page.set_viewport_size({"width": WIDE, "height": HEIGHT})
    await page.get_by_role("button", name="Sign out", exact=True).click()
    with site.witness.expecting(401, 403):
        await sign_in(page, OPERATOR)
        await page.get_by_label("Code").fill("000000")
        faults |= await inspect(page, "code")
        await page.get_by_role("button", name="Sign in").click()
        await page.get_by_role("alert").get_by_text("This code is wrong").wait_for()
        await page.get_by_label("Code").fill(recovery[0])
        await page.get_by_role("button", name="Sign in").click()
        await wait_for_title(page, "Overview")
    await go(page, "settings")
    await page.get_by_role("button", name="Remove").click()
    await page.get_by_role("dialog").get_by_label("Code").fill(show_code(secret, 1))
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await page.get_by_role("button", name="Set up").wait_for()
    assert faults == {}


async def test_who_lets_others_in_signs_in_again(site: Site, console: Console) -> None:
    """In a dialog over the form, which then goes on; without it the form says what it lacks."""
    set_password(console, OPERATOR)
    page = await site.open("tokens", OPERATOR, viewport={"width": NARROW, "height": 700})
    with closing(sqlite3.connect(console.database, timeout=5)) as connection, connection:
        connection.execute("UPDATE sessions SET created_ms = created_ms - 600001")
    await page.get_by_role("button", name="Add a token").click()
    await page.get_by_role("dialog").get_by_label("Name").fill("late")
    again = page.get_by_role("dialog", name="Sign in again")
    with site.witness.expecting(403):
        await page.get_by_role("button", name="Add token").click()
        await again.get_by_label("Password").wait_for()
        assert await inspect(page, "again") == {}
        await again.get_by_role("button", name="Cancel").click()
        await page.get_by_role("alert").get_by_text("Sign in again for this").wait_for()
        await page.get_by_role("button", name="Add token").click()
        await again.get_by_label("Password").fill(PASSWORD)
        await again.get_by_role("button", name="Sign in").click()
        await wait_for_title(page, "Token added")
    await page.get_by_role("button", name="I stored it").click()
    await wait_for_title(page, "Tokens")

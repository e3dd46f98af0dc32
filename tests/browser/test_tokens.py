"""Tokens in the page: shown once, revoked with a question; and the page behind a proxy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from tests.browser.kit import Site, go, read_table, read_title, wait_for_title
from tests.browser.test_accessible import inspect
from tests.console.kit import API, OPERATOR, Console, find_bytes, start_console

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HEADER = "Remote-User"
SERVER = f'trusted_proxies = ["127.0.0.1"]\n[console]\nidentity_header = "{HEADER}"\n'
"""The browser stands in for the proxy, as it comes from a trusted address."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with start_console(tmp_path_factory.mktemp("tokens"), server=SERVER) as console:
        yield console


async def test_a_token_is_shown_once_and_revoked(site: Site, console: Console) -> None:
    page = await site.open("tokens", OPERATOR)
    faults: dict[str, Any] = await inspect(page, "no tokens")
    await page.get_by_role("button", name="Add a token").click()
    dialog = page.get_by_role("dialog")
    faults |= await inspect(page, "dialog")
    await dialog.get_by_label("Name").fill("shop")
    await dialog.get_by_role("button", name="Add token").click()
    await wait_for_title(page, "Token added")
    faults |= await inspect(page, "token added")
    secret = await page.get_by_label("Token", exact=True).input_value()
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await console.get(f"{API}/accounts", as_=None, headers=headers)).status == 200
    await page.get_by_role("button", name="I stored it").click()
    await wait_for_title(page, "Tokens")
    assert secret not in await page.content()
    assert find_bytes(console.folder, secret) == []
    (row,) = await read_table(page, "Tokens")
    assert (row["Name"], row["Token"], row["Role"]) == ("shop", f"gwt_…{secret[-4:]}", "accounts")
    faults |= await inspect(page, "tokens")
    await page.get_by_role("button", name="Revoke shop").click()
    await page.get_by_role("dialog").get_by_role("button", name="Revoke token").click()
    await page.get_by_text("revoked").wait_for()
    assert (await console.get(f"{API}/accounts", as_=None, headers=headers)).status == 401
    assert faults == {}


async def test_behind_a_proxy_one_is_signed_in_and_signs_out_there(site: Site) -> None:
    context = await site.enter(None, extra_http_headers={HEADER: OPERATOR})
    page = await context.new_page()
    await go(page, "accounts")
    assert await read_title(page) == "Accounts"
    await go(page, "settings")
    assert await page.get_by_role("heading", name="Sessions").is_visible()
    assert not await page.get_by_label("New password").is_visible()
    await page.get_by_role("button", name="Sign out", exact=True).click()
    await wait_for_title(page, "Sign out")
    assert "so sign out there" in await page.locator("main").inner_text()
    assert await inspect(page, "sign out") == {}
    await page.get_by_role("link", name="To the overview").click()
    await wait_for_title(page, "Overview")
    assert await context.cookies() == []


async def test_an_unknown_name_is_told_so(site: Site) -> None:
    context = await site.enter(None, extra_http_headers={HEADER: "<b>stranger</b>"})
    page = await context.new_page()
    with site.witness.expecting(403):
        await go(page, "")
    assert await read_title(page) == "That did not work"
    text = await page.locator("main").inner_text()
    assert "signed you in as '<b>stranger</b>', but no account has this name" in text
    assert await inspect(page, "unknown") == {}

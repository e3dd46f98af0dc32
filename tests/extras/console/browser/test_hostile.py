"""Markup in names stays text; other sites change nothing; other accounts' ids are 404."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import pytest
import pytest_asyncio
from aiohttp import web
from aiohttp.test_utils import TestServer
from playwright.async_api import Page

from gateway.admin import keys
from gateway.base.money import NANO
from gateway.config.reader import read_value
from gateway.config.values import check_model_id
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.sql.books import Books
from tests.extras.console.browser.kit import HOLDER_PAGES, OPERATOR_PAGES, Site, go, move
from tests.extras.console.kit import API, Console, start_console
from tests.support.extras import find_modules
from tests.support.rows import told_together
from tests.support.served import HOLDER, OPERATOR, OTHER
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HOSTILE: Final = (
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    '"><svg onload=alert(1)>',
    "'-alert(1)-'",
    "javascript:alert(1)",
    "{{7*7}}${alert(1)}",
    "</title><script>alert(1)</script>",
    "../../%2e%2e/signin?next=//evil.example",
    "&lt;b&gt;&amp;",
    "<img src=x onerror=alert(1)//",  # ends at the next >, and is no pattern
)


def is_model_id(name: str) -> bool:
    """Tell whether gateway.toml takes the name: a pattern is none."""
    with contextlib.suppress(ValueError):
        read_value(check_model_id, name, "model_id")
        return True
    return False


MODEL_IDS: Final = [name for name in HOSTILE if is_model_id(name)]
MODELS: Final = "\n".join(
    f'[models.{json.dumps(name)}]\nroutes = ["demo/echo"]\nprice = "free"' for name in MODEL_IDS
)


def seed(books: Books) -> None:
    for name in HOSTILE:
        books.accounts.create(name, credit_nano=NANO, note=name)
        keys.add_key(books, HOLDER, KeyTerms(name=name))
        keys.add_key(books, name, KeyTerms(name=name))
        for module in find_modules("named").values():
            module.add_named(books, name)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    folder = tmp_path_factory.mktemp("hostile")
    text = f"top_up_text = {json.dumps(HOSTILE[1])}"
    async with start_console(folder, seed=seed, more=MODELS, billing=text) as console:
        yield console


async def assert_only_text(page: Page) -> None:
    """Check that the names created no element and no active attribute."""
    found = await page.evaluate(
        """() => [...document.querySelectorAll("img, iframe, object, embed, base, svg[onload]"),
            ...[...document.querySelectorAll("script")].filter((one) => !one.src),
            ...[...document.querySelectorAll("*")].filter((one) =>
                [...one.attributes].some(({ name, value }) =>
                    name.startsWith("on")
                        || (name !== "value" && /^\\s*javascript:/i.test(value)))),
        ].map((one) => one.outerHTML)"""
    )
    assert found == []


async def test_names_stay_text(site: Site) -> None:
    """Checked on every page that shows names, and on the pages of the accounts themselves."""
    page = await site.open("", HOLDER)
    for path in HOLDER_PAGES:
        with site.witness.expecting(404):
            await move(page, path)
        await assert_only_text(page)
    await move(page, "keys")
    shown = await page.locator("main").inner_text()
    assert [name for name in HOSTILE if name not in shown] == []
    await move(page, "models")
    shown = await page.locator("main").inner_text()
    assert [name for name in MODEL_IDS if name not in shown] == []
    await move(page, "billing")
    assert await page.locator(".words").first.inner_text() == HOSTILE[1]
    operator = await site.open("accounts", OPERATOR)
    for name in HOSTILE:
        await move(operator, "accounts")
        await operator.get_by_role("link", name=name, exact=True).click()
        await operator.locator("h1").get_by_text(name, exact=True).wait_for()
        assert await operator.title() == f"{name} · Gateway"
        await assert_only_text(operator)
    await operator.reload()
    await operator.locator("h1").get_by_text(HOSTILE[-1], exact=True).wait_for()
    for path in OPERATOR_PAGES:
        with site.witness.expecting(404):
            await move(operator, path)
        await assert_only_text(operator)


ELSEWHERE: Final = (
    *("//evil.example/", "https://evil.example", "/\\evil.example", "javascript:alert(1)"),
    *("/console/../../evil", "/console//evil.example", "%2f%2fevil.example"),
)


async def test_sign_in_leads_nowhere_else(site: Site, console: Console) -> None:
    page = await site.open("signin", None)
    with told_together() as row:
        for next_ in ELSEWHERE:
            with row(next_):
                await page.goto("about:blank")  # what still loads would be refused
                await page.context.clear_cookies()
                await go(page, f"signin?next={next_}#token={console.make_link_token(OTHER)}")
                await page.get_by_role("button", name="Sign in with this link").click()
                await page.locator("#nav").wait_for()
                assert page.url.startswith(f"{site.home}/console")


ATTACKS: Final = (
    ("/session", "{}"),
    ("/accounts", '{"name": "theirs", "operator": true}'),
    ("/accounts/1/credit", '{"amount": "1", "note": "x"}'),
)
"""Requests of each kind; tests/extras/console sends those of every route."""
SEND_FORM: Final = """([url, body]) => {
    const form = document.createElement("form");
    const field = document.createElement("input");
    Object.assign(form, { action: url, method: "POST", enctype: "text/plain" });
    field.name = body.slice(0, -1) + ', "x": "';
    field.value = '"}';
    form.append(field);
    document.body.append(form);
    form.submit();
}"""
SEND_FETCH: Final = """([url, body]) => fetch(url, {
    method: "POST", mode: "no-cors", credentials: "include", body,
}).catch(() => null)"""


@asynccontextmanager
async def serve_other_site() -> AsyncIterator[str]:
    """Serve another origin; `localhost` is also another site than the console's 127.0.0.1."""

    async def show(request: web.Request) -> web.Response:
        del request
        return web.Response(text="<!doctype html><title>Other</title>", content_type="text/html")

    app = web.Application()
    app.router.add_get("/", show)
    async with TestServer(app) as server:
        yield f"http://localhost:{server.port}/"


async def test_other_sites_change_nothing(site: Site, console: Console) -> None:
    """Forms and fetches of another origin, with an operator signed in: all get 403, as `test_dispatch` has it."""
    context = await site.enter(OPERATOR, watched=False)
    process = console.process
    refused = process.log.count("status=403")
    async with serve_other_site() as other:
        page = await context.new_page()
        for path, body in ATTACKS:
            await page.goto(other)
            await page.evaluate(SEND_FETCH, [f"{site.home}{API}{path}", body])
            await page.evaluate(SEND_FORM, [f"{site.home}{API}{path}", body])
            await page.wait_for_url(f"**{API}{path}")
            assert "This request came from another site" in await page.content()
    wanted = refused + 2 * len(ATTACKS)
    await until(lambda: process.log.count("status=403") == wanted, "every refusal in the log")

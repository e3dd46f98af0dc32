"""From a fresh clone to the first row under Usage; a key is shown once."""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import openai
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page

from tests.extras.console.browser.kit import (
    TIMEOUT_MS,
    Witness,
    download,
    go,
    read_table,
    wait_for_title,
)
from tests.support.process import START_SECONDS, GatewayProcess, free_port

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FRESH = """
[server]
port = {port}
[billing]
demo_credit = 5.00
[providers.demo]
dialect = "demo"
[models."demo/echo"]
routes = ["demo/echo"]
price = {{ input = 0.15, output = 0.60 }}
[models."a/embed"]
kind = "embedding"
routes = ["demo/embed"]
price = {{ input = 0.02 }}
"""
CLIPBOARD = ["clipboard-read", "clipboard-write"]


@pytest_asyncio.fixture(loop_scope="session")
async def fresh(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    """A gateway before its first start."""
    process = GatewayProcess(tmp_path, free_port())
    process.config.write_text(FRESH.format(port=process.port), encoding="utf-8")
    process.start()
    yield process
    process.stop()


def find_link(process: GatewayProcess) -> str:
    """Find the link in the file that the first start left for the operator alone."""
    path = process.folder / "gateway.db.first-key"
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        assert time.monotonic() < deadline, process.log
        time.sleep(0.02)
    assert path.stat().st_mode & 0o777 == 0o600
    match = re.search(r"http://\S+/console/signin#token=\S+", path.read_text())
    assert match, path.read_text()
    return match[0]


async def enter(page: Page, process: GatewayProcess) -> None:
    await page.goto(await asyncio.to_thread(find_link, process))
    await page.get_by_role("button", name="Sign in with this link").click()
    await wait_for_title(page, "Overview")


async def test_the_first_journey_ends_with_a_row_of_usage(
    browser: Browser, fresh: GatewayProcess
) -> None:
    """Sign-in link, key, copy, a request by a real SDK, its row on Usage, the CSV."""
    witness = Witness(fresh.root_url)
    context = await browser.new_context(base_url=fresh.root_url, permissions=CLIPBOARD)
    context.set_default_timeout(TIMEOUT_MS)
    page = await context.new_page()
    witness.watch(page)
    await enter(page, fresh)
    assert "token" not in page.url
    await page.get_by_role("link", name="Create a key").first.click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("laptop")
    await dialog.get_by_role("button", name="Create key").click()
    await wait_for_title(page, "Key created")
    await page.get_by_role("button", name="Copy", exact=True).first.click()
    await page.locator("#live", has_text="Copied").wait_for(state="attached")
    secret = await page.evaluate("navigator.clipboard.readText()")
    base_url = await page.get_by_label("Base URL").input_value()
    snippet = await page.locator("pre").first.inner_text()
    assert secret in snippet
    assert base_url in snippet
    async with openai.AsyncOpenAI(base_url=base_url, api_key=secret, max_retries=0) as client:
        reply = await client.chat.completions.create(
            model="demo/echo", messages=[{"role": "user", "content": "Hello from the journey"}]
        )
    assert reply.choices[0].message.content == "Hello from the journey"
    await page.get_by_role("button", name="I stored it").click()
    await page.get_by_role("navigation", name="Console").get_by_role("link", name="Usage").click()
    await wait_for_title(page, "Usage")
    rows = await read_table(page, "Usage by day")
    assert [row["Calls"] for row in rows] == ["1", "1"]
    text = await download(page, "CSV")
    assert f",{rows[0]['Cost, USD']}," in text.splitlines()[1]
    await context.close()
    assert witness.faults == []


async def make_key(page: Page, name: str, *models: str) -> str:
    await go(page, "keys")
    await page.get_by_role("button", name="Create a key").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill(name)
    for model in models:
        await dialog.get_by_label(model).check()
    await dialog.get_by_role("button", name="Create key").click()
    await wait_for_title(page, "Key created")
    return await page.get_by_label("Key", exact=True).input_value()


async def read_snippets(page: Page) -> dict[str, str]:
    snippets = {}
    for tab in await page.get_by_role("tab").all():
        await tab.click()
        snippets[await tab.inner_text()] = await page.locator("pre").first.inner_text()
    return snippets


async def test_snippets_use_what_the_key_may(browser: Browser, fresh: GatewayProcess) -> None:
    """A key for embeddings alone gets snippets that embed; they run as they are."""
    context = await browser.new_context(base_url=fresh.root_url)
    context.set_default_timeout(TIMEOUT_MS)
    page = await context.new_page()
    await enter(page, fresh)
    for models, tabs, said in (
        (["a/embed"], ["OpenAI", "LangChain", "curl"], '"object":"embedding"'),
        (
            ["demo/echo", "a/embed"],
            ["OpenAI", "Anthropic", "Claude Code", "Codex", "curl"],
            '"content":"Hello"',
        ),
    ):
        secret = await make_key(page, "vectors", *models)
        snippets = await read_snippets(page)
        assert list(snippets) == tabs
        assert all(secret in one and f'"{models[0]}"' in one for one in snippets.values())
        assert await run(sys.executable, "-c", snippets["OpenAI"])
        assert said in await run("sh", "-c", snippets["curl"])
    await context.close()


async def run(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    assert process.returncode == 0
    return out.decode()

"""Stopping an answer, and the code of a request, which is run as it stands."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest
from playwright.async_api import Route, expect

from tests.extras.console.browser.kit import Site
from tests.extras.console.kit import Console
from tests.support.served import HOLDER
from tests.support.waiting import until

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

HARD = """It's "one" `two` $HOME \\ {three} \u2028 <b>
ünd 'vier' \\'"""


async def test_an_answer_is_stopped_and_asked_for_again(site: Site, console: Console) -> None:
    secret = (await console.post("/console/api/keys", {"name": "trial"})).json["secret"]
    page = await site.open("try", HOLDER)
    held: list[Route] = []
    await page.route("**/v1/chat/completions", lambda route: held.append(route), times=1)  # noqa: PLW0108
    await page.get_by_label("Key").fill(secret)
    await page.get_by_label("Message").fill("one two")
    await page.get_by_role("button", name="Send", exact=True).click()
    await expect(page.get_by_role("button", name="Stop")).to_be_focused()
    await until(lambda: held, "the request")
    await page.get_by_role("button", name="Stop").click()
    await page.get_by_text("Stopped here").wait_for()
    await expect(page.get_by_role("button", name="Send again")).to_be_focused()
    assert await page.locator(".answer").is_hidden()
    await page.get_by_role("button", name="Send again").click()
    await page.locator(".facts").get_by_text("req_").wait_for()
    assert await page.locator(".answer").inner_text() == "one two"
    assert await page.get_by_role("button", name="Send again").count() == 0


async def test_long_code_scrolls_and_the_hint_leads_to_a_new_key(site: Site) -> None:
    page = await site.open("try", HOLDER)
    await page.get_by_text("The same request as").click()
    await page.get_by_role("tab", name="JavaScript").click()
    code = page.locator(".snippet pre")
    await code.evaluate("(pre) => pre.append('a turn\\n'.repeat(99))")
    shown, whole = await code.evaluate("(pre) => [pre.clientHeight, pre.scrollHeight]")
    assert shown < 400 < whole
    await page.get_by_role("link", name="make another").click()
    await expect(page.get_by_role("dialog").get_by_role("heading")).to_have_text("Create a key")


@pytest.mark.parametrize("stream", [True, False])
async def test_the_code_sends_the_same_request(site: Site, console: Console, stream: bool) -> None:
    """Python's and curl's; a text with all that their quotation could stumble over comes back as it was."""
    secret = (await console.post("/console/api/keys", {"name": "trial"})).json["secret"]
    page = await site.open("try", HOLDER)
    await page.get_by_text("Settings", exact=True).last.click()
    await page.get_by_label("Stream").set_checked(stream)
    await page.get_by_label("Temperature").fill("0.5")
    await page.get_by_label("Message").fill(HARD)
    await page.get_by_text("The same request as").click()
    for tab, program in (("Python", (sys.executable, "-c")), ("curl", ("sh", "-c"))):
        await page.get_by_role("tab", name=tab).click()
        text = await page.locator(".snippet pre").inner_text()
        assert secret not in text
        assert "temperature" in text
        assert ("stream" in text) is stream
        environ = {**os.environ, "GATEWAY_KEY": secret}
        run = await asyncio.create_subprocess_exec(*program, text, stdout=-1, env=environ)
        told = (await run.communicate())[0].decode()
        assert run.returncode == 0
        if tab == "Python":
            assert told == f"{HARD}\n"
        else:
            assert "data: [DONE]" in told if stream else '"total_tokens"' in told

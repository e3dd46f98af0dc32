"""A double click, a refresh or a lost reply moves money once."""

from __future__ import annotations

import pytest
from playwright.async_api import Route

from tests.browser.kit import Site, go, settle, wait_for_title
from tests.console.kit import API, HOLDER, OPERATOR, Console

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]


async def make_code(console: Console, key: str) -> str:
    terms = {"amount": "5", "count": 1}
    made = await console.post(f"{API}/codes", terms, as_=OPERATOR, key=key)
    code: str = made.json["codes"][0]
    return code


async def count_moves(console: Console, kind: str, as_: str = HOLDER) -> int:
    found: int = (await console.get(f"{API}/billing?kind={kind}", as_=as_)).json["count"]
    return found


async def lose(route: Route) -> None:
    """Let the gateway act, and lose its reply."""
    await route.fetch()
    await route.abort("connectionreset")


async def test_a_double_click_redeems_once(site: Site, console: Console) -> None:
    before = await count_moves(console, "code")
    page = await site.open("billing", HOLDER)
    await page.get_by_label("Top-up code").fill(await make_code(console, "double"))
    await page.get_by_role("button", name="Redeem", exact=True).dblclick()
    await page.get_by_text("$5.00 added.").first.wait_for()
    await page.reload()
    await settle(page)
    assert await count_moves(console, "code") == before + 1


async def test_a_code_whose_answer_was_lost_is_redeemed_once(site: Site, console: Console) -> None:
    """The gateway redeemed the code, but the reply was lost: the second try gets the same reply."""
    before = await count_moves(console, "code")
    page = await site.open("billing", HOLDER)
    await page.get_by_label("Top-up code").fill(await make_code(console, "lost"))

    await page.route(f"**{API}/billing/redeem", lose, times=1)
    with site.witness.expecting(absent=True):
        await page.get_by_role("button", name="Redeem", exact=True).click()
        await page.get_by_text("The gateway does not answer").first.wait_for()
    await page.get_by_role("button", name="Redeem", exact=True).click()
    await page.get_by_text("$5.00 added.").first.wait_for()
    assert await count_moves(console, "code") == before + 1


async def test_what_was_added_is_not_said_of_the_next_try(site: Site, console: Console) -> None:
    page = await site.open("billing", HOLDER)
    code = await make_code(console, "twice")
    field, redeem = page.get_by_label("Top-up code"), page.get_by_role("button", name="Redeem")
    await field.fill(code)
    await redeem.click()
    added = page.locator(".notice", has_text="$5.00 added.")
    await added.wait_for()
    await field.fill(code)
    with site.witness.expecting(400):
        await redeem.click()
        await page.get_by_text("You redeemed this code on").first.wait_for()
    assert await added.count() == 0


async def test_double_click_and_refresh_credit_once(site: Site, console: Console) -> None:
    page = await site.open(f"accounts/{HOLDER}", OPERATOR)
    before = await count_moves(console, "credit")
    await page.get_by_role("button", name="Credit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Amount, USD").fill("3")
    await dialog.get_by_label("Reason").fill("twice clicked")
    await dialog.get_by_role("button", name="Add credit").dblclick()
    await dialog.wait_for(state="detached")
    await page.get_by_text("twice clicked").wait_for()
    await page.reload()
    await settle(page)
    assert await page.get_by_text("twice clicked").count() == 1
    assert await count_moves(console, "credit") == before + 1


async def test_a_credit_whose_answer_was_lost_is_not_told_as_a_new_one(
    site: Site, console: Console
) -> None:
    before = await count_moves(console, "credit")
    page = await site.open(f"accounts/{HOLDER}", OPERATOR)
    await page.get_by_role("button", name="Credit", exact=True).click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Amount, USD").fill("4")
    await dialog.get_by_label("Reason").fill("lost on the way")
    await page.route(f"**{API}/accounts/*/credit", lose, times=1)
    with site.witness.expecting(absent=True):
        await dialog.get_by_role("button", name="Add credit").click()
        await page.get_by_text("The gateway does not answer").first.wait_for()
    await dialog.get_by_role("button", name="Add credit").click()
    told = page.locator(".notice", has_text="$4.00 was already posted on 2")
    await told.wait_for()
    assert "nothing was added by this one" in await told.inner_text()
    assert await count_moves(console, "credit") == before + 1


async def test_the_same_credit_again_is_meant(site: Site, console: Console) -> None:
    """A new dialog is a new credit, even with the same values."""
    before = await count_moves(console, "credit")
    page = await site.open(f"accounts/{HOLDER}", OPERATOR)
    for number in (1, 2):
        await page.get_by_role("button", name="Credit", exact=True).click()
        dialog = page.get_by_role("dialog")
        await dialog.get_by_label("Amount, USD").fill("1")
        await dialog.get_by_label("Reason").fill("the monthly one")
        await dialog.get_by_role("button", name="Add credit").click()
        await dialog.wait_for(state="detached")
        await page.get_by_text("the monthly one").nth(number - 1).wait_for()
    assert await count_moves(console, "credit") == before + 2


async def test_a_double_click_rotates_once(site: Site, console: Console) -> None:
    await console.post(f"{API}/keys", {"name": "spun"})
    page = await site.open("keys", HOLDER)
    await page.get_by_role("button", name="Rotate spun").click()
    await page.get_by_role("button", name="Rotate key").dblclick()
    await wait_for_title(page, "Key rotated")
    await page.reload()
    await settle(page)
    await go(page, "keys?status=all")
    keys = (await console.get(f"{API}/keys?status=all")).json["keys"]
    assert len([key for key in keys if key["name"] == "spun"]) == 2

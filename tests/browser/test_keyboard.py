"""Everything works by keyboard; the focus is visible and follows the reading order."""

from __future__ import annotations

import re
from typing import Final

import pytest
from playwright.async_api import Page

from tests.browser.kit import Site, go, wait_for_title
from tests.console.kit import HOLDER, OPERATOR, Console

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

MAX_STEPS: Final = 80
FOCUSED: Final = """() => {
    const one = document.activeElement;
    const label = one.labels?.[0]?.textContent ?? one.ariaLabel ?? one.textContent;
    const style = getComputedStyle(one);
    const box = one.getBoundingClientRect();
    return {
        tag: one.tagName, name: label.trim(), order: one.tabIndex,
        seen: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
        inside: box.bottom > 0 && box.top < innerHeight && box.width > 0,
    };
}"""


async def tab_to(page: Page, name: str) -> None:
    """Press Tab until the element has the focus; the focus must be visible at each step."""
    passed = []
    for _ in range(MAX_STEPS):
        await page.keyboard.press("Tab")
        focused = await page.evaluate(FOCUSED)
        if focused["tag"] == "BODY":
            continue
        passed.append(focused["name"])
        assert focused["seen"], f"the focus does not show on {focused['name']}"
        assert focused["inside"], f"{focused['name']} is out of sight"
        assert focused["order"] == 0
        if re.fullmatch(name, focused["name"]):
            return
    raise AssertionError(f"{name} is out of reach: {passed}")


async def test_a_key_is_created_capped_rotated_and_revoked(site: Site) -> None:
    """Create, cap, rotate and revoke keys."""
    page = await site.open("keys", HOLDER)
    keys = page.keyboard
    await tab_to(page, "Create a key")
    await keys.press("Enter")
    await page.get_by_role("dialog").wait_for()
    await keys.type("by hand")
    await tab_to(page, "Create key")
    await keys.press("Enter")
    await wait_for_title(page, "Key created")
    await tab_to(page, "OpenAI")
    await keys.press("ArrowRight")
    assert (await page.evaluate(FOCUSED))["name"] == "Anthropic"
    await tab_to(page, "I stored it")
    await keys.press("Enter")
    await wait_for_title(page, "Keys")
    await tab_to(page, "Edit by hand")
    await keys.press("Enter")
    await page.get_by_role("dialog").wait_for()
    await tab_to(page, "Cap, USD")
    await keys.type("7.5")
    await keys.press("Enter")
    await page.get_by_text("of 7.50").wait_for()
    await tab_to(page, "Rotate by hand")
    await keys.press("Enter")
    await page.get_by_role("dialog").wait_for()
    assert (await page.evaluate(FOCUSED))["name"].startswith("The old key")
    await tab_to(page, "Rotate key")
    await keys.press("Enter")
    await wait_for_title(page, "Key rotated")
    await tab_to(page, "I stored it")
    await keys.press("Enter")
    await wait_for_title(page, "Keys")
    await tab_to(page, "Revoke by hand")
    await keys.press("Space")
    await page.get_by_role("dialog").wait_for()
    await keys.press("Escape")
    await page.get_by_role("dialog").wait_for(state="detached")
    assert (await page.evaluate(FOCUSED))["name"] == "Revoke by hand"
    await keys.press("Space")
    await page.get_by_role("dialog").wait_for()
    await tab_to(page, "Revoke key")
    await keys.press("Enter")
    await page.get_by_role("dialog").wait_for(state="detached")
    await page.get_by_text("1 key", exact=True).wait_for()


async def test_a_code_is_redeemed_as_it_was_typed(site: Site, console: Console) -> None:
    terms = {"amount": "2.50", "count": 1}
    made = await console.post("/console/api/codes", terms, as_=OPERATOR, key="by hand")
    page = await site.open("billing", HOLDER)
    await tab_to(page, "Top-up code")
    await page.keyboard.type(made.json["codes"][0].lower().replace("-", " "))
    await page.keyboard.press("Enter")
    await page.get_by_text("$2.50 added.").first.wait_for()


async def test_the_first_stop_skips_the_menu(site: Site) -> None:
    """The first stop skips the menu; on a small screen the menu opens by a key."""
    page = await site.open("usage", HOLDER)
    await page.keyboard.press("Tab")
    assert (await page.evaluate(FOCUSED))["name"] == "Skip to content"
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    assert (await page.evaluate(FOCUSED))["name"] == "JSON"
    narrow = await site.open("", HOLDER, viewport={"width": 320, "height": 640})
    menu = narrow.get_by_role("button", name="Menu")
    await tab_to(narrow, "Menu")
    await narrow.keyboard.press("Enter")
    assert await menu.get_attribute("aria-expanded") == "true"
    await tab_to(narrow, "Settings")
    await narrow.keyboard.press("Enter")
    await wait_for_title(narrow, "Settings")
    assert await menu.get_attribute("aria-expanded") == "false"


async def test_stops_are_in_reading_order(site: Site) -> None:
    """Tab follows the document, and each page starts at its title."""
    page = await site.open("", OPERATOR)
    for path in ("keys", "usage", "accounts", "settings"):
        await go(page, path)
        positions = []
        for _ in range(30):
            await page.keyboard.press("Tab")
            positions.append(
                await page.evaluate(
                    """() => document.activeElement === document.body ? -1
                        : [...document.querySelectorAll("*")].indexOf(document.activeElement)"""
                )
            )
        first_round = positions[: positions.index(-1)] if -1 in positions else positions
        assert first_round == sorted(first_round), path
    await page.get_by_role("link", name="Billing").click()
    await wait_for_title(page, "Billing")
    assert await page.evaluate("document.activeElement.textContent") == "Billing"

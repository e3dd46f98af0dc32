"""The look in a browser: on the sign-in and behind it, in both themes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, expect

from tests.extras.console.browser.kit import Site, Witness, take_pictures
from tests.extras.console.browser.test_accessible import inspect
from tests.extras.console.kit import open_console
from tests.support.served import HOLDER

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

LOGO: Final = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 100">
<style>circle { fill: #e0b000 }</style><script>alert(1)</script>
<circle cx="50" cy="50" r="45"/><rect x="110" y="30" width="180" height="40" fill="#e0b000"/></svg>"""
LOOK: Final = '[console]\nname = "Example AI"\nlogo = "logo.svg"\naccent = "#e0b000"\n'


async def test_name_logo_and_colour_are_everywhere(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "logo.svg").write_text(LOGO)
    async with open_console(tmp_path, more=LOOK) as console:
        site = Site(browser, console, Witness(console.root_url))
        for path, who, title in (("signin", None, "Sign in"), ("keys", HOLDER, "Keys")):
            page = await site.open(path, who)
            await expect(page).to_have_title(f"{title} · Example AI")
            mark = page.locator(".logo")
            assert await mark.inner_text() == "Example AI"
            width = "(mark) => mark.querySelector('img').decode().then(() => mark.querySelector('img').width)"
            assert await mark.evaluate(width) > 50
            assert await inspect(page, path) == {}
            await take_pictures(page, f"brand-{path}")
        await site.close()
        assert site.witness.faults == []

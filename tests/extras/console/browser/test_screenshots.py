"""Pictures of every page, for a person to look at before a release.

    CONSOLE_SCREENSHOTS=folder .venv/bin/python -m pytest -m browser tests/extras/console/browser/test_screenshots.py

The variable names their folder. Without it one size is taken, into a folder that pytest deletes.
`overview.png`, which README shows, is `readme-light.png` with fewer colours.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Literal

import pytest
import pytest_asyncio
from playwright.async_api import Page

from tests.extras.console.browser.kit import (
    HEIGHT,
    HOLDER_PAGES,
    NARROW,
    OPERATOR_PAGES,
    OUTSIDE,
    WIDE,
    Site,
    go,
    open_call,
    wait_for_title,
)
from tests.extras.console.browser.past import start_with_past
from tests.extras.console.kit import Console
from tests.support.served import HOLDER, OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

FOLDER: Final = os.environ.get("CONSOLE_SCREENSHOTS")
Theme = Literal["light", "dark"]
EXAMPLES: Final = (("light", WIDE), ("dark", WIDE), ("light", NARROW), ("dark", NARROW))
"""Themes and sizes of the pictures."""
OPENING_BYTES: Final = b"\x89PNG"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    async with start_with_past(tmp_path_factory.mktemp("past")) as console:
        yield console


async def take(page: Page, folder: Path, name: str, *, whole: bool = True) -> None:
    path = folder / f"{name}.png"
    await page.screenshot(path=path, full_page=whole)
    assert path.read_bytes().startswith(OPENING_BYTES)


def name_file(path: str) -> str:
    return "".join(one if one.isalnum() else "-" for one in path) or "overview"


@pytest.mark.parametrize(("theme", "width"), EXAMPLES if FOLDER else EXAMPLES[:1])
async def test_every_page_can_be_pictured_in_both_themes(
    site: Site, tmp_path: Path, theme: Theme, width: int
) -> None:
    folder = Path(FOLDER) if FOLDER else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    look = {"color_scheme": theme, "viewport": {"width": width, "height": HEIGHT}}
    for who, pages in ((HOLDER, HOLDER_PAGES), (OPERATOR, OPERATOR_PAGES), (None, OUTSIDE)):
        page = await site.open("signin", who, **look)
        if who == OPERATOR:
            await open_call(page)
            await take(page, folder, f"call-{theme}-{width}")
            await open_call(page, "activity?outcome=failed")
            await take(page, folder, f"call-failed-{theme}-{width}")
        for path in pages if FOLDER else list(pages)[:2]:
            await page.goto("about:blank")
            with site.witness.expecting(404):
                await go(page, path)
            prefix = f"{OPERATOR}-" if who == OPERATOR else ""
            await take(page, folder, f"{prefix}{name_file(path)}-{theme}-{width}")
    page = await site.open("keys?new=1", HOLDER, **look)
    await take(page, folder, f"dialog-{theme}-{width}", whole=False)
    await page.get_by_role("button", name="Create key").click()
    await wait_for_title(page, "Key created")
    await take(page, folder, f"created-{theme}-{width}")
    if width == WIDE:
        page = await site.open("", HOLDER, **look)
        await take(page, folder, f"readme-{theme}", whole=False)

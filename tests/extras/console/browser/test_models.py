"""The page Models, with the shipped file and all its providers switched on."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

import pytest
import pytest_asyncio

from tests import ROOT
from tests.extras.console.browser.kit import HEIGHT, Site, move, take_pictures
from tests.extras.console.kit import Console, start_console
from tests.support.served import HOLDER, OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SHIPPED: Final = ROOT / "gateway.toml"
WIDTHS: Final = (1000, 1153, 1440, 2560)
"""Both sides of the width at which the menu moves to the side, and what screens have."""
OTHERS: Final = """
[models.ranks]
kind = "rerank"
routes = ["openai/ranks"]
price = { request = 0.002 }

[models.ears]
kind = "audio"
routes = ["openai/ears"]
price = { minute = 0.0067 }
"""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    providers = SHIPPED.read_text().partition("[providers.openai]")
    on = re.sub(r'"env:\w+_API_KEY"', '"sk-example-of-a-key"', "".join(providers[1:]))
    named = '[models."claude-haiku-4-5"]\n'
    on = on.replace(named, f'{named}aliases = ["small-one", "claude-3-5-haiku-20241022"]\n')
    async with start_console(tmp_path_factory.mktemp("shipped"), more=on + OTHERS) as console:
        yield console


@pytest.mark.parametrize("who", [OPERATOR, HOLDER])
async def test_the_shipped_models_are_a_table_on_wide_screens(site: Site, who: str) -> None:
    """No rows become cards, no name is broken, and no column is empty."""
    page = await site.open("models", who)
    await take_pictures(page, f"shipped-models-{who}")
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await move(page, "models")
        assert await page.locator(".cards").count() == 0, width
    heads = await page.locator("thead th").all_inner_texts()
    prices = ["Input, USD", "Cached, USD", "Output, USD", "Other prices"]
    # Operators have the actions of an extra besides.
    assert [one for one in heads if one != "Actions"] == ["Model", *prices, "Tokens at most"]
    rows = {
        await row.locator("code").first.inner_text(): row
        for row in await page.locator(
            "tbody tr:has(code)"
        ).all()  # others are rules of the one above
    }
    haiku = await rows["claude-haiku-4-5"].inner_text()
    assert "also small-one" in haiku
    assert "Cache write, 1 h 2.00" in haiku
    assert ("anthropic/claude-haiku-4-5" in haiku) is (who == OPERATOR)
    assert "Cache write" not in await rows["gpt-5.5"].inner_text()
    ranks = [one.strip() for one in await rows["ranks"].locator("th, td").all_inner_texts()]
    assert ranks[1:5] == ["–", "–", "–", "Per call 0.002"], "what has no price is no zero"
    ears = [one.strip() for one in await rows["ears"].locator("th, td").all_inner_texts()]
    assert ears[1:5] == ["–", "–", "–", "Per minute 0.0067"]
    tall = await rows["gpt-5.5"].locator("code").first.bounding_box()
    assert tall is not None
    assert tall["height"] < 30

"""Pages with very many rows are short on a phone: many accounts, models, calls, keys, refusals."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Final

import pytest
import pytest_asyncio

from gateway.base.money import NANO
from gateway.base.times import HOUR_MS
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import connect
from tests.extras.console.browser.kit import HEIGHT, Site, go, move, read_title
from tests.extras.console.browser.past import MODELS_TOML, SEEDS_TOML, find_path, seed_past
from tests.extras.console.browser.test_accessible import LARGER_PHONE, MAX_HEIGHT, MEASURE, PAGES
from tests.extras.console.kit import Console, start_console
from tests.long.million import ACCOUNT, History, write_history
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.served import HOLDER, OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ACCOUNTS: Final = 30
REQUESTS: Final = 3000
CODES: Final = ("rate_limit_exceeded", "model_not_allowed", "insufficient_quota", "cap_exceeded")
TOML: Final = "\n".join(
    f'[providers.provider-{n}]\ndialect = "demo"\n[models."provider-{n}/model-of-some-size"]\n'
    f'routes = ["provider-{n}/model-of-some-size"]\nprice = {{ input = 1, output = 2 }}'
    for n in range(16)
)


def seed(books: SqliteBooks) -> None:
    """Write a busy account, and other things of which each page has more than it shows."""
    now_ms = time.time_ns() // 1_000_000
    with closing(connect(find_path(books))) as raw:
        write_history(raw, History(REQUESTS, days=7, end_ms=now_ms))
    seed_past(books)
    with books.changing() as connection:
        for number in range(ACCOUNTS):
            account = books.accounts.create(f"customer-{number:02d}", credit_nano=NANO)
            connection.executemany(
                "INSERT INTO refusals VALUES (?, ?, ?, '', 3, ?, 'req_1')",
                [(now_ms // HOUR_MS, account.id, code, now_ms) for code in CODES],
            )


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    folder, more = tmp_path_factory.mktemp("busy"), f"{TOML}\n{MODELS_TOML}{SEEDS_TOML}"
    async with start_console(folder, seed=seed, more=more) as console:
        yield console


@pytest.mark.parametrize("who", [ACCOUNT, OPERATOR])
async def test_pages_of_very_many_rows_are_three_screens_high_on_a_phone(
    site: Site, who: str
) -> None:
    """With all examples each is loaded at its address, which takes four times as long."""
    page = await site.open("", who, viewport={"width": LARGER_PHONE, "height": 844})
    heights: dict[str, int] = {}
    for path, title in PAGES[OPERATOR if who == OPERATOR else HOLDER].items():
        with site.witness.expecting(404):
            await (go if ALL_EXAMPLES else move)(page, path)
        assert await read_title(page) == title
        heights[path] = (await page.evaluate(MEASURE))["height"]
    assert {path: height for path, height in heights.items() if height > MAX_HEIGHT} == {}


FIND_IDS: Final = """() => [...document.querySelectorAll("tbody a.mono")].filter((one) => one.offsetParent).map((one) => {
    const [box, row] = [one, one.closest("tr")].map((it) => it.getBoundingClientRect());
    return [one.getClientRects().length, box.right <= row.right];
})"""


async def test_request_ids_stand_in_one_line(site: Site) -> None:
    page = await site.open("", ACCOUNT)
    for width in (360, LARGER_PHONE):
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await move(page, "activity")
        found = await page.evaluate(FIND_IDS)
        assert found == [[1, True]] * len(found)
        assert len(found) > 5

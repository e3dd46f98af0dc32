"""Pages with very many rows are short on a phone: many accounts, models, calls, keys, refusals."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from gateway.admin import keys
from gateway.base.ids import find_first_id
from gateway.base.money import NANO
from gateway.extras.observations.records import UpstreamFailure
from gateway.extras.observations.serving import observe
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_ledger
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.console.browser.kit import HEIGHT, HOLDER_PAGES, OPERATOR_PAGES, Site, go
from tests.extras.console.browser.past import DAY_MS, FAILED, OUTCOMES, find_path
from tests.extras.console.browser.test_accessible import LARGER_PHONE, MAX_HEIGHT
from tests.extras.console.calls import Past, add_calls
from tests.extras.console.kit import Console, start_console
from tests.support.extras import find_modules
from tests.support.served import HOLDER, OPERATOR

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

ACCOUNTS: Final = 30
CALLS: Final = 3000
PROVIDERS: Final = ("alpha-cloud", "beta-hosting", "gamma", "delta-of-a-long-name")
MODELS: Final = tuple(
    f"{provider}/model-{n}-of-some-size" for provider in PROVIDERS for n in range(4)
)
TOML: Final = "\n".join(
    [
        *(
            f'[providers.{name}]\ndialect = "chat"\nbase_url = "https://{name}.example.com/v1"\n'
            f'api_key = "sk-1234567890abcdef-{name}"'
            for name in PROVIDERS
        ),
        *(
            f'[models."{name}"]\nroutes = ["{name}"]\nprice = {{ input = 1, output = 2 }}'
            for name in MODELS
        ),
    ]
)
CODES: Final = ("rate_limit_exceeded", "model_not_allowed", "insufficient_quota", "cap_exceeded")


def seed(books: SqliteBooks) -> None:
    """Write a busy week of a shop, of which each page has more than it shows."""
    chance = random.Random(3)
    names = [HOLDER, *(f"customer-{n:02d}" for n in range(ACCOUNTS))]
    for name in names[1:]:
        books.accounts.create(name, credit_nano=chance.randrange(NANO, 90 * NANO))
    now_ms = time.time_ns() // 1_000_000
    for at, name in enumerate(names):
        key_ids = [
            keys.add_key(books, name, KeyTerms(name=f"key of {name} {n}")).key.id
            for n in range(20 if name == HOLDER else 2)
        ]
        calls = [
            _make_call(chance, key_ids, now_ms) for _ in range(CALLS // (2 if at == 0 else 60))
        ]
        calls.sort(key=lambda call: call.ended_ms or 0)
        add_calls(find_path(books), books.accounts.find_id(name), calls)
        for number in range(8):
            books.entries.credit(name, NANO, note=f"Invoice 2026-{number:04d}")
    with ThreadPoolExecutor(1) as thread:  # it needs a loop of its own
        thread.submit(asyncio.run, _observe_later(find_path(books), names)).result()
    for folder in ("past", "seeds"):
        for module in find_modules(folder).values():
            (module.add_past if folder == "past" else module.seed)(books)


def _make_call(chance: random.Random, key_ids: list[str], now_ms: int) -> Past:
    ended_ms = now_ms - chance.randrange(7 * DAY_MS)
    outcome, model = chance.choice(OUTCOMES), chance.choice(MODELS)
    return Past(
        chance.choice(key_ids),
        ended_ms - chance.randrange(300, 20_000),
        ended_ms,
        model,
        chance.randrange(10**8),
        outcome,
        model.partition("/")[0],
        FAILED if outcome == "upstream_error" else 200,
    )


async def _observe_later(path: Path, names: list[str]) -> None:
    async with open_ledger(path) as ledger:
        _observe(ledger, names)


def _observe(ledger: ServingLedger, names: list[str]) -> None:
    """Note calls to all models, a few of which fail in long words, their times, and refusals."""
    chance = random.Random(5)
    now_ms, observer = time.time_ns() // 1_000_000, observe(ledger)
    ids = {one.name: one.id for one in ledger.accounts()}
    for model in MODELS:
        provider, _, there = model.partition("/")
        url = f"https://{provider}.example.com/v1/chat/completions"
        for number in range(200):
            words = "status 503: the service is overloaded, or not ready yet"
            failure = UpstreamFailure(now_ms, f"req_{number:028x}", 503, words, url)
            observer.note_upstream_call(provider, there, None if number % 9 else failure)
            place = ids[names[chance.randrange(len(names))]], provider, there
            took_ms = chance.randrange(200, 9000)
            observer.note_latency(*place, now_ms, first_byte_ms=took_ms // 3, total_ms=took_ms)
    for name in names:
        for code in CODES:
            request_id = f"{find_first_id(now_ms)}{chance.randrange(10**15):016x}"
            observer.note_refusal(ids[name], code, MODELS[0], request_id, named=MODELS[0])


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def console(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Console]:
    more = TOML + "".join(module.TOML for module in find_modules("seeds").values())
    async with start_console(tmp_path_factory.mktemp("busy"), seed=seed, more=more) as console:
        yield console


@pytest.mark.parametrize("who", [HOLDER, OPERATOR])
async def test_pages_of_very_many_rows_are_three_screens_high_on_a_phone(
    site: Site, who: str
) -> None:
    page = await site.open("", who, viewport={"width": LARGER_PHONE, "height": 844})
    pages = HOLDER_PAGES if who == HOLDER else {**OPERATOR_PAGES, "": "Overview", "keys": "Keys"}
    heights: dict[str, int] = {}
    for path in pages:
        with site.witness.expecting(404):
            await go(page, path)
        heights[path] = await page.evaluate(
            """async () => {
                for (const _ of [1, 2]) await new Promise(requestAnimationFrame);
                return document.documentElement.scrollHeight;
            }"""
        )
    assert {path: height for path, height in heights.items() if height > MAX_HEIGHT} == {}


FIND_IDS: Final = """() => [...document.querySelectorAll("tbody a.mono")].filter((one) => one.offsetParent).map((one) => {
    const [box, row] = [one, one.closest("tr")].map((it) => it.getBoundingClientRect());
    return [one.getClientRects().length, box.right <= row.right];
})"""


async def test_request_ids_stand_in_one_line(site: Site) -> None:
    for width in (360, LARGER_PHONE):
        page = await site.open("activity", HOLDER)
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await go(page, "activity")
        found = await page.evaluate(FIND_IDS)
        assert found == [[1, True]] * len(found)
        assert len(found) > 5

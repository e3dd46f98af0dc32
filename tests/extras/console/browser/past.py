"""Requests from before the gateway's start, written through the ledger itself."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

from gateway.admin import keys
from gateway.base.ids import find_first_id
from gateway.base.money import NANO, Tokens
from gateway.extras.observations.records import UpstreamFailure
from gateway.extras.observations.serving import observe
from gateway.extras.signins import signin
from gateway.ledger.budget_records import Allowance
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_ledger
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.console.calls import Past, add_calls
from tests.extras.console.kit import Console, start_console
from tests.support.extras import find_modules
from tests.support.served import HOLDER, OTHER

DAY_MS: Final = 86_400_000
SEED: Final = 7
PASSWORD: Final = "a password of the past"
MODELS: Final = {
    "gpt-5.5": 30_000, "claude-sonnet-4-6": 15_000, "gpt-5.4-mini": 4_500,
    "claude-haiku-4-5": 5_000, "deepseek-v4-flash": 280,
}  # fmt: skip
"""Models, with the price of an output token in nano-units."""
MODELS_TOML: Final = "\n".join(
    f'[models."{name}"]\nroutes = ["demo/{name}"]\n'
    f"price = {{ input = {nano / 6000:.3f}, output = {nano / 1000:.3f} }}"
    for name, nano in {**MODELS, "broken": 600}.items()
)

SEEDS_TOML: Final = "".join(module.TOML for module in find_modules("seeds").values())

BILLED_TENTHS: Final = {"gpt-5.5": 8, "claude-sonnet-4-6": 11, "deepseek-v4-flash": 6}
"""The providers' bills, in tenths of the charge; that of other models is unknown."""
REPORTS: Final = frozenset({"deepseek-v4-flash"})
"""Models whose provider says what it charged."""

FAILED: Final = 502
OUTCOMES: Final[tuple[Outcome, ...]] = ("complete",) * 28 + ("caller_left", "upstream_error")


def find_path(books: SqliteBooks) -> Path:
    with books.reading() as connection:
        return Path(connection.execute("PRAGMA database_list").fetchone()[2])


async def _observe_later(path: Path, failed_id: str) -> None:
    async with open_ledger(path) as ledger:
        _observe(ledger, failed_id)


def _observe(ledger: ServingLedger, failed_id: str) -> None:
    """Let one model work, one fail now and then, and one always; and refuse some requests.

    One failure is that of a call.
    """
    now_ms, observer = time.time_ns() // 1_000_000, observe(ledger)
    url = "https://api.example.com/v1/chat/completions"
    for model, calls, failures in (
        ("gpt-5.5", 240, 0),
        ("gpt-5.4-mini", 90, 3),
        ("broken", 12, 12),
    ):
        for number in range(calls):
            reason = "status 401 invalid_api_key: the provider refuses our key"
            request_id = f"req_{number:028x}" if number else failed_id
            failure = UpstreamFailure(now_ms, request_id, 401, reason, url)
            observer.note_upstream_call("demo", model, failure if number < failures else None)
    ids = {one.name: one.id for one in ledger.accounts()}
    for number in range(200):
        model = "gpt-5.4-mini" if number < 10 else "gpt-5.5"  # which is the slower one
        place = ids[HOLDER if number % 3 else OTHER], "demo", model
        took_ms = 300 + 17 * number
        observer.note_latency(*place, now_ms, first_byte_ms=took_ms, total_ms=9 * took_ms)
    for name, code, model, count in (
        (HOLDER, "rate_limit_exceeded", "", 3),
        (HOLDER, "model_not_allowed", "gpt-5.5", 1),
        (OTHER, "insufficient_quota", "", 1204),
        (None, "invalid_api_key", "", 18),
    ):
        for number in range(count):
            account_id = None if name is None else ids[name]
            request_id = f"{find_first_id(now_ms)}{number:016x}"
            observer.note_refusal(account_id, code, model, request_id, named=model)


def seed_long(books: SqliteBooks) -> None:
    """Write what extras have that is long and has to fit."""
    for module in find_modules("seeds").values():
        module.seed(books)


def seed_past(books: SqliteBooks) -> None:
    """Write a month of a small team: weekdays, five models, a few failures."""
    seed_long(books)
    chance = random.Random(SEED)
    now_ms = time.time_ns() // 1_000_000
    holder_id = books.accounts.find_id(HOLDER)
    team = books.keys.budgets.insert(holder_id, "research", Allowance(250 * NANO, "month"))
    ci = KeyTerms(name="CI", cap_nano=20 * NANO, budget_id=team)
    key_ids = [
        keys.add_key(books, HOLDER, KeyTerms(name="notebook")).key.id,
        keys.add_key(books, HOLDER, ci).key.id,
    ]
    workshop = KeyTerms(name="workshop", cap_nano=5 * NANO, expires_ms=now_ms + 20 * DAY_MS)
    keys.add_key(books, HOLDER, workshop, own=Allowance(NANO, "day"))
    calls = []
    for days_ago in range(40, -1, -1):
        day_ms = now_ms // DAY_MS * DAY_MS - days_ago * DAY_MS
        is_weekend = (day_ms // DAY_MS + 4) % 7 in {0, 6}
        for _ in range(chance.randrange(1, 4) if is_weekend else chance.randrange(6, 16)):
            ended_ms = min(day_ms + chance.randrange(DAY_MS), now_ms - chance.randrange(9_000_000))
            calls.append(_make_call(chance, key_ids, ended_ms))
    signin.set_password(books, HOLDER, PASSWORD)
    calls.sort(key=lambda call: call.ended_ms or 0)
    path = find_path(books)
    ids = add_calls(path, books.accounts.find_id(HOLDER), calls)
    failed = [id_ for id_, call in zip(ids, calls, strict=True) if call.status == FAILED]
    with ThreadPoolExecutor(1) as thread:  # it needs a loop of its own
        thread.submit(asyncio.run, _observe_later(path, failed[-1])).result()
    books.entries.credit(HOLDER, 20 * NANO, note="Invoice 2026-114")
    for module in find_modules("past").values():
        module.add_past(books)


def _make_call(chance: random.Random, key_ids: Sequence[str], ended_ms: int) -> Past:
    model = chance.choice([name for at, name in enumerate(MODELS) for _ in range(5 - at)])
    tokens = Tokens(chance.randrange(200, 40_000), chance.choice([0, 0, 12_000]), 0, 0)
    tokens = Tokens(tokens.input, tokens.cached_input, 0, chance.randrange(20, 3000))
    cost_nano = tokens.output * MODELS[model] + tokens.input * MODELS[model] // 6
    outcome, tenths = chance.choice(OUTCOMES), BILLED_TENTHS.get(model)
    return Past(
        chance.choice(key_ids),
        ended_ms - chance.randrange(700, 24_000),
        ended_ms,
        model,
        cost_nano,
        outcome,
        status=FAILED if outcome == "upstream_error" else 200,
        tokens=tokens,
        estimated=outcome == "caller_left",
        provider_cost_nano=None if tenths is None else cost_nano * tenths // 10,
        reported_cost_nano=cost_nano * 7 // 10 if model in REPORTS else None,
    )


@asynccontextmanager
async def start_with_past(folder: Path) -> AsyncIterator[Console]:
    billing = 'top_up_text = "By bank transfer, or with a code. Credit arrives within a day."'
    async with start_console(
        folder, seed=seed_past, billing=billing, more=MODELS_TOML + SEEDS_TOML
    ) as console:
        yield console

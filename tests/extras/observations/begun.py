"""Requests that sessions of the command line begin with."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from operator import add
from pathlib import Path
from typing import Final

from gateway.admin.keys import add_key
from gateway.base import ids
from gateway.base.times import DAY_MS, unix_ms
from gateway.extras.observations.records import UpstreamFailure
from gateway.extras.observations.serving import observe
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books, open_ledger
from gateway.ledger.records import StoredSecret
from tests.ledger.contract.kit import admission, settlement, void
from tests.ledger.kit import find_key, make_place

NOW_MS: Final = 1_700_000_000_000
OVERLOAD: Final = UpstreamFailure(
    0, "req_8", 529, "status 529 overloaded_error", "https://api.example.com/v1", "overloaded_error"
)
FAILURE: Final = UpstreamFailure(
    0, "req_9", 401, "status 401: the provider refuses our key", "https://api.example.com/v1/chat"
)


async def serve(folder: Path) -> None:
    """Serve five calls of two accounts, and a sixth that a crash cuts off.

    One of them fails; of one, which takes 11 seconds, the provider says what it costs.
    """
    place = make_place(folder)
    with open_books(place.path) as books:
        books.accounts.create("zoe", credit_nano=10**12)
        laptop = ids.make_key()
        # Its id is the first of all: usage by key is listed by their ids.
        new = StoredSecret(f"key_{'0' * 16}", ids.digest(laptop), laptop[-4:])
        books.keys.create("zoe", KeyTerms(name="laptop"), new)
    async with open_ledger(place.path) as ledger:
        observer = observe(ledger)
        first, second = find_key(ledger, place), ledger.find_key(ids.digest(laptop))
        assert second is not None
        billed = settlement(100, provider_cost_nano=60, reported_cost_nano=75)
        for number, (key, model, ending) in enumerate((
            (first, "demo/echo", settlement(5)),
            (first, "demo/echo", replace(void(), status=502)),
            (first, "=cmd", settlement(1_000_000_001)),
            (first, "large", billed),
            (second, "demo/echo", settlement(2_000_000_000)),
        )):  # fmt: skip
            at_ms, took_ms = NOW_MS + number * 1000, 11_000 if ending is billed else 5
            asked = replace(
                admission(id_=ids.make_request_id(at_ms), started_ms=at_ms), model=model
            )
            await ledger.settle(ledger.hold(key, asked), replace(ending, ended_ms=at_ms + took_ms))
            if ending.status == 502:
                observer.note_upstream_call(
                    "demo", "echo", replace(OVERLOAD, request_id=asked.request_id)
                )
    async with open_ledger(place.path) as ledger:
        at_ms = NOW_MS + 5000
        cut = admission(700, id_=ids.make_request_id(at_ms), started_ms=at_ms)
        await ledger.wait_admitted(ledger.hold(find_key(ledger, place), cut))
    async with open_ledger(place.path):
        pass  # a start finds what was cut off


async def refuse(folder: Path) -> None:
    """Let a provider fail and refuse callers, some of them days ago."""
    with open_books(folder / "gateway.db", create=True) as books:
        account_id = books.accounts.create("alice").id
        key = add_key(books, "alice", KeyTerms(name="trial")).key
    for ago_ms, times in ((9 * DAY_MS, 1), (0, 3)):
        clock = partial(add, unix_ms(), -ago_ms)
        async with open_ledger(folder / "gateway.db", clock=clock) as ledger:
            observer = observe(ledger)
            for _ in range(times):
                observer.note_refusal(account_id, "model_not_found", "", "req_1", key_id=key.id)
                if ago_ms == 0:
                    observer.note_upstream_call("demo", "echo", FAILURE)
                    observer.note_upstream_call("vendor", "far", FAILURE)
                    observer.note_latency(
                        account_id, "vendor", "far", clock(), first_byte_ms=300, total_ms=20_000
                    )
            observer.note_refusal(None, "invalid_api_key", "", "req_2")

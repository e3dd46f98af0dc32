"""Models and prices: holders see the models that are on, operators see all."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.admin import keys
from gateway.money import MEDIA, PRICES, format_amount
from tests.console.kit import API, HOLDER, OPERATOR, Console, open_console

FREE: Final = """
[models."demo/free"]
routes = ["demo/free"]
owned_by = "someone"
max_input_tokens = 1000
max_output_tokens = 500
price = "free"
"""
MODEL_FIELDS: Final = {
    "id", "owned_by", "kind", "on", "free", "price", "price_when",
    "max_input_tokens", "max_output_tokens",
}  # fmt: skip


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path, more=FREE) as console:
        yield console


async def fetch(console: Console, name: str) -> dict[str, Any]:
    reply = await console.get(f"{API}/models", as_=name)
    assert reply.status == 200, reply.body
    listed = reply.json
    assert (set(listed), listed["currency"]) == ({"count", "currency", "models"}, "USD")
    assert listed["count"] == len(listed["models"])
    return {one["id"]: one for one in listed["models"]}


async def test_holders_see_what_they_can_call(console: Console) -> None:
    """Holders see the models of `/v1/models`, without the providers."""
    models = await fetch(console, HOLDER)
    assert list(models) == ["demo/echo", "vendor/large", "demo/free"]
    assert [set(one) for one in models.values()] == [MODEL_FIELDS] * 3
    assert {one["on"] for one in models.values()} == {True}
    with console.open_books() as books:
        secret = keys.add_key(books, HOLDER).secret
    assert console.gateway is not None
    await console.gateway.ledger.refresh()
    listed = await console.ask("GET", "/v1/models", headers={"x-api-key": secret})
    assert [one["id"] for one in listed.json["data"]] == list(models)


async def test_prices_are_exact_and_per_million(console: Console) -> None:
    models = await fetch(console, HOLDER)
    price = models["vendor/large"]["price"]
    nano = {"input": 10**9, "cached_input": 5 * 10**8, "cache_write": 10**9, "output": 2 * 10**9}
    names = [name for name in PRICES if name not in MEDIA]
    assert {name: price[f"{name}_nano"] for name in names} == nano | {
        "request": 0,
        "cache_write_1h": 16 * 10**8,
        "web_search": 0,
    }
    for one in models.values():
        told = one["price"]
        assert set(told) == {*names, *(f"{name}_nano" for name in names), "by_bill", "tools"}
        assert (told["by_bill"], told["tools"]) == (False, {})
        for name in names:
            assert told[name] == format_amount(told[f"{name}_nano"])
    free = models["demo/free"]
    assert (free["free"], free["owned_by"], free["price"]["input_nano"]) == (True, "someone", 0)
    assert (free["max_input_tokens"], free["max_output_tokens"]) == (1000, 500)
    assert not models["demo/echo"]["free"]


async def test_operators_see_what_is_off_and_every_route_in_order(console: Console) -> None:
    models = await fetch(console, OPERATOR)
    assert {one["id"]: one["on"] for one in models.values()} == {
        "demo/echo": True,
        "vendor/large": True,
        "vendor/off": False,
        "demo/free": True,
    }
    assert [set(one) for one in models.values()] == [MODEL_FIELDS | {"routes"}] * 4
    assert models["vendor/large"]["routes"] == [
        {"provider": "vendor", "model": "large", "on": False},
        {"provider": "demo", "model": "echo", "on": True},
    ]

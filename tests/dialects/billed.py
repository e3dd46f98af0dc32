"""Requests that may change a provider's bill, written for a provider of the same dialect."""

from __future__ import annotations

from typing import Any, Final

import orjson

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import Target
from gateway.money import Price
from gateway.prices import Asked, PriceList, PriceRule

Json = dict[str, Any]

PRICE: Final = Price(1, 1, 1, 1)
PRICES: Final = PriceList(PRICE)
SEARCHING: Final = PriceList(Price(1, 1, 1, 1, web_search=10))
SAID: Final[Json] = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}


def ruled(
    *, service_tier: str | None = None, speed: str | None = None, geo: str | None = None
) -> PriceList:
    return PriceList(PRICE, (PriceRule(PRICE, None, service_tier, speed, geo),))


def write(dialect: str, fields: Json, target: Target) -> Asked:
    request = CALLERS[dialect].parse_request(orjson.dumps({**SAID, "max_tokens": 9, **fields}))
    return EXCHANGES[dialect][dialect].write_request(request, target).asked

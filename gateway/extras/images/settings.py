"""`price_image`: the prices of images, in place of those of tokens."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import MappingProxyType

from gateway.base import money
from gateway.base.prices import PriceList
from gateway.config.prices import Told, is_set, read_price_list
from gateway.config.reader import Place, read_table, show
from gateway.config.settings import SETTINGS


def read_image_prices(place: Place, told: Told, needed: Collection[str]) -> PriceList:
    """Read prices by size and quality, as calls of tools of their names, or by tokens. Raises ConfigError."""
    raw = told["price_image"]
    if raw is None:
        return read_price_list(place, told, needed)
    if any(is_set(told, name) for name in ("price", "price_when", "tool_prices")):
        raise place.error("price_image", "stands in place of `price` and `tool_prices`")
    if not isinstance(raw, list):
        raise place.error("price_image", f"must be an array of tables, not {show(raw)}")
    if not raw:
        raise place.error("price_image", "must have a table, such as { price = 0.04 }")
    found: dict[str, int] = {}
    for number, one in enumerate(raw):
        row = read_table(
            replace(place, within=f"price_image[{number}]."), one, SETTINGS["models.ID.price_image"]
        )
        name = money.name_image(row["size"], row["quality"])
        if name in found:
            raise place.error(f"price_image[{number}]", "has the size and the quality of another")
        found[name] = row["price"]
    return PriceList(replace(money.FREE, tools=MappingProxyType(found)), ())

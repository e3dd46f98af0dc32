"""The charge of an image, as a function of plain values, for `examples.txt`."""

from __future__ import annotations

from typing import Any

from tests.dialects.chat.kit import dump
from tests.extras.images.test_images import IMAGES, PRICES, make_context


def charge(asked: dict[str, Any], served: dict[str, Any]) -> list[str]:
    """Ask for two images where three kinds have a price; tell as what they are held, and charged."""
    prices = {"search": 1, "image_generation": 1} | PRICES
    context = make_context(prices, n=2, **asked)
    body = dump({"data": [{"b64_json": "QQ=="}] * 2} | served)
    metered = IMAGES.read_reply(body, context).metered
    held, charged = context.expected.options.tool_calls, metered.tool_calls
    assert ([*held.values()], [*charged.values()], metered.estimated) == ([2], [2], False)
    return [name.removeprefix("images_") for name in (*held, *charged)]

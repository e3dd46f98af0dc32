"""Payment pages that are asked for again."""

from __future__ import annotations

import asyncio
from typing import Final

from tests.extras.cards.conftest import Shop

BILLING: Final = "https://example.com/console/billing"


async def test_a_page_is_made_again_after_the_shop_got_another_name(shop: Shop) -> None:
    """The reply of the first one got lost. Under the same name it would be the same page."""
    shop.stripe.status = 503
    assert (await shop.order("once")).status == 503
    shop.stripe.status = 200
    [order] = shop.read_orders()
    provider = shop.make_cashier().provider
    pages = [
        await asyncio.to_thread(provider.make_page, order, name, BILLING)
        for name in ("Example AI", "Example AI", "Other AI")
    ]
    assert [session_id for session_id, _ in pages] == ["cs_test_1", "cs_test_1", "cs_test_2"]
    reply = await shop.order("once")
    assert reply.status == 201
    assert reply.json["url"].endswith("cs_test_3")
    [order] = shop.read_orders()
    assert order.session_id == "cs_test_3"

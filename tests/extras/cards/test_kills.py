"""`kill -9` between the steps of a payment: each is credited once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from gateway.base.money import NANO
from tests.extras.cards.conftest import Shop
from tests.extras.cards.stripe_server import (
    SECRET_KEY,
    WEBHOOK_SECRET,
    make_refund,
    run_stripe,
    tell,
)
from tests.extras.console.kit import API, start_console
from tests.support.served import Reply
from tests.support.waiting import until

pytestmark = pytest.mark.slow

COMPLETED = "checkout.session.completed"
KILLS = 4


@pytest.fixture
async def killed(tmp_path: Path) -> AsyncIterator[Shop]:
    """A shop whose gateway has a process of its own."""
    async with run_stripe() as stripe, start_console(tmp_path, billing=stripe.billing) as console:
        console.process.canaries += [SECRET_KEY.encode(), WEBHOOK_SECRET.encode()]
        yield Shop(console, stripe)


def kill(shop: Shop) -> None:
    shop.console.process.kill()


async def tell_again(shop: Shop, kind: str, thing: dict[str, Any]) -> Reply:
    """Tell like Stripe, which repeats what met the end of a connection to the killed process."""
    while True:
        try:
            return await tell(shop.console, kind, thing)
        except aiohttp.ServerDisconnectedError:
            pass  # the pool drops that connection


def restart(shop: Shop) -> None:
    kill(shop)
    shop.console.process.start()


@pytest.mark.parametrize("is_late", [False, True])
async def test_an_order_outlives_a_kill_while_its_page_is_made(killed: Shop, is_late: bool) -> None:
    """Before Stripe has made the page, and behind that, before the gateway knows its id."""
    shop = killed
    shop.stripe.interrupt, shop.stripe.is_late = lambda: kill(shop), is_late
    with pytest.raises(aiohttp.ClientError):
        await shop.order("a")
    (order,) = shop.read_orders()
    assert (order.state, order.session_id) == ("made", None)
    restart(shop)
    if not is_late:
        assert (await shop.order("a")).status == 201
    session = shop.stripe.pay("cs_test_1")
    for _ in range(2):
        assert (await tell(shop.console, COMPLETED, session)).status == 200
    (order,) = shop.read_orders()
    assert (order.state, order.session_id, shop.added_nano()) == ("paid", "cs_test_1", 10 * NANO)


async def test_a_look_up_is_made_again_after_a_kill(killed: Shop) -> None:
    """By the next start, although nobody comes back and nothing is told."""
    shop = killed
    session = shop.stripe.pay((await shop.open_page())["id"])
    shop.stripe.interrupt = lambda: kill(shop)
    with pytest.raises(aiohttp.ClientError):
        await shop.console.get(f"{API}/billing/orders/{session['client_reference_id']}")
    assert shop.added_nano() == 0
    restart(shop)
    await until(lambda: shop.added_nano() == 10 * NANO, "the payment to be found")


async def test_messages_are_told_again_after_a_kill_at_any_moment(killed: Shop) -> None:
    shop, seed = killed, random.randrange(10**6)
    print(f"seed {seed}")
    moments = random.Random(seed)
    for number in range(1, KILLS + 1):
        session = shop.stripe.pay((await shop.open_page())["id"])
        refund = make_refund(session["payment_intent"], 100, id=f"re_{number}")
        told = [(COMPLETED, session), ("refund.created", refund)] * 5
        telling = [asyncio.create_task(tell(shop.console, *one)) for one in told]  # noqa: TID251 - all end below
        await asyncio.sleep(moments.random() * 0.05)
        restart(shop)
        ended = await asyncio.gather(*telling, return_exceptions=True)
        assert not [one for one in ended if isinstance(one, AssertionError)]
        for kind, thing in told[:2] * 2:
            assert (await tell_again(shop, kind, thing)).status == 200
        assert shop.added_nano() == number * 9 * NANO

"""`kill -9` between the steps of a payment, and payments on PostgreSQL: each is credited once."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from gateway.base.money import NANO
from gateway.base.times import unix_ms
from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.records import FeeSums
from gateway.extras.cards.settings import Cards
from gateway.extras.cards.webhook import make_cashier
from gateway.ledger.opening import open_books
from gateway.ledger.records import SYSTEM, Actor, DatabaseUrl, Refused
from tests.extras.cards.conftest import Shop
from tests.extras.cards.stripe_server import (
    SECRET_KEY,
    WEBHOOK_SECRET,
    make_event,
    make_move,
    make_refund,
    run_stripe,
    sign,
    tell,
)
from tests.extras.console.kit import API, start_console
from tests.support.extras import need_extra
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
            assert (await tell(shop.console, kind, thing)).status == 200
        assert shop.added_nano() == number * 9 * NANO


@need_extra("postgres")
async def test_payments_on_postgresql(postgres_url: str) -> None:
    """Fifty messages of one payment at once by two nodes; refunds, told and listed; a look at what is open."""
    location = DatabaseUrl(postgres_url)
    open_books(location, create=True).close()
    async with run_stripe() as stripe:
        cards = Cards(SECRET_KEY, WEBHOOK_SECRET, (), 0, 0, stripe.url)
        nodes = [make_cashier(cards, "USD", location) for _ in range(2)]
        with closing(open_books(location)) as books:
            books.accounts.create("a")
            first, second = (OrderBook(books).make("a", 10 * NANO, "USD") for _ in range(2))
            for order in (first, second):
                await nodes[0].open_page(order, "Credit", "https://llm.example.com", SYSTEM)
            session, _ = stripe.pay("cs_test_1"), stripe.pay("cs_test_2")
            body = make_event(COMPLETED, session)
            told = nodes[0].provider.read_message(body, sign(body))
            assert told is not None
            actor = Actor("stripe")
            await asyncio.gather(*(nodes[one % 2].settle(told, actor) for one in range(50)))
            assert books.accounts.read("a").balance_nano == 10 * NANO
            body = make_event("refund.created", make_refund(session["payment_intent"], 400))
            refund = nodes[0].provider.read_message(body, sign(body))
            assert refund is not None
            await asyncio.gather(*(nodes[one % 2].settle(refund, actor) for one in range(10)))
            await asyncio.gather(*(node.look_all_up() for node in nodes))
            stripe.refunds["re_2"] = make_refund("pi_cs_test_2", 100, id="re_2")
            await asyncio.gather(*(node.look_back() for node in nodes * 2))
            stripe.moves["pi_cs_test_1"] = make_move("txn_1", 59)
            await asyncio.gather(*(node.find_fees() for node in nodes))
            assert OrderBook(books).read(first.id).fee_nano == NANO * 59 // 100
            fees = OrderBook(books).sum_fees("a", 0, 2 * unix_ms())
            assert fees == FeeSums((("USD", 1, NANO * 59 // 100),), unknown=1)
            assert books.accounts.read("a").balance_nano == 15 * NANO
            assert {one.state for one in OrderBook(books).read_latest(None, None, 99)} == {"paid"}
            body = make_event(COMPLETED, session | {"amount_total": 1})
            wrong = nodes[0].provider.read_message(body, sign(body))
            assert wrong is not None
            await nodes[0].settle(wrong, actor)  # it is paid: what is told now changes nothing
            body = make_event(COMPLETED, session | {"id": "cs_9", "client_reference_id": second.id})
            foreign = nodes[0].provider.read_message(body, sign(body))
            assert foreign is not None
            with pytest.raises(Refused, match="is not its own"):
                await nodes[0].settle(foreign, actor)
            assert books.audit().problems == ()
        for node in nodes:
            await node.close()

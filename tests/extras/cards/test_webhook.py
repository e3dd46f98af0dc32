"""`POST /webhooks/stripe`: false signatures and too much at once; and looks that fail. `played/` has the rest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator
from itertools import product
from types import SimpleNamespace
from typing import Final

import pytest
from yarl import URL

from gateway.base.money import NANO
from gateway.extras.cards import cashier, webhook
from gateway.extras.cards.records import Payment
from gateway.extras.cards.stripe_objects import READERS
from gateway.server.serve import make_app
from tests import ROOT
from tests.api.mutations import play_json_games
from tests.extras.cards.conftest import Shop
from tests.extras.cards.stripe_server import (
    PATH,
    make_charge,
    make_dispute,
    make_event,
    make_move,
    make_refund,
    sign,
    tell,
)
from tests.extras.console.kit import API
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.rows import told_together
from tests.support.served import OPERATOR

COMPLETED: Final = "checkout.session.completed"
EXAMPLES: Final = 300 if ALL_EXAMPLES else 100
ODD: Final = ("a%0d%0aodd:%20b", "%00%ff", "%ed%a0%80", "%")


async def test_what_is_not_signed_is_not_read(shop: Shop) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    body = make_event(COMPLETED, session)
    right = sign(body)
    rows = {
        "no header": "",
        "no signature": right.split(",")[0],
        "no time": right.partition(",")[2],
        "another secret": sign(body, secret="whsec_other"),
        "an empty secret": sign(body, secret=""),
        "another body": sign(body + b" "),
        "too old": sign(body, age_seconds=301),
        "another time": right.replace("t=", "t=9"),
        "another scheme": right.replace("v1=", "v0="),
        "no text": "t=1,v1=ä",
    }
    with told_together() as row:
        for name, signature in rows.items():
            with row(name):
                headers = {"Stripe-Signature": signature}
                reply = await shop.console.post(PATH, body, as_=None, headers=headers)
                assert reply.refusal == (400, "bad_signature", None)
    broken = b"\xff{"
    headers = {"Stripe-Signature": sign(broken)}
    large = b" " * (webhook.MAX_BODY_BYTES + 1)
    assert (await shop.console.post(PATH, large, as_=None)).status == 413
    assert (await shop.console.post(PATH, broken, as_=None, headers=headers)).status == 400
    assert (shop.added_nano(), shop.read_orders()[0].state) == (0, "made")
    # Nearly as old, and from nowhere, is good enough.
    headers = {"Stripe-Signature": sign(body, age_seconds=290), "Origin": "https://evil.example"}
    assert (await shop.console.post(PATH, body, as_=None, headers=headers)).status == 200
    assert shop.added_nano() == 10 * NANO


async def test_too_many_at_once_come_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    for _ in range(2):  # those that have ended do not count
        assert (await tell(shop.console, "customer.created", {"id": "cus_1"})).status == 200
    monkeypatch.setattr(webhook, "AT_ONCE", 0)
    assert (await tell(shop.console, COMPLETED, session)).status == 503
    monkeypatch.undo()
    shop.console.gateway.draining = True
    assert (await tell(shop.console, COMPLETED, session)).status == 503
    assert shop.added_nano() == 0


async def test_an_odd_message_is_no_fault_of_ours(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """It is read, refused as malformed, or contradicts its order: whatever Stripe signs."""
    page = await shop.open_page()
    dice = random.Random(seed := random.randrange(10**6))
    moves = [make_move("txn_1", 1500), "txn_2"]
    things = {
        COMPLETED: page,
        "charge.refunded": make_charge("pi_1", 100, metadata={"order": "order_1"}),
        "refund.updated": make_refund("pi_1", 100),
        "charge.dispute.closed": make_dispute("pi_1", 100, balance_transactions=moves),
    }
    counts = Counter[int]()
    for number in range(EXAMPLES):
        kind, thing = dice.choice(list(things.items()))
        event = json.loads(make_event(kind, dict(thing)))
        if number % 4 == 3 and kind == COMPLETED:
            event["data"]["object"] |= shop.stripe.pay(page["id"])
        data = json.dumps(play_json_games(dice, event)).encode()
        headers = {"Stripe-Signature": sign(data)}
        reply = await shop.console.post(PATH, data, as_=None, headers=headers)
        counts[reply.status] += 1
        assert reply.status in {200, 400} or reply.refusal[:2] == (500, "not_credited"), (
            seed,
            reply.json,
            data,
        )
    assert not [one for one in caplog.records if one.exc_info], seed
    assert min(counts[200], counts[400]) > EXAMPLES // 20, counts


async def test_strangers_bodies_keep_no_message_out(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They begin and do not end, from one address or from many: the oldest are dropped for others."""
    monkeypatch.setattr(webhook, "ARRIVING_ADDRESS", 3)
    monkeypatch.setattr(webhook, "ARRIVING", 8)
    session = shop.stripe.pay((await shop.open_page())["id"])
    rest = make_event("customer.created", {"id": "cus_1"})
    for places in (["127.0.0.1"], [f"127.0.0.{one}" for one in range(2, 12)]):
        async with contextlib.AsyncExitStack() as stack:
            opened = [
                await stack.enter_async_context(begin_body(shop, place, rest))
                for place in (places * 12)[:12]
            ]
            assert (await tell(shop.console, COMPLETED, session)).status == 200
            # The others are good for a message still.
            left = 2 if len(places) == 1 else 7
            for reader, _ in opened[:-left]:
                assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
            for reader, writer in opened[-left:]:
                writer.write(rest[-1:])
                assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    assert shop.added_nano() == 10 * NANO


@contextlib.asynccontextmanager
async def begin_body(
    shop: Shop, place: str, body: bytes
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Send all of a message but its last byte, from an address of this machine."""
    url = URL(shop.console.root_url)
    reader, writer = await asyncio.open_connection(url.host, url.port, local_addr=(place, 0))
    head = f"POST {PATH} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Stripe-Signature: {sign(body)}\r\n\r\n".encode() + body[:-1])
    try:
        yield reader, writer
    finally:
        writer.close()


async def test_odd_bytes_in_an_address_are_answered(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """In every route's path and query: none is a fault of ours, or reaches a header as it is."""
    resources = make_app(shop.console.gateway).router.resources()
    paths = {re.sub(r"{[^}]*}", "{}", one.canonical) for one in resources}
    assert len(paths) > 80
    made = await shop.console.post(f"{API}/keys", {"name": "laptop"})
    for path, odd in product(sorted(paths), ODD):
        target = f"{path.replace('{}', odd)}?cursor={odd}&name={odd}&account={odd}&{odd}"
        key = {"Authorization": f"Bearer {made.json['secret']}"} if path.startswith("/v1") else {}
        reply = await shop.console.get(target, as_=OPERATOR, headers=key)
        assert reply.status < 500, target
        assert not [name for name in reply.headers if name.lower() == "odd"], target
    assert not [one for one in caplog.records if one.exc_info]


def test_the_document_names_events_that_are_read() -> None:
    text = (ROOT / "gateway/extras/cards/cards.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:checkout|charge|refund)\.[a-z_.]+)`", text))
    assert named <= READERS.keys()
    assert {READERS[name] for name in named} == set(READERS.values())


async def test_a_look_that_fails_is_not_the_last(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    session = await shop.open_page()
    looking = shop.make_cashier()
    shop.stripe.status = 404  # of another account of Stripe's
    await looking.look_all_up()
    waits: list[float] = []

    def break_down(_: str) -> Payment:
        raise ZeroDivisionError

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            assert [one.levelname for one in caplog.records] == ["WARNING"]  # once for all
            shop.stripe.status = 200
            vars(looking.provider)["look_up"] = break_down
        if len(waits) == 3:
            del vars(looking.provider)["look_up"]
            shop.stripe.pay(session["id"])
        if len(waits) == 4:
            raise KeyError

    shop.stripe.status = 503
    caplog.clear()
    # Only of this module: the loop's lag is measured meanwhile, between sleeps.
    loop = SimpleNamespace(sleep=wait, get_running_loop=asyncio.get_running_loop)
    monkeypatch.setattr(cashier, "asyncio", loop)
    with pytest.raises(KeyError):
        await looking.run()
    monkeypatch.undo()
    assert (waits, shop.added_nano()) == ([cashier.LOOK_SECONDS] * 4, 10 * NANO)
    await looking.close()


@pytest.mark.slow
def test_nothing_of_stripe_s_is_loaded_without_it() -> None:
    code = "import sys, gateway.server.serve, gateway.config.load; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert not {"gateway.extras.cards.webhook", "requests", "stripe"} & set(done.stdout.split())

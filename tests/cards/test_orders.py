"""Credit bought by card: the order, its payment page, the way back, and look-ups of what was not told."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from gateway.cards import cashier
from gateway.cards.cashier import Cashier
from gateway.cards.stripe import Stripe
from gateway.config.records import Cards
from gateway.console.state import BooksThread
from gateway.ledger.order_records import Payment
from gateway.money import NANO
from gateway.times import DAY_MS, unix_ms
from tests.cards.conftest import Shop
from tests.cards.stripe_server import SECRET_KEY, WEBHOOK_SECRET, make_refund, run_stripe, tell
from tests.console.kit import API, HOLDER, OPERATOR, OTHER, Console, open_console, read_pages
from tests.support.cli import run_here
from tests.support.rows import told_together

ORDERS: Final = f"{API}/billing/orders"


def make_cashier(shop: Shop) -> Cashier:
    """Make one like the gateway's own, whose chore sleeps."""
    url = shop.stripe.url
    cards = Cards(SECRET_KEY, WEBHOOK_SECRET, (), 0, 0, url)
    return Cashier(Stripe(cards), BooksThread(shop.console.database))


async def test_billing_is_as_before_without_stripe(console: Console) -> None:
    assert "cards" not in (await console.get(f"{API}/billing")).json
    reply = await console.post(ORDERS, {"amount": "10"}, key="a")
    assert reply.refusal == (404, "not_found", None)
    assert (await console.post("/webhooks/stripe", b"{}", as_=None)).status == 404


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console


async def test_an_order_has_one_page_however_often_it_is_sent(shop: Shop) -> None:
    told = (await shop.console.get(f"{API}/billing")).json["cards"]
    assert (told["currency"], told["minimum"], told["maximum"]) == ("USD", "5.00", "100000.00")
    assert told["amounts"] == ["10.00", "25.00", "50.00", "100.00"]
    first, second = [await shop.order("10", key="a") for _ in range(2)]
    assert (first.status, first.json) == (201, second.json)
    assert second.headers["Idempotent-Replay"] == "true"
    (order,) = shop.read_orders()
    assert (order.id, order.session_id) == (first.json["order"]["id"], "cs_test_1")
    session = shop.stripe.sessions["cs_test_1"]
    assert session["success_url"].endswith(f"/console/billing?order={order.id}")
    assert (await shop.order("25", key="a")).refusal == (409, "idempotency_conflict", None)


async def test_amounts_are_within_bounds_and_whole_cents(shop: Shop) -> None:
    with told_together() as row:
        for amount in ("4.99", "100000.01", "10.001", "0", "-10"):
            with row(amount):
                assert (await shop.order(amount)).refusal == (400, "invalid_field", "amount")
    assert (shop.read_orders(), shop.stripe.asked) == ([], [])
    for amount in ("5", "100000"):
        assert (await shop.order(amount)).status == 201


@pytest.mark.parametrize(
    ("status", "code", "state"),
    [
        (400, "payment_refused", "failed"),
        (503, "unavailable", "made"),
        (429, "unavailable", "made"),
    ],
)
async def test_a_provider_that_fails_is_told(
    shop: Shop, caplog: pytest.LogCaptureFixture, status: int, code: str, state: str
) -> None:
    """The log has the kind of error, and not its text, which may quote anything."""
    caplog.set_level(logging.INFO)
    shop.stripe.status = status
    assert (await shop.order(key="a")).error["code"] == code
    assert shop.read_orders()[0].state == state
    shop.stripe.status = 200
    # One that ended gets no page any more: only open orders are looked up.
    assert (await shop.order(key="a")).status == (409 if state == "failed" else 201)
    assert f"status {status}" in caplog.text
    assert "no such thing" not in caplog.text
    assert "/v1/checkout" not in caplog.text


async def test_coming_back_looks_the_order_up(shop: Shop) -> None:
    """The provider's message may be lost; the holder may reload the page without end."""
    session = await shop.open_page()
    path = f"{ORDERS}/{session['client_reference_id']}"
    assert (await shop.console.get(path)).json["order"]["state"] == "made"
    shop.stripe.pay(session["id"])
    for _ in range(2):
        assert (await shop.console.get(path)).json["order"]["state"] == "paid"
    asked = f"GET /v1/checkout/sessions/{session['id']}"
    assert (shop.added_nano(), shop.stripe.asked.count(asked)) == (10 * NANO, 2)
    assert (await shop.console.get(path, as_=OTHER)).refusal == (404, "not_found", None)
    assert (await shop.console.get(path, as_=OPERATOR)).status == 200
    other = await shop.open_page()
    path = f"{ORDERS}/{other['client_reference_id']}"
    shop.stripe.status = 500
    for _ in range(cashier.LOOK_UPS + 5):
        assert (await shop.console.get(path)).json["order"]["state"] == "made"
    assert shop.stripe.asked.count(f"GET /v1/checkout/sessions/{other['id']}") <= cashier.LOOK_UPS


async def test_an_order_has_no_second_page(shop: Shop) -> None:
    """The provider forgets the key of a request after a day; what is paid by another page is not credited."""
    first = await shop.order("10", key="a")
    shop.stripe.keys["forgotten"] = shop.stripe.keys.pop(first.json["order"]["id"])
    assert (await shop.order("10", key="a")).refusal == (409, "conflict", None)
    shop.stripe.sessions["cs_test_1"]["status"] = "expired"
    path = f"{ORDERS}/{first.json['order']['id']}"
    assert (await shop.console.get(path)).json["order"]["state"] == "expired"
    asked = len(shop.stripe.asked)
    assert (await shop.order("10", key="a")).refusal == (409, "conflict", None)
    assert len(shop.stripe.asked) == asked


async def test_receipts_are_throttled(shop: Shop) -> None:
    """Each is a request to the provider, whose replies all accounts wait for."""
    session = await shop.open_page()
    path = f"{ORDERS}/{session['client_reference_id']}/receipt"
    found = [(await shop.console.get(path)).status for _ in range(cashier.LOOK_UPS + 2)]
    assert found == [404] * cashier.LOOK_UPS + [429] * 2


async def test_a_receipt_is_the_provider_s(shop: Shop) -> None:
    session = await shop.open_page()
    path = f"{ORDERS}/{session['client_reference_id']}/receipt"
    assert (await shop.console.get(path)).status == 404
    shop.stripe.pay(session["id"])
    reply = await shop.console.get(path)
    wanted = f"https://invoice.example.com/in_{session['id']}"
    assert (reply.status, reply.headers["Location"]) == (303, wanted)
    assert (await shop.console.get(path, as_=OTHER)).status == 404
    shop.stripe.status = 500
    assert (await shop.console.get(path)).status == 503
    shop.stripe.status = 404
    assert (await shop.console.get(path)).status == 404
    shop.stripe.status = 503
    await shop.order()
    (order, _) = shop.read_orders()
    assert (await shop.console.get(f"{ORDERS}/{order.id}/receipt")).status == 404


async def test_open_orders_are_looked_up(shop: Shop) -> None:
    """A payment of which nothing was told is found, and what was never paid ends."""
    paid, left = await shop.open_page(), await shop.open_page()
    shop.stripe.pay(paid["id"])
    shop.stripe.sessions[left["id"]]["status"] = "expired"
    with shop.console.open_books() as books:
        vars(books)["clock"] = lambda: unix_ms() - DAY_MS - 1
        books.orders.make(HOLDER, NANO, "USD")
        vars(books)["clock"] = lambda: unix_ms() - 3 * DAY_MS
        late = books.orders.make(HOLDER, NANO, "USD")
        books.orders.save_page(late.id, paid["id"] + "_late")
    shop.stripe.sessions[paid["id"] + "_late"] = {
        **paid,
        "id": paid["id"] + "_late",
        "metadata": {"order": late.id},
        "amount_total": 100,
        "payment_intent": "pi_late",
    }
    looking = make_cashier(shop)
    await looking.look_all_up()
    states = {order.id: order.state for order in shop.read_orders()}
    assert sorted(states.values()) == ["expired", "expired", "made", "paid"]
    assert states[late.id] == "made"
    await looking.look_all_up(cashier.ALL_MS)
    assert shop.added_nano() == 11 * NANO
    assert ("order.pay", "system") in shop.list_events("order.pay")
    asked = len(shop.stripe.asked)
    await looking.look_all_up(cashier.ALL_MS)
    assert len(shop.stripe.asked) == asked, "nothing is open"
    await looking.close()


async def test_a_look_that_fails_is_not_the_last(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = await shop.open_page()
    looking = make_cashier(shop)
    shop.stripe.status = 404  # of another account of Stripe's
    await looking.look_all_up()
    waits: list[float] = []

    def break_down(_: str) -> Payment:
        raise ZeroDivisionError

    async def wait(seconds: float) -> None:
        waits.append(seconds)
        shop.stripe.status = 200
        vars(looking.provider)["look_up"] = break_down
        if len(waits) == 2:
            del vars(looking.provider)["look_up"]
            shop.stripe.pay(session["id"])
        if len(waits) == 3:
            raise KeyError

    shop.stripe.status = 503
    monkeypatch.setattr("gateway.cards.cashier.asyncio.sleep", wait)
    with pytest.raises(KeyError):
        await looking.run()
    monkeypatch.undo()
    assert (waits, shop.added_nano()) == ([cashier.LOOK_SECONDS] * 3, 10 * NANO)
    await looking.close()


async def test_a_page_without_its_id_is_credited_all_the_same(shop: Shop) -> None:
    """The process died between Stripe's answer and the row."""
    session = await shop.open_page()
    with shop.console.open_books() as books, books.changing() as connection:
        connection.execute("DROP TRIGGER orders_keep_terms")
        connection.execute("UPDATE orders SET session_id = NULL")
    paid = shop.stripe.pay(session["id"])
    assert (await tell(shop.console, "checkout.session.completed", paid)).status == 200
    assert shop.added_nano() == 10 * NANO


async def test_yen_have_no_decimals(tmp_path: Path) -> None:
    async with run_stripe() as stripe:
        billing = f"{stripe.billing}amounts = [1000]\n"
        async with open_console(tmp_path, billing=billing, currency="JPY") as console:
            shop = Shop(console, stripe)
            assert (await shop.order("1000.5")).refusal == (400, "invalid_field", "amount")
            session = stripe.pay((await shop.open_page("1000"))["id"])
            assert (session["amount_total"], session["currency"]) == (1000, "jpy")
            assert (await tell(console, "checkout.session.completed", session)).status == 200
            assert shop.added_nano() == 1000 * NANO
            refund = make_refund(session["payment_intent"], 300, currency="jpy")
            assert (await tell(console, "refund.created", refund)).status == 200
            assert shop.added_nano() == 700 * NANO


@pytest.mark.slow
def test_nothing_of_stripe_s_is_loaded_without_it() -> None:
    code = "import sys, gateway.server.serve, gateway.config.load; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert not {"gateway.cards", "requests", "stripe"} & set(done.stdout.split())


async def test_the_command_lists_orders(shop: Shop) -> None:
    paid, _ = shop.stripe.pay((await shop.open_page())["id"]), await shop.open_page("25")
    await tell(shop.console, "checkout.session.completed", paid)
    config = ["--config", str(shop.console.folder / "gateway.toml")]
    rows = run_here(["orders", "--json", *config], {}).json
    assert [(one["amount"], one["state"]) for one in rows] == [("25.00", "made"), ("10.00", "paid")]
    shown = run_here(["orders", "--state", "paid", "--account", HOLDER, *config], {}).out
    assert paid["client_reference_id"] in shown
    assert "25.00" not in shown
    assert run_here(["orders", "--account", "nobody", *config], {}).code != 0


async def test_operators_list_the_orders_of_all(shop: Shop) -> None:
    """In pages, by state and account, with the credit and the payment at Stripe."""
    session = shop.stripe.pay((await shop.open_page())["id"])
    await tell(shop.console, "checkout.session.completed", session)
    await shop.open_page("25"), await shop.open_page("50", as_=OTHER)
    path = f"{API}/orders"
    assert (await shop.console.get(path)).refusal == (404, "not_found", None)
    rows = {
        "": ["50.00", "25.00", "10.00"],
        "state=made": ["50.00", "25.00"],
        f"account={HOLDER}": ["25.00", "10.00"],
        f"account={HOLDER}&state=paid": ["10.00"],
        "state=failed": [],
    }
    with told_together() as row:
        for query, amounts in rows.items():
            with row(query):
                found = await shop.console.get(f"{path}?{query}", as_=OPERATOR)
                assert [one["amount"] for one in found.json["orders"]] == amounts
                paged = await read_pages(
                    shop.console, f"{path}?limit=1&{query}", "orders", as_=OPERATOR
                )
                assert [one["amount"] for one in paged] == amounts
    (paid,) = (await shop.console.get(f"{path}?state=paid", as_=OPERATOR)).json["orders"]
    assert (paid["payment_id"], paid["fee"]) == (session["payment_intent"], None)
    assert paid["payment_url"].endswith(f"/test/payments/{session['payment_intent']}")
    entries = (await shop.console.get(f"{API}/billing?kind=card")).json["entries"]
    assert [paid["entry_id"]] == [entry["id"] for entry in entries]
    assert (await shop.console.get(f"{path}?account=nobody", as_=OPERATOR)).status == 400

"""Orders paid by card: credited once, by their own terms, in whatever order messages come."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import permutations
from typing import Any, Final

import pytest

from gateway.ledger.order_records import OrderView, Payment, Reversal
from gateway.ledger.records import Conflict, LedgerError, NotFound
from gateway.ledger.sql import audit
from gateway.ledger.sql.orders import MAX_OPEN
from gateway.ledger.sqlite.books import SqliteBooks
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.places import AnyBooks

BEGINNING: Final = 1000
"""The balance before any payment, in nano-units."""
PRICE: Final = 500


@pytest.fixture
def order(books: AnyBooks) -> OrderView:
    return books.orders.make("a", PRICE, "USD")


@pytest.fixture(autouse=True)
def sound(books: AnyBooks) -> Iterator[None]:
    yield
    assert books.audit().problems == ()


def paid(order: OrderView, **others: Any) -> Payment:
    payment = Payment("cs_1", order.id, "paid", PRICE, "USD", "pi_1")
    return replace(payment, **others)


def refund(amount_nano: int = PRICE, **others: Any) -> Reversal:
    one = Reversal("re_1", "refund", "pi_1", None, amount_nano, "USD", stands=True)
    return replace(one, **others)


def balance(books: AnyBooks) -> int:
    return books.accounts.read("a").balance_nano


def list_events(books: AnyBooks, action: str) -> list[str]:
    return [event.detail for event in reversed(books.events.read_page(action, None, 50))]


def test_a_payment_is_credited_once(books: AnyBooks, order: OrderView) -> None:
    assert (order.state, order.session_id) == ("made", None)
    books.orders.save_page(order.id, "cs_1")
    for _ in range(3):
        assert books.orders.settle(paid(order)) is None
    assert balance(books) == BEGINNING + PRICE
    (entry,) = (one for one in books.entries.read_latest("a", 9) if one.kind == "card")
    assert (entry.amount_nano, entry.note) == (PRICE, f"card payment {order.id}")
    (found,) = books.orders.read_latest("a", "paid", 9)
    assert (found.session_id, found.payment_id, found.changed_ms) == ("cs_1", "pi_1", NOW_MS)
    assert len(list_events(books, "order.pay")) == 1
    (line,) = books.statements.read(0, 10**6)
    assert (line.cards_nano, line.closing_nano) == (PRICE, balance(books))
    assert books.usage.read_gateway(0).credited_nano == {NOW_MS // 86_400_000: 1500}


@pytest.mark.parametrize("states", list(permutations(["open", "expired", "failed", "paid"])))
def test_whatever_comes_before_or_behind_a_payment_is_no_matter(
    books: AnyBooks, order: OrderView, states: tuple[str, ...]
) -> None:
    for state in states:
        assert books.orders.settle(paid(order, state=state)) is None
    assert books.orders.read(order.id).state == "paid"
    assert balance(books) == BEGINNING + PRICE


@pytest.mark.parametrize("state", ["expired", "failed"])
def test_what_ended_unpaid_is_not_credited(books: AnyBooks, order: OrderView, state: str) -> None:
    books.orders.settle(paid(order, state=state))
    books.orders.end(order.id, "expired", "a day went by")
    assert books.orders.read(order.id).state == state
    assert (balance(books), len(list_events(books, f"order.{state}"))) == (BEGINNING, 1)


def test_a_page_finds_its_order_if_its_id_was_not_kept(books: AnyBooks, order: OrderView) -> None:
    """The process died between the two."""
    books.orders.settle(paid(order, state="open"))
    assert books.orders.read(order.id).session_id == "cs_1"
    assert books.orders.save_page(order.id, "cs_2").session_id == "cs_1"


@pytest.mark.parametrize(
    "others", [{"amount_nano": PRICE - 1}, {"amount_nano": PRICE + 1}, {"currency": "EUR"}]
)
def test_another_amount_is_not_credited(
    books: AnyBooks, order: OrderView, others: dict[str, Any]
) -> None:
    for _ in range(2):
        said = books.orders.settle(paid(order, **others))
        assert said is not None
        assert said.endswith("was paid")
    assert (balance(books), books.orders.read(order.id).state) == (BEGINNING, "failed")
    assert len(list_events(books, "order.refuse")) == 1


def test_a_page_pays_for_its_own_order_alone(books: AnyBooks, order: OrderView) -> None:
    books.accounts.create("b")
    other = books.orders.make("b", PRICE, "USD")
    books.orders.save_page(order.id, "cs_1")
    books.orders.save_page(other.id, "cs_2")
    for wrong in (paid(order, session_id="cs_2"), paid(order, session_id="cs_3")):
        assert "payment page" in (books.orders.settle(wrong) or "")
    assert balance(books) == BEGINNING
    assert [one.state for one in books.orders.read_latest(None, None, 99)] == ["made", "made"]
    with pytest.raises(NotFound, match="no order has the payment page cs_9"):
        books.orders.settle(paid(order, session_id="cs_9", order_id="order_9"))


def test_orders_are_kept_as_they_were_made(books: AnyBooks, order: OrderView) -> None:
    books.orders.settle(paid(order))
    for sql in (
        "UPDATE orders SET amount_nano = 9",
        "UPDATE orders SET account_id = 2",
        "UPDATE orders SET session_id = 'cs_9'",
        "UPDATE orders SET entry_id = NULL, state = 'made'",
        "DELETE FROM orders",
    ):
        with (
            pytest.raises(LedgerError, match=r"an order keeps its terms|orders are"),
            books.changing() as connection,
        ):
            connection.execute(sql)


def test_an_account_has_some_orders_at_once(books: AnyBooks, order: OrderView) -> None:
    for _ in range(MAX_OPEN - 1):
        books.orders.make("a", PRICE, "USD")
    with pytest.raises(Conflict, match="payments under way"):
        books.orders.make("a", PRICE, "USD")
    books.orders.settle(paid(order))
    books.orders.make("a", PRICE, "USD")


class Undone(Exception):
    """Ends a transaction without its effect."""


ORDER_CHECKS: Final = [check for check in audit.IN_FULL if "orders" in check.sql]
REVERSALS: Final = [
    refund(100),
    refund(150, id="re_2"),
    refund(100, stands=False),
    refund(100, id="ch_1", kind="refunds"),
    refund(250, id="ch_1", kind="refunds"),
    refund(PRICE, id="dp_1", kind="dispute"),
    refund(PRICE, id="dp_1", kind="dispute", stands=False),
]
"""Two refunds, of which one fails, told one by one and as sums; and a dispute that is won."""


@pytest.mark.parametrize("turn", range(len(REVERSALS)))
def test_what_is_taken_back_does_not_depend_on_the_order_of_messages(
    books: AnyBooks, order: OrderView, turn: int
) -> None:
    books.orders.settle(paid(order))
    for one in REVERSALS[turn:] + REVERSALS[:turn] + REVERSALS[::-1]:
        assert books.orders.take_back(one) is None
    assert balance(books) == BEGINNING + PRICE - 150
    found = books.orders.read(order.id)
    assert (found.taken_nano, found.state) == (150, "paid")


def test_a_refund_and_a_dispute_both_count(books: AnyBooks, order: OrderView) -> None:
    """An amount that the holder got back twice is taken twice, whatever the balance."""
    books.orders.settle(paid(order))
    for one in (refund(), refund(id="ch_1", kind="refunds"), refund(id="dp_1", kind="dispute")):
        books.orders.take_back(one)
        assert books.orders.read(order.id).state == "refunded"
    assert balance(books) == BEGINNING + PRICE - 2 * PRICE
    assert [len(list_events(books, f"order.{what}")) for what in ("refund", "dispute")] == [1, 1]
    assert books.orders.settle(paid(order)) is None
    assert balance(books) == BEGINNING - PRICE


def test_nothing_is_taken_back_that_was_not_credited(books: AnyBooks, order: OrderView) -> None:
    for one in (refund(), refund(order_id=order.id), refund(order_id="order_9")):
        with pytest.raises(NotFound, match="is not credited"):
            books.orders.take_back(one)
    books.orders.settle(paid(order))
    for one in (refund(currency="EUR"), refund(payment_id="pi_2", order_id=order.id)):
        assert one.id in (books.orders.take_back(one) or "")
    assert balance(books) == BEGINNING + PRICE
    assert books.orders.take_back(refund(order_id=order.id)) is None
    assert balance(books) == BEGINNING


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        ("UPDATE orders SET state = 'made', entry_id = NULL", "no order was paid by it"),
        ("UPDATE orders SET amount_nano = 7", "has another kind, amount, account"),
        ("UPDATE orders SET session_id = 'cs_9'", "has another kind, amount, account"),
        ("UPDATE orders SET taken_nano = 7", "7 nano-units are said to be taken back"),
    ],
)
def test_the_audit_pairs_orders_and_credits(
    books: AnyBooks, order: OrderView, spoil: str, problem: str
) -> None:
    books.orders.settle(paid(order))
    books.orders.take_back(refund(20))
    is_file = isinstance(books, SqliteBooks)
    with suppress(Undone), books.changing() as connection:
        connection.execute("DROP TRIGGER orders_keep_terms" + ("" if is_file else " ON orders"))
        connection.execute(spoil)
        found = [text for check in ORDER_CHECKS for text in audit._find(connection, check, {})]
        assert any(problem in one for one in found), found
        raise Undone

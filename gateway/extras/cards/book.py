"""Orders of credit paid by card: each is credited once, and refunds and disputes are corrected.

The payment provider's messages may come late, twice, in any order or never. So nothing depends on
earlier messages: a paid page is credited whatever the order's state, and the amount taken back is
computed from all known refunds and disputes.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Final

import orjson

from gateway.base.money import format_amount
from gateway.base.times import DAY_MS
from gateway.extras.cards.records import Fee, FeeSums, OrderState, OrderView, Payment, Reversal
from gateway.ledger.records import Conflict, NotFound
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part, Value, read_script

OPEN_MS: Final = 31 * DAY_MS
"""How long an open order is looked up. Most pages expire after a day, but some payments take weeks."""
MAX_OPEN: Final = 20
"""Open orders of an account: each is looked up at the provider until it ends."""
_ID_BYTES: Final = 8
"""Random bytes of an id, behind its time: 64 bits, so that no two collide."""

_SQL: Final = read_script(__file__)
_EACH: Final = _SQL["each"]
_ONE: Final = f"{_EACH} WHERE orders.id = ?"
_OF_PAGE: Final = f"{_EACH} WHERE session_id = ?"
_OF_PAYMENT: Final = f"{_EACH} WHERE payment_id = ?"
_LATEST: Final = f"""
    {_EACH} WHERE accounts.name = coalesce(:account, accounts.name)
        AND state = coalesce(:state, state) AND orders.created_ms >= :since
        AND orders.id < coalesce(:below, orders.id || ' ')
    ORDER BY orders.id DESC LIMIT :limit
"""
_OPEN: Final = f"{_EACH} WHERE state = 'made' AND orders.created_ms >= ? ORDER BY orders.id"
_COUNT_OPEN: Final = (
    "SELECT count(*) FROM orders WHERE state = 'made' AND account_id = ? AND created_ms >= ?"
)
_SAVE_PAGE: Final = "UPDATE orders SET session_id = ? WHERE id = ? AND session_id IS NULL"
_LACKS_FEE: Final = """
    state IN ('paid', 'refunded') AND payment_id IS NOT NULL AND NOT EXISTS (
        SELECT 1 FROM order_fees WHERE order_id = orders.id AND kind = 'payment'
    )
"""
_WITHOUT_FEE: Final = f"{_EACH} WHERE {_LACKS_FEE} AND changed_ms >= ? ORDER BY orders.id DESC"
_COUNT_UNKNOWN: Final = f"""
    SELECT count(*) FROM orders
    JOIN accounts ON accounts.id = account_id AND name = coalesce(:account, name)
    WHERE {_LACKS_FEE} AND orders.created_ms >= :since AND orders.created_ms < :until
"""  # noqa: S608 - built from constants


class OrderBook(Part):
    def __init__(self, books: Books) -> None:
        super().__init__(books)
        self._entries = books.entries

    def make(self, account: str, amount_nano: int, currency: str) -> OrderView:
        """Make an order, before the provider is asked for its payment page."""
        with self._database.changing():
            owner, now_ms = self._database.read_account(account), self._database.clock()
            open_orders = self._database.read_number(_COUNT_OPEN, (owner.id, now_ms - OPEN_MS))
            if open_orders >= MAX_OPEN:
                raise Conflict(
                    f"there are {open_orders} payments under way; pay one of them, or wait until one ends"
                )
            order: dict[str, Value] = {
                "id": f"order_{now_ms:012x}{secrets.token_hex(_ID_BYTES)}",
                "account_id": owner.id,
                "amount_nano": amount_nano,
                "currency": currency,
                "state": "made",
                "created_ms": now_ms,
                "changed_ms": now_ms,
            }
            self._database.insert("orders", order)
            made = self.read(str(order["id"]))
            self._note("order.make", made, f"{format_amount(amount_nano)} {currency}")
            return made

    def save_page(self, order_id: str, session_id: str) -> OrderView:
        """Keep the id of the order's payment page."""
        with self._database.changing():
            if self._database.change(_SAVE_PAGE, (session_id, order_id)):
                self._note("order.page", self.read(order_id), session_id)
            return self.read(order_id)

    def end(self, order_id: str, state: OrderState, words: str) -> OrderView:
        """End an order that was not paid; an order that has ended stays as it is."""
        with self._database.changing():
            order = self.read(order_id)
            if order.state == "made":
                self._end(order, state, words)
            return self.read(order_id)

    def settle(self, payment: Payment) -> str | None:
        """Bring the order to the state that its provider reports; return why that is refused, or None.

        A refusal is stored as an event. It is returned, because an error would roll the event back. Raises
        NotFound if no order has the payment page.
        """
        with self._database.changing():
            order = self._find(_OF_PAGE, payment.session_id, payment.order_id)
            if order is None:
                raise NotFound(f"no order has the payment page {payment.session_id}")
            if words := _contradict(order, payment):
                return self._refuse(order, words)
            match payment.state:
                case "paid" if order.state not in {"paid", "refunded"}:
                    if words := _differ(order, payment.amount_nano, payment.currency):
                        return self._refuse(order, f"{words} was paid", is_failed=True)
                    self._pay(order, payment)
                case "failed" | "expired" if order.state == "made":
                    self._end(order, payment.state, payment.session_id)
                case _ if order.session_id is None:
                    self._database.change(_SAVE_PAGE, (payment.session_id, order.id))
                case _:
                    pass
            return None

    def take_back(self, reversal: Reversal) -> str | None:
        """Correct the balance by what a refund or a dispute took; return why that is refused, or None.

        Raises NotFound if no order that was credited has the payment.
        """
        with self._database.changing():
            order = self._find(_OF_PAYMENT, reversal.payment_id, reversal.order_id)
            if order is None or order.state not in {"paid", "refunded"}:
                raise NotFound(f"the payment {reversal.payment_id} is not credited")
            if reversal.payment_id and order.payment_id not in {None, reversal.payment_id}:
                words = f"{reversal.id} is of {reversal.payment_id}, another payment"
                return self._refuse(order, words)
            if reversal.currency != order.currency.upper():
                words = f"{reversal.id} is in {reversal.currency}"
                return self._refuse(order, words)
            row = (reversal.kind, reversal.amount_nano, int(reversal.stands))
            self._database.change(_SQL["keep reversal"], (reversal.id, order.id, *row))
            self._correct(order, reversal)
            for fee in reversal.fees:
                self._keep_fee(order, fee)
            return None

    def find_untold(self, reversals: Sequence[Reversal]) -> list[Reversal]:
        """Return those that have an amount, a failure or a fee that is not stored yet."""
        ids = orjson.dumps([one.id for one in reversals]).decode()
        fee_ids = orjson.dumps([fee.id for one in reversals for fee in one.fees]).decode()
        with self._database.snapshot():
            kept = {
                str(id_): (int(nano), int(stands))
                for id_, nano, stands in self._database.fetch(_SQL["kept reversals"], {"ids": ids})
            }
            rows = self._database.fetch(_SQL["kept fees"], {"ids": fee_ids})
        fees = {str(id_) for (id_,) in rows}

        def is_kept(one: Reversal) -> bool:
            # The larger amount stays, and so does a failure, as in "keep reversal".
            amount_nano, stands = kept.get(one.id, (-1, 1))
            is_new = amount_nano < one.amount_nano or stands > one.stands
            return not is_new and fees.issuperset(fee.id for fee in one.fees)

        return [one for one in reversals if not is_kept(one)]

    def keep_fee(self, order_id: str, fee: Fee) -> None:
        """Store the provider's fee for an order, once."""
        with self._database.changing():
            self._keep_fee(self.read(order_id), fee)

    def read(self, order_id: str) -> OrderView:
        """Return an order of any account. Raises NotFound."""
        order = self._find(_ONE, order_id, None)
        if order is None:
            raise NotFound(f"there is no order '{order_id}'")
        return order

    def read_open(self, since_ms: int) -> list[OrderView]:
        """Return the orders that have not ended and were made since a time, the earliest first."""
        return [OrderView(*row) for row in self._database.fetch(_OPEN, (since_ms,))]

    def read_without_fee(self, since_ms: int) -> list[OrderView]:
        """Return the orders whose payment's fee is unknown and that changed since a time, the latest first."""
        return [OrderView(*row) for row in self._database.fetch(_WITHOUT_FEE, (since_ms,))]

    def sum_fees(self, account: str | None, since_ms: int, until_ms: int) -> FeeSums:
        """Sum up the fees of a time, of one account or of all."""
        wanted = {"account": account, "since": since_ms, "until": until_ms}
        sums = self._database.fetch(_SQL["sum fees"], wanted)
        unknown = self._database.read_number(_COUNT_UNKNOWN, wanted)
        return FeeSums(
            tuple((str(one), int(orders), int(nano)) for one, orders, nano in sums), unknown
        )

    def read_latest(
        self,
        account: str | None,
        state: OrderState | None,
        limit: int,
        *,
        since_ms: int = 0,
        below_id: str | None = None,
    ) -> list[OrderView]:
        """Return the latest first."""
        chosen = {"account": account, "state": state, "limit": limit}
        wanted = {**chosen, "since": since_ms, "below": below_id}
        return [OrderView(*row) for row in self._database.fetch(_LATEST, wanted)]

    def _pay(self, order: OrderView, payment: Payment) -> None:
        entry = self._entries.post(
            order.account,
            "card",
            order.amount_nano,
            note=f"card payment {order.id}",
            idempotency_key=payment.session_id,
            target=order.id,
        )
        values = {"page": payment.session_id, "payment": payment.payment_id, "entry": entry.id}
        self._database.change(
            _SQL["pay"], {**values, "now": self._database.clock(), "id": order.id}
        )

    def _correct(self, order: OrderView, reversal: Reversal) -> None:
        """Post the difference between the amount taken back so far and the amount due."""
        reversals = self._database.read_one(_SQL["sum reversals"], (order.id,))
        disputed, refunded, failed, told = map(int, reversals)
        # A charge's total of refunds includes those that failed later, and may be older than other messages.
        # It was right at some moment, so less all failed refunds it is never above the truth. It helps where
        # a refund's own message is missing.
        taken_nano = disputed + max(refunded, told - failed)
        if taken_nano == order.taken_nano:
            return
        what = "dispute" if reversal.kind == "dispute" else "refund"
        self._entries.post(
            order.account,
            "correction",
            order.taken_nano - taken_nano,
            note=f"card {what} {reversal.id} of {order.id}",
            # Each state of a refund or a dispute is seen for the first time once.
            idempotency_key=f"{order.id} {reversal.id} {reversal.amount_nano} {reversal.stands}",
            target=order.id,
            action=f"order.{what}",
        )
        state = "refunded" if taken_nano >= order.amount_nano else "paid"
        taken: dict[str, Value] = {
            "state": state,
            "taken_nano": taken_nano,
            "changed_ms": self._database.clock(),
        }
        self._database.update("orders", order.id, taken)

    def _keep_fee(self, order: OrderView, fee: Fee) -> None:
        row = (fee.id, order.id, fee.kind, fee.amount_nano, fee.currency, fee.created_ms)
        if self._database.change(_SQL["keep fee"], row):
            words = f"{fee.kind} {fee.id}: {format_amount(fee.amount_nano)} {fee.currency}"
            self._note("order.fee", order, words)

    def _end(self, order: OrderView, state: OrderState, words: str) -> None:
        ended = {"state": state, "changed_ms": self._database.clock()}
        self._database.update("orders", order.id, ended)
        self._note(f"order.{state}", order, words)

    def _refuse(self, order: OrderView, words: str, *, is_failed: bool = False) -> str:
        """Note once that a message contradicts the order."""
        if not self._database.read_one(_SQL["is refused"], (order.id, words)):
            self._note("order.refuse", order, words)
        if is_failed and order.state == "made":
            self._end(order, "failed", words)
        return f"order {order.id}: {words}"

    def _note(self, action: str, order: OrderView, detail: str) -> None:
        self._database.note(action, account=order.account, target=order.id, detail=detail)

    def _find(self, sql: str, id_: str, order_id: str | None) -> OrderView | None:
        """Find an order by the provider's id, or else by the order's id that was sent to the provider."""
        row = self._database.read_one(sql, (id_,))
        if row is None and order_id is not None:
            row = self._database.read_one(_ONE, (order_id,))
        return None if row is None else OrderView(*row)


def _contradict(order: OrderView, payment: Payment) -> str | None:
    """Say how a payment page is not this order's; None if it is."""
    if order.session_id not in {None, payment.session_id}:
        return f"the payment page {payment.session_id} is not its own"
    if payment.order_id not in {None, order.id}:
        return f"the payment page {payment.session_id} names another order"
    return None


def _differ(order: OrderView, amount_nano: int, currency: str) -> str | None:
    """Say what differs from the order's amount and currency; None if nothing does."""
    if (amount_nano, currency) == (order.amount_nano, order.currency.upper()):
        return None
    return f"{format_amount(amount_nano)} {currency}"

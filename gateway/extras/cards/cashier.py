"""Open payment pages, bring orders to what their provider says, and ask it for events that did not arrive."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final, TypeVar

from gateway.base.times import DAY_MS
from gateway.extras.cards.book import OPEN_MS, OrderBook
from gateway.extras.cards.provider import (
    BadMessage,
    PaymentProvider,
    ProviderRefused,
    ProviderUnavailable,
)
from gateway.extras.cards.records import Fee, OrderView, Payment, Reversal
from gateway.extras.console.errors import ConsoleError, too_many_tries, unavailable
from gateway.extras.console.state import BooksThread
from gateway.extras.signins.throttle import Tries
from gateway.ledger.records import SYSTEM, Actor, LedgerError, NotFound, Refused
from gateway.ledger.sql.books import Books

log = logging.getLogger("gateway.cards")

T = TypeVar("T")

AT_ONCE: Final = 4
"""Threads that wait for the provider: few people pay at the same moment, and others queue meanwhile."""
LOOK_SECONDS: Final = 600.0
"""The pause between two looks at the provider; each open order takes a request to it."""
FEES_MS: Final = DAY_MS + DAY_MS // 12
"""How far back unknown fees are looked up, except at the first look, which goes back `OPEN_MS`: Stripe knows
a fee a moment after the payment."""
LOOK_UPS: Final = 30
"""Look-ups a minute that an account's holder can cause: by waiting on the page, reloading it, or opening
receipts."""


class Cashier:
    """Takes payments by card. The console finds it by `Gateway.find_offers`."""

    def __init__(
        self,
        provider: PaymentProvider,
        books_thread: BooksThread,
        offer: Mapping[str, object],
        find_problem: Callable[[int], str | None],
    ) -> None:
        self.provider = provider
        self.offer = offer
        """Members of the reply to `GET /billing`: the currency and the amounts that can be paid."""
        self.find_problem = find_problem
        """Says why an amount cannot be paid; None if it can."""
        self._books_thread = books_thread
        self._threads = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="cards")
        self._look_ups = Tries(LOOK_UPS, 60)
        self._refused: set[Reversal] = set()
        """Refunds and disputes that the last look back could not apply."""
        self._fees_ms = OPEN_MS
        self._warned: set[str] = set()
        self._warnings: set[str] = set()
        """Warnings logged by the last look, and by the one under way."""

    async def open_page(
        self, order: OrderView, product: str, billing_url: str, actor: Actor
    ) -> str:
        """Return the address of the order's payment page, after its id is stored.

        Raises ConsoleError.
        """
        if order.state != "made":
            raise _refuse_ended()
        try:
            session_id, url = await self._ask_now(
                partial(self.provider.make_page, order, product, billing_url)
            )
        except ProviderRefused as error:
            log.warning("%s: its payment page is refused: %s", order.id, error)
            await self._books_thread.run(
                actor, lambda books: OrderBook(books).end(order.id, "failed", "no payment page")
            )
            raise ConsoleError(
                502,
                "payment_refused",
                "The payment provider refuses this payment. Tell the operator of this gateway.",
            ) from error
        kept = await self._books_thread.run(
            actor, lambda books: OrderBook(books).save_page(order.id, session_id)
        )
        # For a day the provider returns the same page. A second page could be paid and not be credited.
        if kept.session_id != session_id:
            raise _refuse_ended()
        return url

    async def look_up(self, order: OrderView, actor: Actor) -> None:
        """Bring an open order to its provider's state, unless the provider cannot be asked just now."""
        if order.state != "made" or order.session_id is None or self._look_ups.take(order.account):
            return
        try:
            await self._look_up(order.session_id, actor)
        except (ProviderUnavailable, ProviderRefused, Refused) as error:
            log.warning("%s cannot be looked up: %s", order.id, error)

    async def find_receipt(self, order: OrderView) -> str | None:
        """Ask the provider for the address of an order's receipt; None if it has none.

        Raises ConsoleError after too many questions, or if the provider does not answer.
        """
        if order.session_id is None:
            return None
        # Each is a request to the provider, from one of the threads that all share.
        if wait_seconds := self._look_ups.take(order.account):
            raise too_many_tries(wait_seconds, "Too many receipts at once. Try again in a minute.")
        try:
            return await self._ask_now(partial(self.provider.find_receipt, order.session_id))
        except ProviderRefused as error:
            log.warning("%s: the receipt is refused: %s", order.id, error)
            return None

    def find_url(self, order: OrderView) -> str | None:
        return self.provider.find_url(order)

    async def settle(self, told: Payment | Reversal, actor: Actor) -> None:
        """Update an order to the provider's state; the result is committed when this returns.

        Raises:
            Refused: it contradicts the order, or no order is known.
            LedgerError, ProviderUnavailable, ProviderRefused: it has to be told again.
        """
        if isinstance(told, Payment):
            return await self._apply(lambda books: OrderBook(books).settle(told), actor)
        take_back = partial(self._apply, lambda books: OrderBook(books).take_back(told), actor)
        try:
            await take_back()
        except NotFound:
            # The refund arrived before the payment's message, so the payment is credited first.
            find_page = partial(self.provider.find_page, told.payment_id)
            page = await self._ask(find_page) if told.payment_id else None
            if page is None:
                raise
            await self._apply(lambda books: OrderBook(books).settle(page), actor)
            await take_back()
        return None

    async def run(self) -> None:
        """Look up what a missing message may have reported, again and again, until cancelled."""
        while True:
            for look in (self.look_all_up, self.look_back, self.find_fees):
                try:
                    await look()
                except (ProviderUnavailable, ProviderRefused, LedgerError) as error:
                    self._warn("orders, refunds or fees cannot be looked up: %s", error)
                except Exception:
                    log.exception("a look at the payment provider failed")
            self._warned, self._warnings = self._warnings, set()
            await asyncio.sleep(LOOK_SECONDS)

    async def look_all_up(self, kept_ms: int = OPEN_MS) -> None:
        """Look up the open orders of the last `kept_ms`. Raises ProviderUnavailable, LedgerError."""

        def read(books: Books) -> tuple[int, list[OrderView]]:
            now_ms = books.clock()
            return now_ms, OrderBook(books).read_open(now_ms - kept_ms)

        now_ms, orders = await self._books_thread.run(SYSTEM, read)
        for order in orders:
            try:
                if order.session_id is not None:
                    await self._look_up(order.session_id, SYSTEM)
                elif order.created_ms < now_ms - DAY_MS:
                    await self._books_thread.run(SYSTEM, partial(_expire, order))
            except (ProviderRefused, Refused) as error:
                self._warn("%s cannot be looked up: %s", order.id, error)

    async def look_back(self) -> None:
        """Apply the refunds and disputes whose messages did not come or were refused.

        A list that the key has no right to read does not hide the others. Raises ProviderUnavailable,
        LedgerError.
        """

        def read(books: Books) -> tuple[int, list[OrderView]]:
            return books.clock(), OrderBook(books).read_latest(None, None, 1)

        now_ms, orders = await self._books_thread.run(SYSTEM, read)
        if not orders:
            return
        refused, failure = set[Reversal](), None
        for name, pages in self.provider.find_reversals(now_ms).items():
            try:
                while (page := await self._ask(partial(next, pages, None))) is not None:
                    await self._take_back(page, refused)
            except (ProviderUnavailable, ProviderRefused) as error:
                refused |= self._refused
                if isinstance(error, ProviderUnavailable):
                    failure = error
                else:
                    self._warn("%s cannot be looked up: %s", name, error)
        self._refused = refused
        if failure is not None:
            raise failure

    async def _take_back(
        self, page: Iterable[Reversal | BadMessage], refused: set[Reversal]
    ) -> None:
        """Apply what is new on a page; add to `refused` what is not applied."""
        reversals = list[Reversal]()
        for one in page:
            if isinstance(one, BadMessage):
                self._warn("a refund or dispute that is listed cannot be read: %s", one)
            else:
                reversals.append(one)
        for reversal in await self._books_thread.run(SYSTEM, partial(_find_untold, reversals)):
            # It may be of another shop with the same account. To find that out takes a request each time.
            if reversal in self._refused:
                refused.add(reversal)
                continue
            try:
                await self.settle(reversal, SYSTEM)
            except (ProviderRefused, Refused) as error:
                log.warning("%s cannot be taken back: %s", reversal.id, error)
                refused.add(reversal)
                # At once: the next look goes on from here, should this one break off.
                self._refused.add(reversal)

    async def find_fees(self) -> None:
        """Ask for the unknown fees of the last payments, at the first look of earlier ones, too.

        It ends at the first refusal: a key may have no right to read fees. The latest come first, so one
        payment cannot block later ones. Raises ProviderUnavailable, LedgerError.
        """
        orders = await self._books_thread.run(
            SYSTEM, lambda books: OrderBook(books).read_without_fee(books.clock() - self._fees_ms)
        )
        for order in orders:
            try:
                fee = await self._ask(partial(self.provider.find_fee, order.payment_id or ""))
            except ProviderRefused as error:
                self._warn("%s: its fee is refused: %s", order.id, error)
                return
            if fee is not None:
                await self._books_thread.run(SYSTEM, partial(_keep_fee, order, fee))
        self._fees_ms = FEES_MS

    def _warn(self, text: str, *details: object) -> None:
        """Log what is wrong once, not at each look while it stays so."""
        words = text % details
        if words not in self._warned | self._warnings:
            log.warning(words)
        self._warnings.add(words)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await self._books_thread.close()

    async def _look_up(self, session_id: str, actor: Actor) -> None:
        page = await self._ask(partial(self.provider.look_up, session_id))
        await self._apply(lambda books: OrderBook(books).settle(page), actor)

    async def _apply(self, function: Callable[[Books], str | None], actor: Actor) -> None:
        if words := await self._books_thread.run(actor, function):
            raise Refused(words)

    async def _ask(self, function: Callable[[], T]) -> T:
        """Ask the provider, in a thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    async def _ask_now(self, function: Callable[[], T]) -> T:
        """Ask the provider while a person waits. Raises ConsoleError if it does not answer."""
        try:
            return await self._ask(function)
        except ProviderUnavailable as error:
            log.warning("the payment provider does not answer: %s", error)
            raise unavailable(
                "The payment provider does not answer. Nothing was paid; try again shortly."
            ) from error


def _find_untold(page: list[Reversal], books: Books) -> list[Reversal]:
    return OrderBook(books).find_untold(page)


def _keep_fee(order: OrderView, fee: Fee, books: Books) -> None:
    OrderBook(books).keep_fee(order.id, fee)


def _expire(order: OrderView, books: Books) -> OrderView:
    return OrderBook(books).end(order.id, "expired", "it never had a payment page")


def _refuse_ended() -> ConsoleError:
    words = "This payment has ended, or its page has. Choose an amount again."
    return ConsoleError(409, "conflict", words)

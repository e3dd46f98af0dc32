"""Payments by card: orders of the signed-in account, their payment pages, and receipts; all orders."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

import orjson
from aiohttp import web

from gateway.admin import signin, views
from gateway.config.cards import find_problem
from gateway.config.records import Billing, Cards
from gateway.console.fields import ConsoleError, invalid_field, not_found
from gateway.console.lists import Json, read_page
from gateway.console.routes import (
    READERS,
    Answer,
    ConsoleRequest,
    async_route,
    find_local,
    route,
    run_once,
)
from gateway.console.state import Cashier
from gateway.ledger.order_records import OrderState, OrderView
from gateway.ledger.records import Actor
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount, format_amount


def describe_cards(billing: Billing) -> Mapping[str, Any]:
    """Describe what can be paid; nothing if nobody pays by card."""
    cards = billing.stripe
    if cards is None:
        return {}
    amounts = [format_amount(nano) for nano in cards.amounts_nano]
    bounds = {
        **describe_amount("minimum", cards.minimum_nano),
        **describe_amount("maximum", cards.maximum_nano),
    }
    return {"cards": {"currency": billing.currency, "amounts": amounts, **bounds}}


@async_route("POST", "/billing/orders", "any")
async def top_up(request: ConsoleRequest) -> Answer:
    """Make an order, once for each Idempotency-Key, and return the address of its payment page."""
    cashier, _ = _find_cashier(request)
    made = await run_once(_make_order, None, request)
    body = orjson.loads(made.body) if isinstance(made.body, bytes) else dict(made.body or {})
    order = await request.run(lambda books: books.orders.read(body["order"]["id"]))
    base_url = signin.find_base_url(request.gateway.config.server, find_local(request.http))
    # Outside the books' thread, which a slow provider would hold up. The provider makes one page of an
    # order, so a request that is repeated gets the same.
    url = await cashier.open_page(order, f"{base_url}/console/billing", _find_actor(request))
    return Answer({**body, "url": url}, 201, headers=made.headers)


def _make_order(books: Books, request: ConsoleRequest) -> Answer:
    _, cards = _find_cashier(request)
    fields, currency = request.fields, request.gateway.config.billing.currency
    amount_nano = fields.need_amount_nano("amount")
    fields.done()
    if problem := find_problem(cards, currency, amount_nano):
        raise invalid_field("amount", f"The amount {problem}.")
    order = books.orders.make(request.account.name, amount_nano, currency)
    return Answer({"order": views.ORDER.describe(order)}, 201)


@async_route("GET", "/billing/orders/{id}", "any")
async def show_order(request: ConsoleRequest) -> Answer:
    """Show an order; an open one is looked up at the payment provider before."""
    cashier, _ = _find_cashier(request)
    order = await _read_order(request)
    await cashier.look_up(order, _find_actor(request))
    return Answer({"order": views.ORDER.describe(await _read_order(request))})


@async_route("GET", "/billing/orders/{id}/receipt", "any")
async def open_receipt(request: ConsoleRequest) -> web.StreamResponse:
    """Redirect to the receipt at the payment provider, whose address changes."""
    cashier, _ = _find_cashier(request)
    url = await cashier.find_receipt(await _read_order(request))
    if url is None:
        raise ConsoleError(404, "not_found", "There is no receipt yet. Try again in some minutes.")
    return web.Response(status=303, headers={"Location": url, "Cache-Control": "no-store"})


@route("GET", "/orders", "operator", READERS)
def list_orders(books: Books, request: ConsoleRequest) -> Answer:
    """List the orders of all accounts or of one, the latest first, also those from before cards were off."""
    page, state = (
        read_page(request, str),
        request.query.optional_choice("state", get_args(OrderState)),
    )
    request.find_named(books)
    found = books.orders.read_latest(
        request.query.text("account"), state, page.wanted, below_id=page.after_text
    )
    cashier = request.console.cashier

    def describe(order: OrderView) -> Json:
        url = None if cashier is None else cashier.find_url(order)
        return {**views.SOLD_ORDER.describe(order), "payment_url": url}

    return page.answer("orders", found, lambda order: (order.id,), describe)


async def _read_order(request: ConsoleRequest) -> OrderView:
    """Return the order of the path; to holders only their own. Raises ConsoleError."""
    order = await request.run(lambda books: books.orders.read(request.segment()))
    if order.account != request.account.name and not request.account.operator:
        raise not_found("order")
    return order


def _find_cashier(request: ConsoleRequest) -> tuple[Cashier, Cards]:
    cashier, cards = request.console.cashier, request.gateway.config.billing.stripe
    if cashier is None or cards is None:
        raise not_found("address")
    return cashier, cards


def _find_actor(request: ConsoleRequest) -> Actor:
    return Actor(request.own_session.signin.name, request.address)

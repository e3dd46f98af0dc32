"""Orders in the console: holders pay by card and open receipts, operators list the orders of all accounts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, get_args

import orjson
from aiohttp import web

from gateway.api.state import Gateway
from gateway.base.money import describe_amount
from gateway.extras.cards.book import OrderBook
from gateway.extras.cards.cashier import Cashier
from gateway.extras.cards.records import ORDER, SOLD_ORDER, OrderState, OrderView
from gateway.extras.cards.settings import name_product
from gateway.extras.console.additions import Addition
from gateway.extras.console.errors import ConsoleError, invalid_field, not_found
from gateway.extras.console.lists import Json, read_page
from gateway.extras.console.routes import (
    READERS,
    Answer,
    ConsoleRequest,
    async_route,
    route,
    run_once,
)
from gateway.ledger.records import Actor
from gateway.ledger.sql.books import Books


def _describe_credit(gateway: Gateway) -> Mapping[str, object]:
    cashier = _find_cashier(gateway)
    return {} if cashier is None else cashier.offer


def _describe_fees(books: Books, account: str | None, since_ms: int, until_ms: int) -> Json:
    """Describe the payment provider's fees for payments by card."""
    sums = OrderBook(books).sum_fees(account, since_ms, until_ms)
    fees = [
        {"currency": currency, "orders": orders, **describe_amount("fee", nano)}
        for currency, orders, nano in sums.by_currency
    ]
    return {"card_fees": fees, "card_fees_unknown": sums.unknown}


ADDITION: Final = Addition(
    scripts=(Path(__file__).with_name("static"),),
    links=("orders",),
    parts=dict.fromkeys(("billing", "books", "costs"), "cards"),
    receipts={"card": "/billing/orders/{}/receipt"},
    describe_credit=_describe_credit,
    describe_costs=_describe_fees,
)


@async_route("POST", "/billing/orders", "any")
async def top_up(request: ConsoleRequest) -> Answer:
    """Make an order, once for each Idempotency-Key, and return the address of its payment page."""
    cashier = _require_cashier(request)
    made = await run_once(_make_order, None, request)
    body = orjson.loads(made.body) if isinstance(made.body, bytes) else dict(made.body or {})
    order = await request.run(lambda books: OrderBook(books).read(body["order"]["id"]))
    base_url = request.find_base_url()
    # Outside the books' thread, which a slow provider would hold up. The provider makes one page of an
    # order, so a request that is repeated gets the same.
    product = name_product(request.gateway.config)
    url = await cashier.open_page(
        order, product, f"{base_url}/console/billing", _find_actor(request)
    )
    return Answer({**body, "url": url}, 201, headers=made.headers)


def _make_order(books: Books, request: ConsoleRequest) -> Answer:
    cashier = _require_cashier(request)
    currency = request.gateway.config.billing.currency
    with request.fields as fields:
        amount_nano = fields.need_amount_nano("amount")
    if problem := cashier.find_problem(amount_nano):
        raise invalid_field("amount", f"The amount {problem}.")
    order = OrderBook(books).make(request.account.name, amount_nano, currency)
    return Answer({"order": ORDER.describe(order)}, 201)


@async_route("GET", "/billing/orders/{id}", "any")
async def show_order(request: ConsoleRequest) -> Answer:
    """Show an order; an open one is looked up at the payment provider before."""
    cashier = _require_cashier(request)
    order = await _read_order(request)
    await cashier.look_up(order, _find_actor(request))
    return Answer({"order": ORDER.describe(await _read_order(request))})


@async_route("GET", "/billing/orders/{id}/receipt", "any")
async def open_receipt(request: ConsoleRequest) -> web.StreamResponse:
    """Redirect to the receipt at the payment provider, whose address changes."""
    cashier = _require_cashier(request)
    url = await cashier.find_receipt(await _read_order(request))
    if url is None:
        raise ConsoleError(404, "not_found", "There is no receipt yet. Try again in some minutes.")
    return web.Response(status=303, headers={"Location": url, "Cache-Control": "no-store"})


@route("GET", "/orders", "operator", READERS)
def list_orders(books: Books, request: ConsoleRequest) -> Answer:
    """List the orders of all accounts or of one, the latest first, also those from before cards were off."""
    page, query = read_page(request, str), request.query
    state, account = query.optional_choice("state", get_args(OrderState)), query.text("account")
    request.find_named(books)
    found = OrderBook(books).read_latest(account, state, page.wanted, below_id=page.after_text)
    cashier = _find_cashier(request.gateway)

    def describe(order: OrderView) -> Json:
        url = None if cashier is None else cashier.find_url(order)
        return {**SOLD_ORDER.describe(order), "payment_url": url}

    return page.answer("orders", found, describe)


async def _read_order(request: ConsoleRequest) -> OrderView:
    """Return the order of the path; to holders only their own. Raises ConsoleError."""
    order = await request.run(lambda books: OrderBook(books).read(request.segment()))
    if order.account != request.account.name and not request.account.operator:
        raise not_found("order")
    return order


def _find_cashier(gateway: Gateway) -> Cashier | None:
    """Return the cashier; None if nobody pays by card."""
    return next(iter(gateway.find_offers(Cashier)), None)


def _require_cashier(request: ConsoleRequest) -> Cashier:
    cashier = _find_cashier(request.gateway)
    if cashier is None:
        raise not_found("address")
    return cashier


def _find_actor(request: ConsoleRequest) -> Actor:
    return Actor(request.own_session.signin.name, request.address)

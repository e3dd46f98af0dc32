"""Budgets that keys share: holders manage those of their account, operators those of any."""

from __future__ import annotations

from typing import Final, get_args

from gateway.admin import accounts, views
from gateway.console.fields import Fields, read_id
from gateway.console.idempotency import idempotent
from gateway.console.refusals import ConsoleError, invalid_field
from gateway.console.state import (
    EVERY_TOKEN,
    SHOPS,
    Answer,
    ConsoleRequest,
    Route,
    in_books_thread,
)
from gateway.ledger.key_records import Allowance, BudgetChanges, Period
from gateway.ledger.sql.books.books import Books

MAX_BUDGETS: Final = 100
"""Budgets an account can have here, which one reply lists. The CLI has no limit."""


def list_own(books: Books, request: ConsoleRequest) -> Answer:
    return _list(books, request.account.name)


def list_of_account(books: Books, request: ConsoleRequest) -> Answer:
    return _list(books, _read_account(books, request))


def add_own(books: Books, request: ConsoleRequest) -> Answer:
    return _add(books, request.account.name, request.fields)


def add_to_account(books: Books, request: ConsoleRequest) -> Answer:
    name = _read_account(books, request)
    request.refuse_operators(books.accounts.read(name))
    return _add(books, name, request.fields)


def edit_budget(books: Books, request: ConsoleRequest) -> Answer:
    fields, changes = request.fields, BudgetChanges()
    if fields.has("name"):
        changes["name"] = fields.need_text("name").strip()
    allowance = read_allowance(fields)
    if allowance is not None:
        changes["allowance"] = allowance
    fields.done()
    budget_id, owner = read_id(request.segment("id"), "budget"), _find_owner(request)
    if not changes:
        return Answer(views.BUDGET.describe(books.budgets.read(budget_id, account_id=owner)))
    budget = accounts.edit_budget(books, budget_id, changes, account_id=owner)
    return Answer(views.BUDGET.describe(budget))


def end_budget(books: Books, request: ConsoleRequest) -> Answer:
    books.budgets.end(read_id(request.segment("id"), "budget"), account_id=_find_owner(request))
    return Answer(status=204)


def read_allowance(fields: Fields, prefix: str = "") -> Allowance | None:
    """Read an amount and its period, which are given together; None if neither is."""
    amount, period = f"{prefix}amount", f"{prefix}period"
    if not fields.has(amount) and not fields.has(period):
        return None
    amount_nano = fields.need_amount_nano(amount)
    if amount_nano <= 0:
        raise invalid_field(amount, f"'{amount}' must be above 0.")
    return Allowance(amount_nano, fields.need_choice(period, get_args(Period)))


def _list(books: Books, account: str) -> Answer:
    found = [views.BUDGET.describe(one) for one in books.budgets.read_all(account) if one.name]
    return Answer({"count": len(found), "budgets": found})


def _add(books: Books, account: str, fields: Fields) -> Answer:
    name, allowance = fields.need_text("name").strip(), read_allowance(fields)
    fields.done()
    if allowance is None:
        raise invalid_field("amount", "'amount' is missing.")
    if sum(one.name is not None for one in books.budgets.read_all(account)) >= MAX_BUDGETS:
        message = f"There are {MAX_BUDGETS} budgets already. Remove those that are not needed."
        raise ConsoleError(409, "too_many_budgets", message)
    return Answer(views.BUDGET.describe(accounts.add_budget(books, account, name, allowance)), 201)


def _read_account(books: Books, request: ConsoleRequest) -> str:
    return books.accounts.find_name(read_id(request.segment("id"), "account"))


def _find_owner(request: ConsoleRequest) -> int | None:
    return None if request.account.operator else request.account.id


ROUTES: Final = (
    Route("GET", "/console/api/budgets", "any", in_books_thread(list_own)),
    Route("POST", "/console/api/budgets", "any", idempotent(add_own)),
    Route("PATCH", "/console/api/budgets/{id}", "any", in_books_thread(edit_budget)),
    Route("DELETE", "/console/api/budgets/{id}", "any", in_books_thread(end_budget)),
    Route(
        "GET",
        "/console/api/accounts/{id}/budgets",
        "operator",
        in_books_thread(list_of_account),
        EVERY_TOKEN,
    ),
    Route(
        "POST", "/console/api/accounts/{id}/budgets", "operator", idempotent(add_to_account), SHOPS
    ),
)

"""Routes for operators: tokens of scripts. No token may call them."""

from __future__ import annotations

from typing import Final, get_args

from gateway.admin import keys, views
from gateway.console.api.session import require_fresh
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.signin_records import TokenRole, TokenTerms
from gateway.ledger.sql.books.books import Books

ROLES: Final[tuple[TokenRole, ...]] = get_args(TokenRole)


def list_tokens(books: Books, request: ConsoleRequest) -> Answer:
    del request
    now_ms = books.clock()
    found = [views.TOKEN.describe(one, now_ms) for one in books.tokens.read_all()]
    return Answer({"count": len(found), "tokens": found})


def add_token(books: Books, request: ConsoleRequest) -> Answer:
    """Add a token. A repeated request makes no second one, as its name is taken."""
    fields = request.fields
    name, role = fields.need_text("name").strip(), fields.need_choice("role", ROLES)
    expires_ms = fields.moment_ms("expires")
    fields.done()
    require_fresh(books, request)
    made = keys.add_token(books, TokenTerms(name, role, expires_ms))
    described = views.TOKEN.describe(made.token, books.clock())
    return Answer({"token": described, "secret": made.secret}, 201)


def revoke_token(books: Books, request: ConsoleRequest) -> Answer:
    request.fields.done()
    token = books.tokens.revoke(request.segment("id"))
    return Answer(views.TOKEN.describe(token, books.clock()))


ROUTES: Final = (
    Route("GET", "/console/api/tokens", "operator", in_books_thread(list_tokens)),
    Route("POST", "/console/api/tokens", "operator", in_books_thread(add_token)),
    Route("POST", "/console/api/tokens/{id}/revoke", "operator", in_books_thread(revoke_token)),
)

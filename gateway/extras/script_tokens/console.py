"""Tokens in the console: operators add, list and revoke them, and scripts send requests with one.

Only operators manage tokens, and no token may call these routes.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, get_args

from gateway.api.front import Call
from gateway.extras.console.additions import Addition, Credential, Script
from gateway.extras.console.callers import nobody, note_failure, take_try
from gateway.extras.console.errors import ConsoleError, too_many_tries
from gateway.extras.console.routes import Answer, ConsoleRequest, route
from gateway.extras.console.session import require_fresh
from gateway.extras.console.state import ConsoleState
from gateway.extras.script_tokens import book
from gateway.extras.script_tokens.book import TokenBook
from gateway.extras.script_tokens.records import PREFIX, TOKEN, TokenRole, TokenTerms
from gateway.ledger.sql.books import Books

_ENDED: Final = {
    "expired": "This token has expired. Ask the operator of this gateway for a new one.",
    "revoked": "This token is revoked. Ask the operator of this gateway for a new one.",
}


async def find_script(secret: str, call: Call, console: ConsoleState) -> Script:
    """Return the active token. Valid tokens are admitted however many wrong ones came before."""
    token, now_ms = await console.books_thread.run(
        nobody(call), lambda books: (book.find_token(books, secret), books.clock())
    )
    if token is None:
        # Only wrong tokens are counted: else strangers behind one address could lock a script out.
        await note_failure(call, console, "token")
        wait_seconds = take_try(call, console, "tokens")
        if wait_seconds:
            message = f"Too many wrong tokens. Wait {wait_seconds} seconds, then try again."
            raise too_many_tries(wait_seconds, message)
        raise _refuse("token_invalid", "There is no such token. Check that it is complete.")
    status = token.status(now_ms)
    if status != "active":
        raise _refuse(f"token_{status}", _ENDED[status])
    return Script(token.id, token.actor, token.terms.role)


def _refuse(code: str, message: str) -> ConsoleError:
    return ConsoleError(401, code, message, headers={"WWW-Authenticate": "Bearer"})


ADDITION: Final = Addition(
    scripts=(Path(__file__).with_name("static"),),
    pages=("tokens",),
    credential=Credential(PREFIX, find_script),
)


@route("GET", "/tokens", "operator")
def list_tokens(books: Books, request: ConsoleRequest) -> Answer:
    del request
    now_ms = books.clock()
    found = [TOKEN.describe(one, now_ms) for one in TokenBook(books).read_all()]
    return Answer({"count": len(found), "tokens": found})


@route("POST", "/tokens", "operator")
def add_token(books: Books, request: ConsoleRequest) -> Answer:
    """Add a token. A repeated request makes no second one, as its name is taken."""
    with request.fields as fields:
        name = fields.need_text("name").strip()
        role: TokenRole = fields.need_choice("role", get_args(TokenRole))
        expires_ms = fields.moment_ms("expires")
    require_fresh(books, request)
    made = book.add_token(books, TokenTerms(name, role, expires_ms))
    described = TOKEN.describe(made.token, books.clock())
    return Answer({"token": described, "secret": made.secret}, 201)


@route("POST", "/tokens/{id}/revoke", "operator")
def revoke_token(books: Books, request: ConsoleRequest) -> Answer:
    request.fields.done()
    return Answer(TOKEN.describe(TokenBook(books).revoke(request.segment()), books.clock()))

"""The people who sign in to an account: shown, let in by a link, and removed.

Operators do this for every account. The account's own sign-in does it for its own, but makes no link
for somebody who has a password: a link would let it act under their name.
"""

from __future__ import annotations

from functools import partial

from gateway.admin import signin
from gateway.console.api.session import require_fresh
from gateway.console.fields import ConsoleError, signed_in_by_proxy
from gateway.console.routes import Answer, ConsoleRequest, async_route, find_local, route
from gateway.ledger.records import AccountView
from gateway.ledger.sql.books.books import Books
from gateway.times import format_iso


@route("GET", "/settings/signins", "any")
def list_own(books: Books, request: ConsoleRequest) -> Answer:
    return _list(books, request.account)


@route("GET", "/accounts/{id}/signins", "operator")
def list_signins(books: Books, request: ConsoleRequest) -> Answer:
    return _list(books, request.find_account(books))


@async_route("POST", "/settings/signins", "any")
async def let_in(request: ConsoleRequest) -> Answer:
    """Make a sign-in link for somebody new in the account."""
    _require_own(request)
    if request.own_session.by_proxy:
        raise signed_in_by_proxy()
    fields = request.fields
    person = fields.need_text("person").strip()
    fields.done()
    return await _answer_link(request, person, is_new=True)


@async_route("POST", "/accounts/{id}/signin-link", "operator")
async def make_signin_link(request: ConsoleRequest) -> Answer:
    """Make a sign-in link for the account's own sign-in or, with `person`, for one in it."""
    fields = request.fields
    person = (fields.text("person") or "").strip()
    fields.done()
    return await _answer_link(request, person, is_new=False)


@route("DELETE", "/settings/signins/{person}", "any")
def remove_own(books: Books, request: ConsoleRequest) -> Answer:
    _require_own(request)
    return Answer({"ended": books.people.remove(request.account.name, request.segment("person"))})


@route("DELETE", "/accounts/{id}/signins/{person}", "operator")
def remove_signin(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    return Answer({"ended": books.people.remove(account.name, request.segment("person"))})


def _list(books: Books, account: AccountView) -> Answer:
    found = [signin.SIGNIN.describe(one) for one in books.people.read_all(account.name)]
    return Answer({"count": len(found), "signins": found})


def _require_own(request: ConsoleRequest) -> None:
    """Require the account's own sign-in: it alone says who else has one. Raises ConsoleError."""
    if request.own_session.person:
        raise ConsoleError(
            403,
            "own_signin_only",
            f"Only who signs in as '{request.account.name}' may do this, or the operator of this"
            " gateway.",
        )


async def _answer_link(request: ConsoleRequest, person: str, *, is_new: bool) -> Answer:
    """Make a link to `public_url` or, if unset, to the address of this request."""
    base_url = signin.find_base_url(request.gateway.config.server, find_local(request.http))
    return await request.run(partial(_make_link, request, base_url, person, is_new))


def _make_link(
    request: ConsoleRequest, base_url: str, person: str, is_new: bool, books: Books
) -> Answer:
    require_fresh(books, request)
    account = request.find_account(books).name
    link = signin.make_signin_link(books, account, person, is_new=is_new)
    return Answer({"url": link.url(base_url), "expires": format_iso(link.expires_ms)}, 201)

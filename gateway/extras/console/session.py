"""Sign in, sign out, show who is signed in, and the people who may sign in to an account.

Operators let people in and remove them for every account. The account's own sign-in does it for its
own, but makes no link for somebody who has a password: a link would let it act under their name.
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial

from aiohttp import hdrs

from gateway.admin import views
from gateway.admin.fields import describe
from gateway.base.money import describe_amount
from gateway.base.process import find_version
from gateway.base.times import format_iso
from gateway.extras.console.additions import find_low_balance_nano
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.lists import Json
from gateway.extras.console.routes import Answer, ConsoleRequest, async_route, route
from gateway.extras.signins import signin
from gateway.extras.signins.browsers import describe_device, make_session_cookie, read_device_cookie
from gateway.extras.signins.door import Visit
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import Opening, SessionView
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.throttle import make_cookie
from gateway.ledger.sql.books import Books


@route("GET", "/session", "any")
def show_session(books: Books, request: ConsoleRequest) -> Answer:
    return Answer(_describe_session(books, request, request.own_session))


@async_route("POST", "/session", "none")
async def sign_in(request: ConsoleRequest) -> Answer:
    """Open a session with name and password, and with a one-time code if those are set up."""
    with request.fields as fields:
        name, password = fields.need_text("name"), fields.need_text("password")
        code = fields.text("code")
    cookie = read_device_cookie(request.http, name, request.gateway.config.server)
    visit = Visit(request.run, request.address, _describe(request), cookie, _find_earlier(request))
    return await request.console.door.sign_in(
        visit, name, password, code, partial(_answer, request)
    )


@async_route("POST", "/session/link", "none")
async def sign_in_by_link(request: ConsoleRequest) -> Answer:
    """Open a session with a sign-in link.

    This is not throttled: 256 random bits cannot be guessed, and a throttle would lock out owners.
    """
    with request.fields as fields:
        link = fields.need_text("token")
    token, opening = prepare_session(request)

    def open_session(books: Books) -> Answer | None:
        view = signin.open_session_by_link(books, link, opening)
        return None if view is None else _answer(request, books, view, token)

    answer = await request.run(open_session)
    if answer is None:
        await request.console.door.note_failure(request.run, request.address, None, "link")
        raise ConsoleError(
            401,
            "link_invalid",
            "This link is not valid: it was used, has expired or was replaced by a newer one."
            " Ask the operator for a new link.",
        )
    return answer


@route("DELETE", "/session", "none")
def sign_out(books: Books, request: ConsoleRequest) -> Answer:
    if request.session is not None:
        SignInBook(books).end_session(request.session.signin, request.session.id)
    return Answer(cookies=(make_session_cookie(None),))


def _describe_session(books: Books, request: ConsoleRequest, session: SessionView) -> Json:
    """Describe who is signed in, and the settings of the gateway that the page needs."""
    config, served = request.gateway.config, request.gateway.routes.models
    models = [model for model in served if session.account.terms.allows(model)]
    low_nano = find_low_balance_nano(books, session.account.id, config.billing)
    public_url = config.server.public_url
    has_password = PeopleBook(books).find_hash(session.signin) is not None
    return {
        "account": views.ACCOUNT.describe(session.account),
        "name": session.signin.name,
        "person": session.person or None,
        "session": describe(session, "id", "created_ms", "expires_ms"),
        "by_proxy": session.by_proxy,
        "has_password": has_password,
        "current_password_needed": has_password and session.opened_by == "password",
        "currency": config.billing.currency,
        "base_url": None if public_url is None else f"{public_url}/v1",
        "version": find_version(),
        "key_limits": asdict(config.limits),
        "account_in_flight": config.account_limits.concurrency,
        "models": models,
        "kinds": {model: served[model].makes for model in models},
        "top_up_text": config.billing.top_up_text,
        **describe_amount("low_balance", low_nano),
    }


def require_fresh(books: Books, request: ConsoleRequest) -> None:
    """Require that somebody has just signed in. Raises NotFresh.

    Tokens have no sign-in, so routes that need a fresh one are closed to them.
    """
    if request.session is not None:
        signin.require_fresh(request.session, books.clock())


def prepare_session(request: ConsoleRequest) -> tuple[str, Opening]:
    """Return the token of a new session, which replaces the request's own, and the record to open it."""
    return signin.prepare_session(_describe(request), request.address, _find_earlier(request))


def _describe(request: ConsoleRequest) -> str:
    return describe_device(request.http.headers.get(hdrs.USER_AGENT, ""))


def _find_earlier(request: ConsoleRequest) -> str | None:
    return None if request.session is None else request.session.id


def _answer(request: ConsoleRequest, books: Books, view: SessionView, token: str) -> Answer:
    stored, cookies = PeopleBook(books).find_hash(view.signin), [make_session_cookie(token)]
    # Without a password there is nothing to guess, so the browser needs no separate count.
    if stored is not None:
        cookies.append(make_cookie(view.signin.name, stored))
    return Answer(_describe_session(books, request, view), cookies=cookies)


@route("GET", "/settings/signins", "any")
@route("GET", "/accounts/{id}/signins", "operator")
def list_signins(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books).name
    found = [signin.SIGNIN.describe(one) for one in PeopleBook(books).read_all(account)]
    return Answer({"count": len(found), "signins": found})


@async_route("POST", "/settings/signins", "any")
async def invite(request: ConsoleRequest) -> Answer:
    """Make a sign-in link for somebody new in the account."""
    _require_own(request)
    request.refuse_proxied()
    with request.fields as fields:
        person = fields.need_text("person").strip()
    return await _answer_link(request, person, is_new=True)


@async_route("POST", "/accounts/{id}/signin-link", "operator")
async def make_signin_link(request: ConsoleRequest) -> Answer:
    """Make a sign-in link for the account's own sign-in or, with `person`, for that person in it."""
    with request.fields as fields:
        person = (fields.text("person") or "").strip()
    return await _answer_link(request, person, is_new=False)


@route("DELETE", "/settings/signins/{person}", "any")
@route("DELETE", "/accounts/{id}/signins/{person}", "operator")
def remove_signin(books: Books, request: ConsoleRequest) -> Answer:
    _require_own(request)
    account = request.find_account(books)
    return Answer({"ended": PeopleBook(books).remove(account.name, request.segment("person"))})


def _require_own(request: ConsoleRequest) -> None:
    """Require the account's own sign-in or an operator: nobody else lets people in or removes them.

    Only operators can call paths that name the account. Raises ConsoleError.
    """
    if request.own_session.person and "id" not in request.http.match_info:
        raise ConsoleError(
            403,
            "own_signin_only",
            f"Only who signs in as '{request.account.name}' may do this, or the operator of this"
            " gateway.",
        )


async def _answer_link(request: ConsoleRequest, person: str, *, is_new: bool) -> Answer:
    """Make a link to `public_url` or, if unset, to the address of this request."""
    base_url = request.find_base_url()

    def make(books: Books) -> Answer:
        require_fresh(books, request)
        account = request.find_account(books).name
        link = signin.make_signin_link(books, account, person, is_new=is_new)
        return Answer({"url": link.url(base_url), "expires": format_iso(link.expires_ms)}, 201)

    return await request.run(make)

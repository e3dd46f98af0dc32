"""Sign in, sign out, show who is signed in, and the people who may sign in to an account.

Unknown names get the same message, timing and throttling as known ones.

Operators let people in and remove them for every account. The account's own sign-in does it for its
own, but makes no link for somebody who has a password: a link would let it act under their name.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict

from aiohttp import hdrs

from gateway.admin import views
from gateway.admin.fields import describe
from gateway.extras.console.additions import find_low_balance_nano
from gateway.extras.console.fields import ConsoleError, too_many_passwords, wrong_code
from gateway.extras.console.lists import Json
from gateway.extras.console.routes import Answer, ConsoleRequest, async_route, route
from gateway.extras.signins import passwords, signin, totp
from gateway.extras.signins.browsers import describe_device, make_session_cookie, read_device_cookie
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import FailedBy, Opening, SessionView
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.throttle import find_device, make_cookie
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books
from gateway.money import describe_amount
from gateway.process import find_version
from gateway.tasks import spawn
from gateway.times import format_iso


@route("GET", "/session", "any")
def show_session(books: Books, request: ConsoleRequest) -> Answer:
    return Answer(_describe_session(books, request, request.own_session))


@async_route("POST", "/session", "none")
async def sign_in(request: ConsoleRequest) -> Answer:
    """Open a session with name and password, and a one-time code where the account has them."""
    with request.fields as fields:
        name, password = fields.need_text("name"), fields.need_text("password")
        code = fields.text("code")
    signin.require_password(password, "password")
    throttle = request.console.throttle
    request.console.hasher.require_room()
    device = await _find_device(request, name)
    wait_seconds = throttle.take(name, request.address, device)
    if wait_seconds:
        raise too_many_passwords(wait_seconds)
    answer = await _try_password(request, name, password, code)
    if isinstance(answer, Answer):
        throttle.succeed(name, request.address, device)
        return answer
    if answer == "missing":
        throttle.give_back(name, request.address, device)
        message = "Type the code that your authenticator app shows, or a recovery code."
        raise ConsoleError(403, "code_needed", message, "code")
    await _note_failure(request, name, "code" if answer == "wrong" else "password")
    if answer == "wrong":
        raise wrong_code(401)
    message = "Name or password is wrong. Try again, or ask the operator for a sign-in link."
    raise ConsoleError(401, "wrong_credentials", message)


async def _try_password(
    request: ConsoleRequest, name: str, password: str, code: str | None
) -> Answer | totp.Check | None:
    """Return the session's answer, None for a wrong name or password, or why the code is refused."""
    hasher = request.console.hasher
    stored = await request.run(lambda books: PeopleBook(books).find_password(name))
    # The hash is computed for unknown names, too, so that the time reveals nothing.
    if not await hasher.verify(password, None if stored is None else stored.hash) or not stored:
        return None
    renewed = await hasher.hash(password) if passwords.needs_rehash(stored.hash) else None

    def open_session(books: Books) -> Answer | totp.Check | None:
        checked = totp.check(books, stored.signin, code)
        if checked != "right":
            return checked
        token, opening = prepare_session(request)
        view = SignInBook(books).open_by_password(stored, renewed, opening)
        return None if view is None else _answer(books, request, view, token)

    return await request.run(open_session)


async def _find_device(request: ConsoleRequest, name: str) -> bytes | None:
    """Return the key of the browser's own counter, if this name has signed in with it before."""
    cookie = read_device_cookie(request.http, name, request.gateway.config.server)
    if cookie is None:  # as from most strangers, whom the throttle refuses without a look
        return None
    stored = await request.run(lambda books: PeopleBook(books).find_password(name))
    return find_device(cookie, name, None if stored is None else stored.hash)


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
        return None if view is None else _answer(books, request, view, token)

    answer = await request.run(open_session)
    if answer is None:
        await _note_failure(request, None, "link")
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
        "models": models,
        "kinds": {model: served[model].makes for model in models},
        "top_up_text": config.billing.top_up_text,
        **describe_amount("low_balance", low_nano),
    }


def require_fresh(books: Books, request: ConsoleRequest) -> None:
    """Require that somebody has just signed in, not left a browser open. Raises ConsoleError.

    Only a new sign-in, which replaces the session, makes it fresh. Tokens have no sign-in, so routes
    that need a fresh one are closed to them.
    """
    if request.session is not None and not signin.is_fresh(request.session, books.clock()):
        raise ConsoleError(
            403,
            "sign_in_again",
            "You signed in more than 10 minutes ago. Sign in again for this, by password or by a new"
            " sign-in link.",
        )


def prepare_session(request: ConsoleRequest) -> tuple[str, Opening]:
    """Return the token of a new session, in the place of the request's, and how it is opened."""
    device = describe_device(request.http.headers.get(hdrs.USER_AGENT, ""))
    earlier = None if request.session is None else request.session.id
    return signin.prepare_session(device, request.address, earlier)


def _answer(books: Books, request: ConsoleRequest, view: SessionView, token: str) -> Answer:
    stored, cookies = PeopleBook(books).find_hash(view.signin), [make_session_cookie(token)]
    # Without a password there is nothing to guess, so the browser needs no separate count.
    if stored is not None:
        cookies.append(make_cookie(view.signin.name, stored))
    return Answer(_describe_session(books, request, view), cookies=cookies)


async def _note_failure(request: ConsoleRequest, name: str | None, how: FailedBy) -> None:
    """Record a failure; always for a known account.

    If only known accounts are recorded, the reply does not wait for it: the delay would reveal which are
    known.
    """
    throttle = request.console.throttle
    if throttle.take_note(how, request.address):
        await request.run(lambda books: SignInBook(books).note_failure(name, how))
    elif name is not None and throttle.take_name_note(name):
        _ = spawn(_note_if_known(request, name, how), name="sign-in-note")


async def _note_if_known(request: ConsoleRequest, name: str, how: FailedBy) -> None:
    with suppress(LedgerError):  # nobody waits for the result
        await request.run(lambda books: SignInBook(books).note_failure(name, how, if_known=True))


@route("GET", "/settings/signins", "any")
@route("GET", "/accounts/{id}/signins", "operator")
def list_signins(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books).name
    found = [signin.SIGNIN.describe(one) for one in PeopleBook(books).read_all(account)]
    return Answer({"count": len(found), "signins": found})


@async_route("POST", "/settings/signins", "any")
async def let_in(request: ConsoleRequest) -> Answer:
    """Make a sign-in link for somebody new in the account."""
    _require_own(request)
    request.refuse_proxied()
    with request.fields as fields:
        person = fields.need_text("person").strip()
    return await _answer_link(request, person, is_new=True)


@async_route("POST", "/accounts/{id}/signin-link", "operator")
async def make_signin_link(request: ConsoleRequest) -> Answer:
    """Make a sign-in link for the account's own sign-in or, with `person`, for one in it."""
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
    """Require the account's own sign-in, which alone says who else has one, or an operator.

    A path that names the account is an operator's. Raises ConsoleError.
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

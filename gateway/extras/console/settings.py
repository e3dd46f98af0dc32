"""A person's password, one-time codes and sessions. `session` has the people of an account."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import urlsplit

from gateway.admin.fields import describe
from gateway.base.times import format_iso
from gateway.extras.console.errors import ConsoleError
from gateway.extras.console.routes import Answer, ConsoleRequest, async_route, route
from gateway.extras.console.session import prepare_session, require_fresh
from gateway.extras.signins import totp
from gateway.extras.signins.browsers import make_session_cookie
from gateway.extras.signins.door import WRONG_CODE
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.throttle import make_cookie
from gateway.extras.signins.totp import TotpBook
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.books import Books


@async_route("POST", "/settings/password", "any")
async def change_password(request: ConsoleRequest) -> Answer:
    """Set a new password and end all other sessions. This session continues under a new id."""
    session = request.own_session
    request.refuse_proxied()
    with request.fields as fields:
        current = fields.text("current_password")
        new = fields.need_text("new_password")
    token, opening = prepare_session(request)
    door = request.console.door
    hashed = await door.change_password(request.run, session, current, new, opening)
    device = make_cookie(session.signin.name, hashed)
    return Answer(cookies=(make_session_cookie(token), device))


@route("GET", "/settings/totp", "any")
def show_totp(books: Books, request: ConsoleRequest) -> Answer:
    found = TotpBook(books).read(request.own_session.signin)
    since_ms = None if found is None else found.confirmed_ms
    left = 0 if found is None else found.recovery_codes
    return Answer(
        {"enabled": since_ms is not None, "since": format_iso(since_ms), "recovery_codes": left}
    )


@route("POST", "/settings/totp", "any")
def begin_totp(books: Books, request: ConsoleRequest) -> Answer:
    """Show a new key for an authenticator app. Sign-ins ask for codes only after `finish_totp`."""
    request.refuse_proxied()
    request.fields.done()
    require_fresh(books, request)
    site = urlsplit(request.gateway.config.server.public_url or "").hostname
    made = totp.begin(books, request.own_session.signin, site or "LLM gateway")
    return Answer({"secret": made.secret, "url": made.url}, 201)


@async_route("POST", "/settings/totp/confirm", "any")
async def finish_totp(request: ConsoleRequest) -> Answer:
    """Let sign-ins ask for codes from now on; show the recovery codes and end all other sessions."""
    code = _read_code(request)

    def finish(books: Books) -> tuple[str, ...] | None:
        made = totp.finish(books, request.own_session.signin, code)
        if made is not None:
            with suppress(LedgerError):  # the codes must be shown
                SignInBook(books).end_other_sessions(request.own_session)
        return made

    made = await request.run(finish)
    if made is None:
        raise _wrong_code()
    return Answer({"recovery_codes": list(made)}, 201)


@async_route("POST", "/settings/totp/remove", "any")
async def remove_totp(request: ConsoleRequest) -> Answer:
    """Stop asking for codes if the request has a right one; end all other sessions."""
    code, own = _read_code(request), request.own_session.signin
    if await request.run(lambda books: totp.check(books, own, code)) != "right":
        raise _wrong_code()
    await request.run(lambda books: TotpBook(books).remove(own))
    await request.run(lambda books: SignInBook(books).end_other_sessions(request.own_session))
    return Answer()


def _wrong_code() -> ConsoleError:
    return ConsoleError(403, "wrong_code", WRONG_CODE, "code")


def _read_code(request: ConsoleRequest) -> str:
    """Read a code and count the try: tries are limited like those of passwords. Raises ConsoleError."""
    request.refuse_proxied()
    with request.fields as fields:
        code = fields.need_text("code")
    request.console.door.count_try(request.own_session)
    return code


@route("GET", "/sessions", "any")
def list_sessions(books: Books, request: ConsoleRequest) -> Answer:
    own, times = request.own_session, ("created_ms", "last_seen_ms", "expires_ms")
    described = [
        {"id": one.id, "current": one.id == own.id, **describe(one, "device", "address", *times)}
        for one in SignInBook(books).read_own_sessions(own.signin)
    ]
    return Answer({"count": len(described), "sessions": described})


@route("DELETE", "/sessions/{id}", "any")
def end_session(books: Books, request: ConsoleRequest) -> Answer:
    session_id = request.segment("id")
    SignInBook(books).end_session(request.own_session.signin, session_id)
    is_own = session_id == request.own_session.id
    return Answer(cookies=(make_session_cookie(None),) if is_own else ())


@route("DELETE", "/sessions", "any")
def end_other_sessions(books: Books, request: ConsoleRequest) -> Answer:
    return Answer({"revoked": SignInBook(books).end_other_sessions(request.own_session)})

"""The signed-in account's password, one-time codes and sessions."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.admin import signin
from gateway.admin.fields import describe
from gateway.console.api.session import (
    make_requestor,
    refuse_busy,
    refuse_code,
    refuse_tries,
    require_fresh,
    verify,
)
from gateway.console.password_hashing import TooBusy
from gateway.console.refusals import ConsoleError, signed_in_by_proxy
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.console.throttle import make_cookie
from gateway.ledger.records import LedgerError
from gateway.ledger.signin_records import SessionView
from gateway.ledger.sql.books.books import Books
from gateway.times import format_iso


async def change_password(request: ConsoleRequest) -> Answer:
    """Set a new password and end all other sessions. This session continues under a new id."""
    session, fields = _own(request), request.fields
    if session.by_proxy:
        raise signed_in_by_proxy()
    current = fields.text("current_password")
    new = fields.need_text("new_password")
    fields.done()
    signin.require_new_password(new, session.account.name)
    stored = await request.run(lambda books: books.signins.find_password_hash(session.account.name))
    if stored is not None and session.opened_by == "password":
        await _check_current(request, stored, current or "")
    elif (
        session.account.operator
    ):  # whoever sets it has signed in just now, for all that asks for it
        await request.run(lambda books: require_fresh(books, request))
    try:
        hashed = await request.console.hasher.hash(new)
    except TooBusy as error:
        raise refuse_busy() from error
    made = await request.run(
        partial(
            signin.change_password,
            visitor=make_requestor(request),
            seen_hash=stored,
            password_hash=hashed,
        )
    )
    request.console.throttle.clear(session.account.name)
    device = make_cookie(session.account.name, hashed)
    return Answer(session_token=made.token, device=device)


def show_totp(books: Books, request: ConsoleRequest) -> Answer:
    found = books.totp.read(request.account.id)
    since_ms = None if found is None else found.confirmed_ms
    left = 0 if found is None else found.recovery_codes
    return Answer(
        {"enabled": since_ms is not None, "since": format_iso(since_ms), "recovery_codes": left}
    )


def begin_totp(books: Books, request: ConsoleRequest) -> Answer:
    """Show the key for an authenticator app. Codes are asked for once one was shown."""
    if _own(request).by_proxy:
        raise signed_in_by_proxy()
    request.fields.done()
    require_fresh(books, request)
    site = urlsplit(request.gateway.config.server.public_url or "").hostname
    made = signin.begin(books, request.account, site or "LLM gateway")
    return Answer({"secret": made.secret, "url": made.url}, 201)


async def finish_totp(request: ConsoleRequest) -> Answer:
    """Ask for codes from now on, and show the recovery codes; all other sessions end."""
    code = _read_code(request)

    def finish(books: Books) -> tuple[str, ...] | None:
        made = signin.finish(books, request.account, code)
        if made is not None:
            with suppress(LedgerError):  # the codes must be shown
                books.signins.end_other_sessions(_own(request))
        return made

    made = await request.run(finish)
    if made is None:
        raise refuse_code(403)
    return Answer({"recovery_codes": list(made)}, 201)


async def remove_totp(request: ConsoleRequest) -> Answer:
    """Ask for codes no longer, by one of them; all other sessions end."""
    code = _read_code(request)
    if await request.run(lambda books: signin.check(books, request.account, code)) != "right":
        raise refuse_code(403)
    await request.run(lambda books: books.totp.remove(request.account.name))
    await request.run(lambda books: books.signins.end_other_sessions(_own(request)))
    return Answer()


def _read_code(request: ConsoleRequest) -> str:
    """Read a code, and count the try: they are limited as those of passwords. Raises ConsoleError."""
    if _own(request).by_proxy:
        raise signed_in_by_proxy()
    fields = request.fields
    code = fields.need_text("code")
    fields.done()
    wait_seconds = request.console.password_tries.take(request.account.id)
    if wait_seconds:
        raise refuse_tries(wait_seconds)
    return code


def list_sessions(books: Books, request: ConsoleRequest) -> Answer:
    own = _own(request)
    sessions = books.signins.read_sessions(own.account.id)
    described = [_describe(one, is_current=one.id == own.id) for one in sessions]
    return Answer({"count": len(described), "sessions": described})


def end_session(books: Books, request: ConsoleRequest) -> Answer:
    session_id = request.segment("id")
    books.signins.end_session(request.account, session_id)
    return Answer(ends_session=session_id == _own(request).id)


def end_other_sessions(books: Books, request: ConsoleRequest) -> Answer:
    return Answer({"revoked": books.signins.end_other_sessions(_own(request))})


async def _check_current(request: ConsoleRequest, stored: str, current: str) -> None:
    """Check the current password, so that a session left open cannot change it.

    Tries are limited. Raises ConsoleError.
    """
    signin.require_password(current, "current_password")
    if request.console.hasher.is_busy:
        raise refuse_busy()
    wait_seconds = request.console.password_tries.take(request.account.id)
    if wait_seconds:
        raise refuse_tries(wait_seconds)
    if not await verify(request.console.hasher, current, stored):
        message = "The current password is wrong. Try again."
        raise ConsoleError(403, "wrong_password", message, "current_password")


def _own(request: ConsoleRequest) -> SessionView:
    assert request.session is not None
    return request.session


def _describe(session: SessionView, *, is_current: bool) -> dict[str, Any]:
    shown = ("device", "address", "created_ms", "last_seen_ms", "expires_ms")
    return {"id": session.id, "current": is_current, **describe(session, *shown)}


ROUTES: Final = (
    Route("POST", "/console/api/settings/password", "any", change_password),
    Route("GET", "/console/api/settings/totp", "any", in_books_thread(show_totp)),
    Route("POST", "/console/api/settings/totp", "any", in_books_thread(begin_totp)),
    Route("POST", "/console/api/settings/totp/confirm", "any", finish_totp),
    Route("POST", "/console/api/settings/totp/remove", "any", remove_totp),
    Route("GET", "/console/api/sessions", "any", in_books_thread(list_sessions)),
    Route("DELETE", "/console/api/sessions", "any", in_books_thread(end_other_sessions)),
    Route("DELETE", "/console/api/sessions/{id}", "any", in_books_thread(end_session)),
)

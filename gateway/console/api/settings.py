"""The signed-in account's password and sessions."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from gateway.admin import signin, views
from gateway.console.api.session import make_requestor, refuse_busy, refuse_tries, verify
from gateway.console.devices import make_cookie
from gateway.console.password_hashing import TooBusy
from gateway.console.refusals import ConsoleError, signed_in_by_proxy
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger import Books, SessionView


async def change_password(request: ConsoleRequest) -> Answer:
    """Set a new password and end all other sessions. This session continues under a new id."""
    session, fields = _own(request), request.fields
    if session.by_proxy:
        raise signed_in_by_proxy()
    current = fields.text("current_password")
    new = fields.need_text("new_password")
    fields.done()
    signin.require_new_password(new)
    stored = await request.run(lambda books: books.signins.find_password_hash(session.account.name))
    if stored is not None and session.opened_by == "password":
        await _check_current(request, stored, current or "")
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
    return {"id": session.id, "current": is_current, **views.describe(session, *shown)}


ROUTES: Final = (
    Route("POST", "/console/api/settings/password", "any", change_password),
    Route("GET", "/console/api/sessions", "any", in_books_thread(list_sessions)),
    Route("DELETE", "/console/api/sessions", "any", in_books_thread(end_other_sessions)),
    Route("DELETE", "/console/api/sessions/{id}", "any", in_books_thread(end_session)),
)

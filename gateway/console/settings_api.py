"""One's own password, and where one is signed in."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from gateway import signin
from gateway.console.hasher import TooBusy
from gateway.console.refusals import ConsoleError
from gateway.console.session_api import make_visitor, refuse_busy, refuse_tries, verify
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.ledger.books import Books
from gateway.ledger.records import SessionView
from gateway.times import format_iso


async def change_password(visit: Visit) -> Answer:
    """All other sessions end; this one goes on under a new id, as one opened by the password."""
    session, fields = _own(visit), visit.fields
    current = fields.text("current_password")
    new = fields.need_text("new_password")
    fields.done()
    signin.require_new_password(new)
    stored = await visit.run(lambda books: books.find_password_hash(session.account.name))
    if stored is not None and session.opened_by == "password":
        await _check_current(visit, stored, current or "")
    try:
        hashed = await visit.console.hasher.hash(new)
    except TooBusy as error:
        raise refuse_busy() from error
    made = await visit.run(
        partial(
            signin.change_password,
            visitor=make_visitor(visit),
            seen_hash=stored,
            password_hash=hashed,
        )
    )
    visit.console.throttle.clear(session.account.name)
    return Answer(session_token=made.token)


def list_sessions(books: Books, visit: Visit) -> Answer:
    own = _own(visit)
    sessions = books.sessions(own.account.id)
    described = [_describe(one, is_current=one.id == own.id) for one in sessions]
    return Answer({"count": len(described), "sessions": described})


def end_session(books: Books, visit: Visit) -> Answer:
    session_id = visit.segment("id")
    books.end_session(visit.account, session_id)
    return Answer(ends_session=session_id == _own(visit).id)


def end_other_sessions(books: Books, visit: Visit) -> Answer:
    return Answer({"revoked": books.end_other_sessions(_own(visit))})


async def _check_current(visit: Visit, stored: str, current: str) -> None:
    """Raises ConsoleError. A session left open is no way to guess the password."""
    signin.require_password(current, "current_password")
    if visit.console.hasher.is_busy:
        raise refuse_busy()
    wait_seconds = visit.console.password_tries.take(visit.account.id)
    if wait_seconds:
        raise refuse_tries(wait_seconds)
    if not await verify(visit.console.hasher, current, stored):
        message = "The current password is wrong."
        raise ConsoleError(403, "wrong_password", message, "current_password")


def _own(visit: Visit) -> SessionView:
    assert visit.session is not None
    return visit.session


def _describe(session: SessionView, *, is_current: bool) -> dict[str, Any]:
    return {
        "id": session.id,
        "current": is_current,
        "device": session.device,
        "address": session.address,
        "created": format_iso(session.created_ms),
        "last_seen": format_iso(session.last_seen_ms),
        "expires": format_iso(session.expires_ms),
    }


ROUTES: Final = (
    Route("POST", "/console/api/settings/password", "any", change_password),
    Route("GET", "/console/api/sessions", "any", on_desk(list_sessions)),
    Route("DELETE", "/console/api/sessions", "any", on_desk(end_other_sessions)),
    Route("DELETE", "/console/api/sessions/{id}", "any", on_desk(end_session)),
)

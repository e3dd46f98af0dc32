"""Signing in and out, and who is signed in.

Of a name that is not there nothing differs: not the text, not the time, not what is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import metadata
from typing import Any, Final

from aiohttp import hdrs

from gateway import signin
from gateway.console.devices import describe_device
from gateway.console.hasher import Hasher, TooBusy
from gateway.console.refusals import ConsoleError, unavailable
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.ledger.book_signins import OpenedBy
from gateway.ledger.books import Books
from gateway.ledger.records import SessionView
from gateway.passwords import needs_rehash
from gateway.signin import NewSession, Visitor
from gateway.times import format_iso
from gateway.views import describe_account, money

UNKNOWN_VERSION: Final = "unknown"


def show_session(books: Books, visit: Visit) -> Answer:
    assert visit.session is not None
    return Answer(describe_session(books, visit, visit.session))


async def sign_in(visit: Visit) -> Answer:
    """With name and password."""
    fields = visit.fields
    name, password = fields.need_text("name"), fields.need_text("password")
    fields.done()
    signin.require_password(password, "password")
    throttle, hasher = visit.console.throttle, visit.console.hasher
    if hasher.is_busy:
        raise refuse_busy()
    wait_seconds = throttle.take(name, visit.address)
    if wait_seconds:
        raise refuse_tries(wait_seconds)
    stored = await visit.run(lambda books: books.find_password_hash(name))
    answer = None
    if await verify(hasher, password, stored) and stored is not None:
        renewed = await hasher.hash(password) if needs_rehash(stored) else None
        answer = await visit.run(partial(_open_by_password, visit, name, stored, renewed))
    if answer is None:
        await _note_failure(visit, name, "password")
        raise ConsoleError(
            401,
            "wrong_credentials",
            "Name or password is wrong. Try again, or ask the operator for a sign-in link.",
        )
    throttle.succeed(name, visit.address)
    return answer


async def sign_in_by_link(visit: Visit) -> Answer:
    """Never throttled: 256 random bits are not guessed, and its owner must get in."""
    fields = visit.fields
    token = fields.need_text("token")
    fields.done()
    answer = await visit.run(partial(_open_by_link, visit, token))
    if answer is None:
        await _note_failure(visit, None, "link")
        raise ConsoleError(
            401,
            "link_invalid",
            "This link does not work any more: it was used, replaced by a newer one, or has"
            " expired. Ask for a new one.",
        )
    return answer


def sign_out(books: Books, visit: Visit) -> Answer:
    if visit.session is not None:
        books.end_session(visit.account, visit.session.id)
    return Answer(ends_session=True)


def describe_session(books: Books, visit: Visit, session: SessionView) -> Mapping[str, Any]:
    """Who is signed in, and what the page has to know of this gateway."""
    config = visit.gateway.config
    public_url = config.server.public_url
    has_password = books.find_password_hash(session.account.name) is not None
    return {
        "account": describe_account(session.account),
        "session": {
            "id": session.id,
            "created": format_iso(session.created_ms),
            "expires": format_iso(session.expires_ms),
        },
        "has_password": has_password,
        "current_password_needed": has_password and session.opened_by == "password",
        "currency": config.billing.currency,
        "base_url": None if public_url is None else f"{public_url}/v1",
        "version": find_version(),
        "models": list(visit.gateway.routes.models),
        "top_up_text": config.billing.top_up_text,
        **money("low_balance", config.billing.low_balance_nano),
    }


def find_version() -> str:
    """As installed; the source may also be run without being installed."""
    try:
        return metadata.version("gateway")
    except metadata.PackageNotFoundError:
        return UNKNOWN_VERSION


def make_visitor(visit: Visit) -> Visitor:
    device = describe_device(visit.request.headers.get(hdrs.USER_AGENT, ""))
    return Visitor(device, visit.address, visit.session)


def refuse_tries(wait_seconds: int) -> ConsoleError:
    return ConsoleError(
        429,
        "too_many_tries",
        f"Too many tries. Wait {wait_seconds} seconds and try again; a sign-in link from the"
        " operator works at once.",
        retry_after_seconds=wait_seconds,
    )


def refuse_busy() -> ConsoleError:
    return unavailable("Too many people are signing in just now. Try again in a few seconds.")


async def verify(hasher: Hasher, password: str, stored: str | None) -> bool:
    """Raises ConsoleError when too many wait already."""
    try:
        return await hasher.verify(password, stored)
    except TooBusy as error:
        raise refuse_busy() from error


def _open_by_password(
    visit: Visit, name: str, seen_hash: str, renewed_hash: str | None, books: Books
) -> Answer | None:
    visitor = make_visitor(visit)
    made = signin.open_session_by_password(books, name, seen_hash, renewed_hash, visitor)
    return _answer(books, visit, made)


def _open_by_link(visit: Visit, token: str, books: Books) -> Answer | None:
    made = signin.open_session_by_link(books, token, make_visitor(visit))
    return _answer(books, visit, made)


def _answer(books: Books, visit: Visit, made: NewSession | None) -> Answer | None:
    if made is None:
        return None
    return Answer(describe_session(books, visit, made.view), session_token=made.token)


async def _note_failure(visit: Visit, name: str | None, how: OpenedBy) -> None:
    if visit.console.throttle.take_note():
        await visit.run(lambda books: books.note_failed_signin(name, how))


ROUTES: Final = (
    Route("GET", "/console/api/session", "any", on_desk(show_session)),
    Route("POST", "/console/api/session", "none", sign_in),
    Route("POST", "/console/api/session/link", "none", sign_in_by_link),
    Route("DELETE", "/console/api/session", "none", on_desk(sign_out)),
)

"""Sign people in by name and password, throttle guesses, and note failures.

Unknown names get the same answer, timing and throttling as known ones. Each process counts by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeVar

from gateway.base.turns import spawn
from gateway.extras.signins import passwords, totp
from gateway.extras.signins.hasher import Busy, PasswordHasher
from gateway.extras.signins.people import PeopleBook
from gateway.extras.signins.records import FailedBy, Opening, SessionView, StoredPassword
from gateway.extras.signins.sessions import SignInBook
from gateway.extras.signins.signin import (
    prepare_session,
    require_fresh,
    require_new_password,
    require_password,
)
from gateway.extras.signins.throttle import SignInThrottle, Tries, find_device
from gateway.ledger.records import LedgerError, Refused
from gateway.ledger.sql.books import Books

T = TypeVar("T")

PASSWORD_TRIES: Final = 10
"""Tries at the current password or a code by somebody who is signed in, per hour: people mistype."""
TRIES_SECONDS: Final = 3600
"""Seconds in which they are counted: their limit is per hour."""
WRONG_CODE: Final = "This code is wrong, or was used before. Wait for the next one, then try again."


class Run(Protocol):
    """Runs a function on the books, in their thread."""

    async def __call__(self, function: Callable[[Books], T], /) -> T: ...


class TooManyTries(Exception):
    """There were too many tries: the next one has to wait."""

    def __init__(self, wait_seconds: int) -> None:
        super().__init__(
            f"Too many tries. Wait {wait_seconds} seconds, then try again. A sign-in link from the"
            " operator works immediately."
        )
        self.wait_seconds = wait_seconds


class WrongPassword(Refused):
    """Name or password is wrong; a failure of a sign-in."""

    how: FailedBy = "password"

    def __init__(self) -> None:
        text = "Name or password is wrong. Try again, or ask the operator for a sign-in link."
        super().__init__(text, code="wrong_credentials")


class WrongCurrent(Refused):
    """Somebody who is signed in typed a wrong current password."""

    def __init__(self) -> None:
        text = "The current password is wrong. Try again."
        super().__init__(text, code="wrong_password", field="current_password")


class WrongCode(Refused):
    """The password was right, the one-time code is wrong; a failure of a sign-in."""

    how: FailedBy = "code"

    def __init__(self) -> None:
        super().__init__(WRONG_CODE, code="wrong_code", field="code")


class CodeNeeded(Refused):
    """The password was right, and a one-time code is asked for."""

    def __init__(self) -> None:
        text = "Type the code that your authenticator app shows, or a recovery code."
        super().__init__(text, code="code_needed", field="code")


@dataclass(frozen=True, slots=True)
class Visit:
    """A try to sign in: its browser and address."""

    run: Run
    address: str
    device: str
    """The browser, as people's sessions show it."""
    cookie: str | None = field(default=None, repr=False)
    """The browser's device cookie for the name."""
    replaces: str | None = None
    """The browser's earlier session, which ends."""


@dataclass(frozen=True, slots=True)
class Door:
    throttle: SignInThrottle = field(default_factory=SignInThrottle)
    hasher: PasswordHasher = field(default_factory=PasswordHasher)
    tries: Tries = field(default_factory=lambda: Tries(PASSWORD_TRIES, TRIES_SECONDS))
    """Tries at a password or a code by people who are signed in."""

    async def sign_in(
        self,
        visit: Visit,
        name: str,
        password: str,
        code: str | None,
        welcome: Callable[[Books, SessionView, str], T],
    ) -> T:
        """Open a session; return the result of `welcome`, which gets the session and its token.

        Raises TooManyTries, Busy, WrongPassword, CodeNeeded and WrongCode, and Refused for a text that cannot
        be a password.
        """
        require_password(password, "password")
        self.hasher.require_room()
        device = await self._find_device(visit, name)
        if wait_seconds := self.throttle.take(name, visit.address, device):
            raise TooManyTries(wait_seconds)
        try:
            entered = await self._enter(visit, name, password, code, welcome)
        except (WrongPassword, WrongCode) as error:
            await self.note_failure(visit.run, visit.address, name, error.how)
            raise
        except (CodeNeeded, Busy, LedgerError):  # none of them says that the password was wrong
            self.throttle.give_back(name, visit.address, device)
            raise
        self.throttle.succeed(name, visit.address, device)
        return entered

    async def _enter(
        self,
        visit: Visit,
        name: str,
        password: str,
        code: str | None,
        welcome: Callable[[Books, SessionView, str], T],
    ) -> T:
        stored = await visit.run(lambda books: PeopleBook(books).find_password(name))
        # The hash is computed for unknown names, too, so that the time reveals nothing.
        is_right = await self.hasher.verify(password, None if stored is None else stored.hash)
        if stored is None or not is_right:
            raise WrongPassword
        renewed = await self.hasher.hash(password) if passwords.needs_rehash(stored.hash) else None
        return await visit.run(
            lambda books: welcome(books, *_open(books, visit, stored, renewed, code))
        )

    async def _find_device(self, visit: Visit, name: str) -> bytes | None:
        """Return the key of the browser's own counter, if this name has signed in with it before."""
        cookie = visit.cookie
        if cookie is None:  # as from most strangers, whom the throttle refuses without a look
            return None
        stored = await visit.run(lambda books: PeopleBook(books).find_password(name))
        return find_device(cookie, name, None if stored is None else stored.hash)

    async def change_password(
        self, run: Run, session: SessionView, current: str | None, new: str, opening: Opening
    ) -> str:
        """Set the password of somebody who is signed in and goes on in a new session; return its hash.

        Whoever signed in by a password must type it again, so that nobody changes it in a session left open.
        Raises Refused, TooManyTries, Busy and WrongCurrent.
        """
        name = session.signin.name
        require_new_password(new, name)
        stored = await run(lambda books: PeopleBook(books).find_hash(session.signin))
        if stored is not None and session.opened_by == "password":
            await self._check_current(session, stored, current or "")
        elif session.account.operator:
            # Setting a password counts as a fresh sign-in.
            await run(lambda books: require_fresh(session, books.clock()))
        hashed = await self.hasher.hash(new)
        await run(lambda books: SignInBook(books).change_password(session, stored, hashed, opening))
        self.throttle.clear(name)
        return hashed

    async def _check_current(self, session: SessionView, stored: str, current: str) -> None:
        require_password(current, "current_password")
        self.hasher.require_room()
        self.count_try(session)
        if not await self.hasher.verify(current, stored):
            raise WrongCurrent

    def count_try(self, session: SessionView) -> None:
        """Count a try at a password or a code by somebody who is signed in. Raises TooManyTries."""
        if wait_seconds := self.tries.take(session.signin.key):
            raise TooManyTries(wait_seconds)

    async def note_failure(self, run: Run, address: str, name: str | None, how: FailedBy) -> None:
        """Record a failure. A known account's is recorded also beyond the limits that all share.

        Beyond them nobody waits for the record: the delay would reveal which accounts are known.
        """
        if self.throttle.take_note(how, address):
            await run(lambda books: SignInBook(books).note_failure(name, how))
        elif name is not None and self.throttle.take_name_note(name):
            _ = spawn(_note_if_known(run, name, how), name="sign-in-note")


def _open(
    books: Books, visit: Visit, stored: StoredPassword, renewed: str | None, code: str | None
) -> tuple[SessionView, str]:
    checked = totp.check(books, stored.signin, code)
    if checked != "right":
        raise CodeNeeded if checked == "missing" else WrongCode
    token, opening = prepare_session(visit.device, visit.address, visit.replaces)
    view = SignInBook(books).open_by_password(stored, renewed, opening)
    if view is None:
        raise WrongPassword
    return view, token


async def _note_if_known(run: Run, name: str, how: FailedBy) -> None:
    with suppress(LedgerError):  # nobody waits for the result
        await run(lambda books: SignInBook(books).note_failure(name, how, if_known=True))

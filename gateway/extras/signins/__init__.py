"""Sign people in to accounts: passwords, one-time codes, sign-in links and sessions.

Without it nobody signs in, so the console is missing, too. Rows of people and their sessions stay in the
ledger. New accounts can then take the names of people, and a change of role ends no session.

    records     a sign-in, its session, its one-time codes
    people      the people of an account; which sessions have not ended
    sessions    passwords as hashes, sign-in links and sessions by the SHA-256 of their token
    totp        one-time codes and recovery codes
    typed       codes that people type: recovery codes, and those of the extra `codes`
    signin      the verbs of signing in: passwords, links, sessions
    passwords   weak passwords, and password hashes
    hasher      threads for hashes
    door        sign in by name and password: throttling, checks, and notes of failures
    throttle    rate limits for what can be guessed; cookies of browsers that are known
    browsers    what browsers say of themselves and keep: site, device, cookies
    tunnel      how an address of this machine alone is reached from another one
    verbs       the commands, such as `account passwd`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.extension import Extra, LedgerTables

if TYPE_CHECKING:
    from gateway.ledger.sql.database import Database


def _check_name(database: Database, name: str) -> None:
    from gateway.extras.signins.people import PeopleBook

    PeopleBook(database).require_free_name(name)


def _end_access(database: Database, account_id: int) -> None:
    from gateway.extras.signins.sessions import SignInBook

    SignInBook(database).end_all(account_id)


def _add_to_reports() -> object:
    from gateway.extras.signins.people import PeopleBook

    def describe_accounts(
        database: Database, account_ids: Sequence[int]
    ) -> Mapping[int, Mapping[str, object]]:
        known = PeopleBook(database).find_with_password(account_ids)
        return {one: {"has_password": one in known} for one in account_ids}

    return describe_accounts


EXTRA = Extra(
    adds_to={"reports": _add_to_reports},
    first_words={"account": ""},
    ledger=LedgerTables(
        names=("passwords", "totp", "recovery_codes", "signin_links", "sessions"),
        unmoved=("signin_links", "sessions"),
        check_name=_check_name,
        end_access=_end_access,
    ),
)

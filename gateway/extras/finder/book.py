"""Searches of the ledger for accounts, keys and calls; the records of results, also for other extras."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from gateway.base.ids import PREFIX, SHOWN_CHARS, display
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part, Rows, read_script

MOST: Final = 5
"""The most that is shown of a kind: a search that finds more is refined, or done on the page of that kind."""
CALL_PREFIX: Final = "req_"
LEAST_ID_CHARS: Final = len(CALL_PREFIX) + 12
"""The part of a request id that is its time: fewer characters mean a long time with many calls."""
_BEHIND: Final = "g"
"""A character that sorts behind every hex digit."""

_SQL: Final = read_script(__file__)


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    note: str
    """Distinguishes results with the same name."""
    path: str
    """The page that shows it."""


@dataclass(frozen=True, slots=True)
class Finder:
    """A search by operators in what an extra keeps. The extra adds it to this one by `Extra.adds_to`."""

    kind: str
    """Names what it finds, such as `Codes`."""
    find: Callable[[Books, str], Sequence[Found]]
    """Returns what a text means, `MOST` at most; nothing of it is secret."""


class SearchBook(Part):
    def __init__(self, books: Books) -> None:
        super().__init__(books)
        self._accounts = books.accounts

    def find_accounts(self, text: str) -> list[Found]:
        """Return accounts with this in their name: those that begin with it come first."""
        names = [name for name, _ in self._accounts.find_names(text)]
        begun = text.casefold()
        names.sort(key=lambda name: not name.casefold().startswith(begun))
        return [Found(name, "", f"/console/accounts/{quote(name, '')}") for name in names[:MOST]]

    def find_keys(self, text: str, account_id: int | None) -> list[Found]:
        """Return keys of an account, or of all, by their last characters, their name or their id.

        A whole key is searched by its last characters only.
        """
        escaped = text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
        last4 = text[-SHOWN_CHARS:] if text.startswith((PREFIX, "…")) else text
        found = self._find("keys", account_id, last4=last4, part=f"%{escaped}%", text=text)
        return [
            Found(
                name or "unnamed",
                ", ".join(
                    (
                        display(end, id_),
                        *([] if account_id else [account]),
                        *(["revoked"] if ended else []),
                    )
                ),
                f"/console/activity?{urlencode({'key': id_} if account_id else {'account': account, 'key': id_})}",
            )
            for id_, name, end, account, ended in found
        ]

    def find_calls(self, text: str, account_id: int | None) -> list[Found]:
        """Return calls of an account, or of all, whose request id begins with this; also refused ones."""
        if not text.startswith(CALL_PREFIX) or len(text) < LEAST_ID_CHARS:
            return []
        bounds = {"low": text, "high": text + _BEHIND}
        rows = [
            *self._find("calls", account_id, **bounds),
            *self._find("refused calls", account_id, **bounds),
        ]
        return [
            Found(
                id_,
                what if account_id else f"{account}, {what}",
                f"/console/activity/{quote(id_, '')}",
            )
            for id_, account, what in rows[:MOST]
        ]

    def _find(self, name: str, account_id: int | None, **values: str) -> Rows:
        whose = "TRUE" if account_id is None else "keys.account_id = :account"
        wanted = {**values, "account": account_id, "limit": MOST}
        return self._database.fetch(_SQL[name].format(whose=whose), wanted)

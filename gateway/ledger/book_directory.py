"""Accounts as the operator looks them up: by id, by a part of the name, with how they stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from gateway.ledger.book import Book
from gateway.ledger.records import NotFound, StandingView
from gateway.ledger.reports import ACCOUNT_COLUMNS, KEY_WORKS, view_account

_NAMES: Final = "SELECT json_group_array(json_array(name, id)) FROM accounts"
_STANDINGS: Final = f"""
    SELECT json_group_array(json_array(
        {ACCOUNT_COLUMNS},
        coalesce((
            SELECT sum(cost_nano) FROM daily
            WHERE daily.account_id = accounts.id AND day >= :since_day
        ), 0),
        (
            SELECT count(*) FROM keys WHERE keys.account_id = accounts.id AND {KEY_WORKS}
        ),
        (SELECT max(last_used_ms) FROM keys WHERE keys.account_id = accounts.id),
        EXISTS (SELECT 1 FROM passwords WHERE passwords.account_id = accounts.id)
    ))
    FROM accounts WHERE id IN (SELECT value FROM json_each(:ids))
"""  # noqa: S608 - of constants


class DirectoryBook(Book):
    """Sums are of the accounts shown alone, so a page costs the same however many there are."""

    def find_accounts(self, search: str | None) -> list[tuple[str, int]]:
        """Names and ids by name; `search` is a part of the name, in any case of any alphabet.

        SQLite folds ASCII alone, so this looks at all names: 10,000 take some 10 ms.
        """
        with self.reading() as connection:
            (found,) = connection.execute(_NAMES).fetchone()
        part = (search or "").casefold()
        return sorted((name, id_) for name, id_ in orjson.loads(found) if part in name.casefold())

    def standings(self, account_ids: Sequence[int], *, since_day: int) -> list[StandingView]:
        """By name; spent is what was charged since the beginning of a UTC day."""
        wanted = {
            "ids": orjson.dumps(account_ids).decode(),
            "since_day": since_day,
            "now": self.clock(),
        }
        with self.reading() as connection:
            (found,) = connection.execute(_STANDINGS, wanted).fetchone()
        views = [_make_standing(row) for row in orjson.loads(found)]
        return sorted(views, key=lambda view: view.account.name)

    def standing(self, account_id: int, *, since_day: int) -> StandingView:
        """Raises NotFound."""
        found = self.standings((account_id,), since_day=since_day)
        if not found:
            raise NotFound("there is no such account")
        return found[0]

    def account_id(self, name: str) -> int:
        """Raises NotFound."""
        return int(self._find("SELECT id FROM accounts WHERE name = ?", name))

    def account_name(self, account_id: int) -> str:
        """Raises NotFound."""
        return str(self._find("SELECT name FROM accounts WHERE id = ?", account_id))

    def _find(self, sql: str, wanted: str | int) -> str | int:
        with self.reading() as connection:
            row = connection.execute(sql, (wanted,)).fetchone()
        if row is None:
            raise NotFound("there is no such account")
        found: str | int = row[0]
        return found


def _make_standing(row: list[Any]) -> StandingView:
    *account, spent_nano, keys, last_used_ms, has_password = row
    return StandingView(view_account(account), spent_nano, keys, last_used_ms, bool(has_password))

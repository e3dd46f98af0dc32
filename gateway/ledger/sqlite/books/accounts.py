"""Accounts: created, suspended, and looked up by id, by name and by a part of the name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import orjson

from gateway.ledger.records import AccountView, Conflict, NotFound, StandingView
from gateway.ledger.sqlite.batch import Draft, post_entries
from gateway.ledger.sqlite.books.database import (
    ACCOUNT_COLUMNS,
    EACH_ACCOUNT,
    KEY_WORKS,
    AccountColumns,
    Database,
    Value,
    append_change,
    read_account,
    read_account_name,
    view_account,
)
from gateway.money import format_amount

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
"""  # noqa: S608 - built from constants
_INSERT: Final = "INSERT INTO accounts (name, operator, created_ms) VALUES (?, ?, ?) RETURNING id"


class AccountBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, name: str) -> AccountView:
        with self._database.reading() as connection:
            return read_account(connection, name)

    def read_all(self) -> list[AccountView]:
        with self._database.reading() as connection:
            rows = connection.execute(EACH_ACCOUNT + " ORDER BY name")
            return [view_account(row) for row in rows]

    def find_names(self, search: str | None) -> list[tuple[str, int]]:
        """Search all names here, because SQLite folds only ASCII: 10,000 names take some 10 ms."""
        found, part = self._database.read_rows(_NAMES, ()), (search or "").casefold()
        return sorted((name, id_) for name, id_ in found if part in name.casefold())

    def find_id(self, name: str) -> int:
        with self._database.reading() as connection:
            row = connection.execute("SELECT id FROM accounts WHERE name = ?", (name,)).fetchone()
        if row is None:
            raise NotFound("there is no such account")
        return int(row[0])

    def find_name(self, account_id: int) -> str:
        with self._database.reading() as connection:
            return read_account_name(connection, account_id)

    def read_standing(self, account_id: int, *, since_day: int) -> StandingView:
        found = self.read_standings((account_id,), since_day=since_day)
        if not found:
            raise NotFound("there is no such account")
        return found[0]

    def read_standings(self, account_ids: Sequence[int], *, since_day: int) -> list[StandingView]:
        """Sum only for these accounts, so a page costs the same however many accounts there are."""
        wanted: dict[str, Value] = {
            "ids": orjson.dumps(account_ids).decode(),
            "since_day": since_day,
            "now": self._database.clock(),
        }
        views = [_make_standing(row) for row in self._database.read_rows(_STANDINGS, wanted)]
        return sorted(views, key=lambda view: view.account.name)

    def create(self, name: str, *, credit_nano: int, operator: bool, note: str = "") -> AccountView:
        with self._database.changing() as connection:
            if connection.execute("SELECT 1 FROM accounts WHERE name = ?", (name,)).fetchone():
                raise Conflict(
                    f"there is an account '{name}' already", code="name_taken", field="name"
                )
            now_ms = self._database.clock()
            (account_id,) = connection.execute(_INSERT, (name, operator, now_ms)).fetchone()
            if credit_nano:
                draft = Draft(account_id, "credit", credit_nano, now_ms, note=note)
                post_entries(connection, [draft])
            append_change(connection, "account", account_id)
            credited = f"with a credit of {format_amount(credit_nano)}" if credit_nano else ""
            self._database.note("account.add", account=name, detail=credited)
            return read_account(connection, name)

    def suspend(self, name: str, *, reason: str = "") -> AccountView:
        return self._set_suspended(name, "account.suspend", reason, suspended=True)

    def resume(self, name: str) -> AccountView:
        return self._set_suspended(name, "account.resume", "", suspended=False)

    def _set_suspended(
        self, name: str, action: str, reason: str, *, suspended: bool
    ) -> AccountView:
        with self._database.changing() as connection:
            account = read_account(connection, name)
            connection.execute(
                "UPDATE accounts SET suspended = ? WHERE id = ?", (suspended, account.id)
            )
            append_change(connection, "account", account.id)
            self._database.note(action, account=name, detail=reason)
            return read_account(connection, name)


def _make_standing(
    row: tuple[*AccountColumns, int, int, int | None, int],
) -> StandingView:
    spent_nano, keys, last_used_ms, has_password = row[7:]
    return StandingView(view_account(row[:7]), spent_nano, keys, last_used_ms, bool(has_password))

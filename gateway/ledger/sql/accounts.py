"""Accounts: created, edited, suspended, and looked up by id, by name and by a part of the name."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from typing import Final

from gateway.base.money import format_amount
from gateway.extension import find_ledger_tables
from gateway.ledger import checks
from gateway.ledger.key_records import TermChanges, Terms
from gateway.ledger.records import AccountView, Conflict, NotFound, Refused
from gateway.ledger.sql.database import (
    EACH_ACCOUNT,
    Part,
    describe_changes,
    view_account,
    write_terms,
)
from gateway.ledger.sql.rows import Draft, post_entry

_NAMES: Final = "SELECT json_group_array(json_array(name, id)) FROM accounts"
_OTHER_OPERATORS: Final = "SELECT 1 FROM accounts WHERE operator = 1 AND suspended = 0 AND id <> ?"
_NO_TERMS: Final = Terms()


class AccountBook(Part):
    def read(self, name: str) -> AccountView:
        return self._database.read_account(name)

    def read_all(self) -> list[AccountView]:
        """Return all accounts by name."""
        return [view_account(row) for row in self._database.fetch(EACH_ACCOUNT + " ORDER BY name")]

    def find_names(self, search: str | None) -> list[tuple[str, int]]:
        """Return names and ids by name; `search` is a part of the name, in any case."""
        # All names are searched here, because SQLite folds only ASCII: 10,000 take some 10 ms.
        found, part = self._database.read_rows(_NAMES, ()), (search or "").casefold()
        return sorted((name, id_) for name, id_ in found if part in name.casefold())

    def find_id(self, name: str) -> int:
        missing = NotFound("there is no such account")
        sql = "SELECT id FROM accounts WHERE name = ?"
        named = (self._database.name_account(name),)
        return int(self._database.require_one(sql, named, missing)[0])

    def create(
        self,
        name: str,
        *,
        credit_nano: int = 0,
        operator: bool = False,
        note: str = "",
        terms: Terms = _NO_TERMS,
    ) -> AccountView:
        """Create an account; `note` is the reason for its credit."""
        name = unicodedata.normalize("NFC", name)
        checks.require_account_name(name)
        if credit_nano:
            checks.require_credit(credit_nano, "credit")
        checks.require_note("the note", note)
        checks.require_terms(terms)
        with self._database.changing():
            # Looked for first, as the constraint's error would not say what is wrong in words.
            if self._database.read_one("SELECT 1 FROM accounts WHERE name = ?", (name,)):
                raise Conflict(
                    f"there is an account '{name}' already", code="name_taken", field="name"
                )
            for tables in find_ledger_tables().values():
                tables.check_name(self._database, name)
            now_ms = self._database.clock()
            row = {"name": name, "operator": operator, "created_ms": now_ms, **write_terms(terms)}
            account_id = self._database.insert_numbered("accounts", row)
            if credit_nano:
                draft = Draft(account_id, "credit", credit_nano, now_ms, note=note)
                post_entry(self._database, draft)
            self._database.append_change("account", account_id)
            credited = f"with a credit of {format_amount(credit_nano)}" if credit_nano else ""
            self._database.note("account.add", account=name, detail=credited)
            return self._database.read_account(name)

    def edit(self, name: str, changes: TermChanges, *, operator: bool | None = None) -> AccountView:
        """Change terms or role; a new role ends sign-ins and links. The last operator cannot lose the role."""
        if not changes and operator is None:
            raise Refused("nothing to change; give a limit, models or a role")
        checks.require_terms(replace(_NO_TERMS, **changes))
        with self._database.changing():
            account = self._database.read_account(name)
            said = describe_changes(changes)
            if operator is not None and operator != account.operator:
                self._require_operators(account)
                # Whoever signed in before the change would keep the rights of the other role.
                for tables in find_ledger_tables().values():
                    tables.end_access(self._database, account.id)
                self._database.update("accounts", account.id, {"operator": operator})
                said.append("made an operator" if operator else "no longer an operator")
            columns = write_terms(replace(account.terms, **changes))
            self._database.update("accounts", account.id, columns)
            self._database.append_change("account", account.id)
            self._database.note("account.edit", account=name, detail="; ".join(said))
            return self._database.read_account(name)

    def _require_operators(self, account: AccountView) -> None:
        """Raise Conflict if there is no other operator."""
        others = self._database.read_one(_OTHER_OPERATORS, (account.id,))
        if account.operator and others is None:
            raise Conflict(
                f"'{account.name}' is the last operator, and without one only commands can manage"
                " accounts; make another account an operator first",
                code="last_operator",
                field="operator",
            )

    def suspend(self, name: str, *, reason: str = "") -> AccountView:
        checks.require_note("the reason", reason, "reason")
        return self._set_suspended(name, "account.suspend", reason, suspended=True)

    def resume(self, name: str) -> AccountView:
        return self._set_suspended(name, "account.resume", "", suspended=False)

    def _set_suspended(
        self, name: str, action: str, reason: str, *, suspended: bool
    ) -> AccountView:
        with self._database.changing():
            account = self._database.read_account(name)
            self._database.update("accounts", account.id, {"suspended": suspended})
            self._database.append_change("account", account.id)
            self._database.note(action, account=name, detail=reason)
            return self._database.read_account(name)

"""Keys of accounts: created, edited, replaced and revoked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Final

from gateway.base import ids
from gateway.base.money import format_amount
from gateway.base.times import format_moment
from gateway.ledger.budget_records import Allowance
from gateway.ledger.checks import require_allowance, require_key_terms
from gateway.ledger.key_records import KeyChanges, KeyStatus, KeyTerms, KeyView
from gateway.ledger.records import Conflict, NotFound, Refused, StoredSecret
from gateway.ledger.sql.budgets import BudgetBook, describe_allowance
from gateway.ledger.sql.database import (
    KEY_TERMS,
    Database,
    KeyTermsColumns,
    Part,
    describe_changes,
    read_key_terms,
    write_terms,
)
from gateway.ledger.sql.rows import BUDGET_COLUMNS, BudgetColumns, read_budget

EACH_KEY: Final = f"""
    SELECT keys.id, accounts.name, keys.last4, origins.spent_nano, keys.created_ms,
        keys.revoked_ms, keys.last_used_ms, keys.replaced_by, {BUDGET_COLUMNS}, {KEY_TERMS}
    FROM keys JOIN keys AS origins ON origins.id = keys.origin_id
        JOIN accounts ON accounts.id = keys.account_id
        LEFT JOIN budgets ON budgets.id = keys.budget_id
"""  # noqa: S608 - built from constants
KeyColumns = tuple[
    str, str, str, int, int, int | None, int | None, str | None, *BudgetColumns, *KeyTermsColumns
]
_KEYS: Final = (
    EACH_KEY + " WHERE accounts.name = coalesce(?, accounts.name)"
    " ORDER BY accounts.name, keys.created_ms, keys.id"
)
_KEY: Final = EACH_KEY + " WHERE keys.id = ? AND keys.account_id = coalesce(?, keys.account_id)"
_OF_DIGEST: Final = """
    SELECT accounts.name, keys.id FROM keys JOIN accounts ON accounts.id = keys.account_id
    WHERE keys.digest = ?
"""
_ORIGIN: Final = "SELECT origin_id FROM keys WHERE id = ?"
_SAME_LINE: Final = f"SELECT id FROM keys WHERE origin_id = ({_ORIGIN}) ORDER BY id"  # noqa: S608

_ENDED: Final[Mapping[KeyStatus, str]] = {"revoked": "is revoked", "expired": "has expired"}
MAX_NAMED: Final = 10
"""Keys of one name that a refusal lists, so that it can be read."""


class KeyBook(Part):
    """If `account_id` is given, keys of other accounts are treated as unknown."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.budgets = BudgetBook(database)

    def read_all(self, account: str | None = None) -> list[KeyView]:
        """Return all keys, or those of an account; by account, the oldest first."""
        if account is not None:
            account = self._database.read_account(account).name
        now_ms = self._database.clock()
        return [view_key(row, now_ms) for row in self._database.fetch(_KEYS, (account,))]

    def read(self, key_id: str, *, account_id: int | None = None) -> KeyView:
        missing = NotFound(f"there is no key '{key_id}'")
        row = self._database.require_one(_KEY, (key_id, account_id), missing)
        return view_key(row, self._database.clock())

    def find_id(self, word: str) -> str:
        """Return the id of the key that `word` names: its id, or the name that it alone has.

        Ended keys count only where none of the name works, so that a successor keeps the name.

        Raises:
            NotFound: no key has this id or name.
            Refused: several keys have the name, or the word is a key itself, which is not repeated.
        """
        if ids.PREFIX in word or self.find_owner(ids.digest(word)):
            raise Refused(
                "give the id or the name of the key, not the key itself: `key list` shows them with its"
                " last characters. Whoever may have seen it here can use it until it is revoked"
            )
        # Ids first: a name that looks like the id of another key must not take its place.
        with suppress(NotFound):
            return self.read(word).id
        named = [key for key in self.read_all() if key.terms.name == word]
        if not named:
            raise NotFound(f"there is no key with the id or name '{word}'; `key list` lists them")
        now_ms = self._database.clock()
        found = [key for key in named if key.status(now_ms) not in _ENDED] or named
        if len(found) == 1:
            return found[0].id
        listed = [f"{key.id} of {key.account}" for key in found[:MAX_NAMED]]
        if len(found) > MAX_NAMED:
            listed.append(f"{len(found) - MAX_NAMED} more")
        raise Refused(
            f"{len(found)} keys are named '{word}'; give the id of one: {', '.join(listed)}"
        )

    def find_owner(self, digest: bytes) -> tuple[str, str] | None:
        """Return the account and the id of a key, which may have ended; None if there is no such key."""
        row = self._database.read_one(_OF_DIGEST, (digest,))
        return None if row is None else (row[0], row[1])

    def create(
        self, account: str, terms: KeyTerms, new: StoredSecret, *, own: Allowance | None = None
    ) -> KeyView:
        """Create a key; `own` gives it a budget of its own in place of a shared one."""
        self._require_terms(terms, own)
        with self._database.changing():
            owner = self._database.read_account(account)
            if own is not None:
                terms = replace(terms, budget_id=self.budgets.insert(owner.id, None, own))
            elif terms.budget_id is not None:
                self.budgets.find_shared(owner.id, terms.budget_id)
            self._insert(owner.id, terms, new, new.id)
            self._database.note("key.add", account=account, target=new.id, detail=terms.name)
            return self.read(new.id)

    def edit(
        self,
        key_id: str,
        changes: KeyChanges,
        *,
        own: Allowance | None = None,
        account_id: int | None = None,
    ) -> KeyView:
        """Change some terms of a live key; `own` changes its own budget, or gives it one."""
        if own is None and not changes:
            raise Refused(
                "nothing to change; give a name, a cap, a budget, an expiry, models or a limit"
            )
        self._require_terms(KeyTerms(**changes), own)
        with self._database.changing():
            key = self.read(key_id, account_id=account_id)
            self._require_working(key)
            if key.replaced_by is not None and "expires_ms" in changes:
                raise Conflict(
                    f"key {key_id} was replaced by {key.replaced_by} and ends when its grace does;"
                    " revoke it to end it sooner",
                    code="already_replaced",
                )
            said = _describe_edit(changes)
            owner = self._database.read_account(key.account)
            if own is not None:
                changes = {**changes, "budget_id": self.budgets.set_own(key, owner.id, own)}
                said.append(f"budget {describe_allowance(own)}")
            elif "budget_id" in changes:
                said.append(self._describe_budget(owner.id, changes["budget_id"]))
            terms = replace(key.terms, **changes)
            self._database.update("keys", key_id, write_terms(terms))
            self._database.append_change("key", key_id)
            if "cap_nano" in changes:
                # The keys of a line share their sum, so another cap of one would be no cap at all.
                self._share_cap(key_id, changes["cap_nano"])
            self._note("key.edit", key, "; ".join(said))
            return self.read(key_id)

    def replace(
        self, old_id: str, new: StoredSecret, *, grace_ms: int, account_id: int | None = None
    ) -> KeyView:
        """Create a key on the old one's terms, with the same cap and budget; the old one expires.

        The two are of one line: what either spends counts for both, see `base.Line`.
        """
        with self._database.changing():
            old = self.read(old_id, account_id=account_id)
            if old.replaced_by is not None:
                raise Conflict(
                    f"key {old_id} was replaced by {old.replaced_by}; rotate that one",
                    code="already_replaced",
                )
            self._require_working(old)
            owner = self._database.read_account(old.account)
            (origin_id,) = self._database.read_one(_ORIGIN, (old_id,))
            self._insert(owner.id, old.terms, new, origin_id)
            end_ms = self._database.clock() + grace_ms
            if old.terms.expires_ms is not None:  # a grace lengthens no life
                end_ms = min(end_ms, old.terms.expires_ms)
            self._database.update("keys", old_id, {"expires_ms": end_ms, "replaced_by": new.id})
            self._database.append_change("key", old_id)
            self._note("key.rotate", old, f"replaced by {new.id}, grace {grace_ms // 1000} s")
            return self.read(new.id)

    def revoke(self, key_id: str, *, account_id: int | None = None) -> KeyView:
        """Revoke a key at once; a key that is revoked already keeps its time."""
        with self._database.changing():
            key = self.read(key_id, account_id=account_id)
            if key.revoked_ms is not None:
                return key
            self._database.update("keys", key_id, {"revoked_ms": self._database.clock()})
            self._database.append_change("key", key_id)
            self._note("key.revoke", key, key.terms.name)
            return self.read(key_id)

    def _insert(self, account_id: int, terms: KeyTerms, new: StoredSecret, origin_id: str) -> None:
        line = {"account_id": account_id, "origin_id": origin_id}
        row = {"created_ms": self._database.clock(), **asdict(new), **line, **write_terms(terms)}
        self._database.insert("keys", row)
        self._database.append_change("key", new.id)

    def _share_cap(self, key_id: str, cap_nano: int | None) -> None:
        """Set the cap of the other keys of its line."""
        for (other_id,) in self._database.fetch(_SAME_LINE, (key_id,)):
            if other_id != key_id:
                self._database.update("keys", other_id, {"cap_nano": cap_nano})
                self._database.append_change("key", other_id)

    def _require_terms(self, terms: KeyTerms, own: Allowance | None) -> None:
        require_allowance(own, "budget_amount")
        require_key_terms(terms, self._database.clock())

    def _require_working(self, key: KeyView) -> None:
        ended = _ENDED.get(key.status(self._database.clock()))
        if ended:
            raise Conflict(f"key {key.id} {ended}; add a new one", code="key_dead")

    def _describe_budget(self, account_id: int, budget_id: int | None) -> str:
        """Say which budget it is, for the event. Raises NotFound if the account has no such one."""
        if budget_id is None:
            return "budget none"
        return f"budget '{self.budgets.find_shared(account_id, budget_id)}'"

    def _note(self, action: str, key: KeyView, detail: str) -> None:
        self._database.note(action, account=key.account, target=key.id, detail=detail)


def view_key(row: KeyColumns, now_ms: int) -> KeyView:
    terms = read_key_terms(row[15:])
    budget = None if terms.budget_id is None else read_budget(row[8:15]).show(now_ms)
    key_id, account, last4 = row[:3]
    return KeyView(key_id, account, ids.display(last4, key_id), terms, *row[3:8], budget=budget)


def _describe_edit(changes: KeyChanges) -> list[str]:
    said = []
    if "name" in changes:
        said.append(f"name '{changes['name']}'")
    if "cap_nano" in changes:
        cap_nano = changes["cap_nano"]
        said.append(f"cap {'none' if cap_nano is None else format_amount(cap_nano)}")
    if "expires_ms" in changes:
        expires_ms = changes["expires_ms"]
        said.append(
            f"expires {'never' if expires_ms is None else f'{format_moment(expires_ms)} UTC'}"
        )
    return [*said, *describe_changes(changes)]

"""The part of the books' contract for keys and the budgets that they spend from."""

from __future__ import annotations

from typing import Protocol

from gateway.ledger.budget_records import Allowance, BudgetChanges, BudgetView
from gateway.ledger.key_records import KeyChanges, KeyTerms, KeyView
from gateway.ledger.records import StoredSecret


class Keys(Protocol):
    """If `account_id` is given, keys of other accounts are treated as unknown."""

    def read(self, key_id: str, *, account_id: int | None = None) -> KeyView: ...

    def read_all(self, account: str | None = None) -> list[KeyView]:
        """Return all keys, or those of an account; by account, the oldest first."""

    def read_page(
        self,
        account_id: int,
        *,
        live_at_ms: int | None,
        after: tuple[str | int, ...] | None,
        limit: int,
    ) -> tuple[int, list[KeyView]]:
        """Return how many keys there are, and those behind `after`, the newest first.

        `after` is (created_ms, id). Keys that have ended by `live_at_ms` are left out.
        """

    def create(
        self, account: str, terms: KeyTerms, new: StoredSecret, *, own: Allowance | None = None
    ) -> KeyView:
        """Create a key; `own` gives it a budget of its own in place of a shared one."""

    def edit(
        self,
        key_id: str,
        changes: KeyChanges,
        *,
        own: Allowance | None = None,
        account_id: int | None = None,
    ) -> KeyView:
        """Change terms; `own` changes the key's own budget, or gives it one."""

    def replace(
        self, old_id: str, new: StoredSecret, *, grace_ms: int, account_id: int | None = None
    ) -> KeyView:
        """Create a key on the old one's terms, with the rest of its cap; the old one expires.

        Both spend from the same budget. During the grace both may spend the rest of
        the cap, because each counts its own charges.
        """

    def revoke(self, key_id: str, *, account_id: int | None = None) -> KeyView:
        """Revoke a key at once; a key that is revoked already keeps its time."""


class Budgets(Protocol):
    """If `account_id` is given, budgets of other accounts are treated as unknown."""

    def read(self, budget_id: int, *, account_id: int | None = None) -> BudgetView:
        """Raises NotFound also for a budget that has ended."""

    def read_all(self, account: str | None = None) -> list[BudgetView]:
        """Return the named budgets and those of keys that have not ended; by account and name."""

    def create(self, account: str, name: str, allowance: Allowance) -> BudgetView:
        """Create a budget that several keys can share."""

    def edit(
        self, budget_id: int, changes: BudgetChanges, *, account_id: int | None = None
    ) -> BudgetView:
        """Change a budget; one with another period counts what was charged to it in that."""

    def end(self, budget_id: int, *, account_id: int | None = None) -> None:
        """End a named budget that no live key spends from. Raises Conflict if one does."""

"""Entries of all accounts are those of each."""

from __future__ import annotations

from gateway.base.times import DAY_MS
from gateway.extras.reports.entries import RUNS_OF_ALL, EntryFilter, EntryRuns
from gateway.ledger.records import EntryKind
from gateway.ledger.sql.books import Books
from tests.ledger.sql.conftest import FIRST
from tests.support.rows import each_row


@each_row("kind", RUNS_OF_ALL)
def test_the_entries_of_all_accounts_are_those_of_each(
    moved: Books, kind: EntryKind | None
) -> None:
    each = [
        one
        for account_id in (1, 2)
        for one in EntryRuns(moved).read_run(EntryFilter(account_id, kind), None, 99).entries
    ]
    run = EntryRuns(moved).read_run(EntryFilter(None, kind), None, 2)
    found = list(run.entries)
    while run.next_id is not None:
        run = EntryRuns(moved).read_run(EntryFilter(None, kind), run.next_id, 2)
        found += run.entries
    assert found == sorted(each, key=lambda one: one.id, reverse=True)
    assert EntryRuns(moved).count(None, kind) == len(found)
    since = EntryFilter(None, kind, since_ms=FIRST * DAY_MS, until_ms=(FIRST + 1) * DAY_MS)
    inside = [one for one in found if one.created_ms == FIRST * DAY_MS]
    assert list(EntryRuns(moved).read_run(since, None, 99).entries) == inside

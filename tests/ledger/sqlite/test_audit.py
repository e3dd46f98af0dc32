"""The audit finds what is wrong, wherever it is, and proves what is right."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.admin import accounts, codes
from gateway.ledger.records import LedgerMismatch
from gateway.ledger.sqlite.audit import run_audit
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.money import Price
from gateway.prices import AppliedPrice
from tests.ledger.kit import Place, admission, charge, find_key, make_place, query, void

OPEN_UP = "DROP TRIGGER entries_no_update; DROP TRIGGER entries_no_delete;"
OPEN_UP += "DROP TRIGGER requests_settle_once; DROP TRIGGER requests_no_delete;"
OPEN_UP += "DROP TRIGGER codes_end_once; DROP TRIGGER codes_no_delete; PRAGMA foreign_keys = OFF;"


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return asyncio.run(make_history(tmp_path_factory.mktemp("history")))


@pytest.fixture
def place(history: Place, tmp_path: Path) -> Place:
    path = tmp_path / "gateway.db"
    shutil.copyfile(history.path, path)
    return replace(history, path=path)


async def make_history(folder: Path) -> Place:
    """Ten charges of 70, a void, a pending request, a credit and a correction."""
    place = make_place(folder, credit_nano=100_000)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        for _ in range(10):
            await charge(ledger, key, 70)
        await ledger.settle(ledger.hold(key, admission()), void())
        await ledger.wait_admitted(ledger.hold(key, admission()))
    with accounts.open_books(place.path) as books:
        accounts.credit(books, "a", 5)
        accounts.correct(books, "a", -3, note="n")
        made = codes.make_codes(books, amount_nano=9, count=1)
        codes.redeem(books, "a", made.codes[0])
        accounts.add_account(books, "idle")
    return place


def tamper(place: Place, sql: str) -> None:
    with closing(sqlite3.connect(place.path)) as connection:
        connection.executescript(OPEN_UP + sql)


def test_sound_books_pass_and_become_a_checkpoint(place: Place) -> None:
    with SqliteBooks(place.path) as books:
        report = books.audit()
        assert report.ok
        assert (report.accounts, report.entries, report.problems) == (2, 14, ())
        assert (report.pending, report.interrupted) == (1, 0)
        fast = run_audit(books.connection, full=False, now_ms=1)
        assert (fast.ok, fast.entries) == (True, 0), "all was proven before"
        accounts.credit(books, "a", 5)
        assert run_audit(books.connection, full=False, now_ms=1).entries == 1
    assert query(place.path, "SELECT max(entry_id) FROM checkpoints") == [(15,)]


DEARER = "price_id = (SELECT price_id FROM requests WHERE state = 'pending')"
SEARCHES = AppliedPrice(Price(0, 0, 0, 0, request=70, web_search=1000))
ADD_PRICE = f"INSERT INTO prices VALUES ({SEARCHES.id}, '{SEARCHES.text}')"
EVERYWHERE = {
    "UPDATE accounts SET balance_nano = balance_nano + 1": "account a: balance is",
    "UPDATE accounts SET balance_nano = 1 WHERE name = 'idle'": "account idle: balance is 1",
    "UPDATE entries SET amount_nano = -71 WHERE id = 4": "entry 4: balance after",
    "UPDATE entries SET balance_after_nano = 0 WHERE id = 4": "entry 4: balance after",
    "DELETE FROM entries WHERE id = 4": "account a: balance is",
    "UPDATE requests SET cost_nano = 71 WHERE state = 'posted'": "is not posted at its amount",
    "UPDATE requests SET account_id = 2 WHERE state = 'posted'": "is not posted at its amount",
    "DELETE FROM requests WHERE state = 'posted'": "is not posted at its amount",
}
FULL_ONLY = {
    "UPDATE keys SET spent_nano = spent_nano + 1": "key key_",
    "UPDATE requests SET state = 'posted', outcome = 'complete', ended_ms = 1, status = 200"
    " WHERE state = 'pending'": "posted without a charge",
    "UPDATE hourly SET requests = requests + 1": "account a, hour 2023-11-14T22:00Z, model demo/echo,"
    " key key_",
    "UPDATE prices SET price = json_set(price, '$.output', 1000000)": "its text is not that of the price",
    "UPDATE prices SET price = '[]'": "its text is not that of the price that was applied",
    f"UPDATE requests SET {DEARER}": "its cost is 70, its usage at its price makes 4 nano-units",
    f'{ADD_PRICE}; UPDATE requests SET price_id = {SEARCHES.id}, extras = \'{{"tools":{{"web_search":1}}}}\''
    " WHERE state = 'posted'": "its usage at its price makes 71 nano-units",
    f"UPDATE requests SET {DEARER}, input_tokens = 9000000000000000000 WHERE id = (SELECT min(id) FROM"
    " requests WHERE state = 'posted')": "its price makes 1350000000000004 nano-units",
    "DELETE FROM prices": "refers to a missing",
    "UPDATE codes SET amount_nano = amount_nano + 1 WHERE entry_id NOT NULL": "has another kind, amount",
    "UPDATE codes SET redeemed_ms = NULL, redeemed_by = NULL, entry_id = NULL": "no code was redeemed",
    "UPDATE entries SET request_id = 'gone' WHERE kind = 'correction'": "refers to a missing",
    "UPDATE hourly SET failed = 0": "by 0 posted, -1 failed, 0 tokens, 0 nano-units",
    "UPDATE hourly SET input_tokens = input_tokens - 1, output_tokens = output_tokens + 1": "by 0"
    " posted, 0 failed, 2 tokens, 0 nano-units",
    "UPDATE hourly SET hour = hour + 1": "hour 2023-11-14T23:00Z",
    "UPDATE hourly SET cost_nano = cost_nano - 1": "0 tokens, -1 nano-units",
    "DELETE FROM hourly": "differ from its requests by -10 posted, -1 failed",
    "UPDATE daily SET requests = requests + 1": "account a, day 2023-11-14T00:00Z, model demo/echo,"
    " key key_",
    "UPDATE daily SET cost_nano = cost_nano + 1": "those of its hours by 0 posted, 0 failed, 0 tokens,"
    " 1 nano-units",
    "UPDATE daily SET day = day - 1": "day 2023-11-13",
    "DELETE FROM daily": "by -10 posted, -1 failed",
    "INSERT INTO daily VALUES (2, 1, 'm', 'nobody', 0, 0, 0, 0, 5, 0, 0)": "account idle, day"
    " 1970-01-02T00:00Z, model m, key nobody",
}


@pytest.mark.parametrize(("sql", "problem"), (EVERYWHERE | FULL_ONLY).items())
def test_full_audit_finds(place: Place, sql: str, problem: str) -> None:
    tamper(place, sql)
    with accounts.open_books(place.path) as books:
        report = books.audit()
    assert not report.ok
    assert any(problem in text for text in report.problems), report.problems


@pytest.mark.parametrize(("sql", "problem"), EVERYWHERE.items())
async def test_start_is_refused_on(place: Place, sql: str, problem: str) -> None:
    """Nothing is written to such books: the request in flight stays what it was."""
    tamper(place, sql)
    with pytest.raises(LedgerMismatch, match=problem):
        async with SqliteLedger.open(place.path):
            pass
    assert query(place.path, "SELECT count(*) FROM requests WHERE state = 'pending'") == [(1,)]


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OR REPLACE INTO requests SELECT * FROM requests WHERE state = 'posted'",
        "REPLACE INTO entries SELECT * FROM entries WHERE kind = 'charge'",
        "INSERT OR REPLACE INTO entries (account_id, kind, amount_nano, balance_after_nano,"  # noqa: ISC004
        " request_id, created_ms) SELECT account_id, kind, amount_nano, 0, request_id, 1 FROM entries",
        "INSERT OR REPLACE INTO codes SELECT * FROM codes",
        (
            "INSERT OR REPLACE INTO codes (rowid, id, batch, digest, last4, amount_nano, note,"
            " created_by, created_ms) SELECT rowid, 'new', '', zeroblob(32), 'abcd', 1, '', '', 1 FROM codes"
        ),
        (
            "UPDATE OR REPLACE requests SET id = (SELECT id FROM requests WHERE state = 'posted')"
            " WHERE state = 'pending'"
        ),
        (
            "UPDATE OR REPLACE requests SET rowid = (SELECT rowid FROM requests WHERE state = 'posted')"
            " WHERE state = 'pending'"
        ),
        "DELETE FROM requests",
        "DELETE FROM requests WHERE state = 'pending'",
        "DELETE FROM codes",
    ],
)
def test_nothing_is_replaced_or_deleted(place: Place, sql: str) -> None:
    """Not even by the SQL that deletes a row without saying so."""
    before = query(place.path, "SELECT count(*), sum(amount_nano) FROM entries")
    with closing(sqlite3.connect(place.path)) as connection:
        with pytest.raises(sqlite3.IntegrityError):
            connection.execute(sql)
        connection.rollback()
    assert query(place.path, "SELECT count(*), sum(amount_nano) FROM entries") == before

"""The rows of a ledger: out of a file, into a new one, and what has no place there."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from gateway import extension
from gateway.extras.moves.ledgers import BadRecord, MoveRecord, make_ledger, read_records
from gateway.ledger.opening import open_books
from gateway.ledger.records import AuditReport, DatabaseUrl, LedgerError
from gateway.ledger.sqlite import schema
from gateway.ledger.versions import VERSION
from tests.ledger.contract.kit import WAIT_SECONDS
from tests.ledger.kit import assert_sound, make_place
from tests.support.rows import each_row
from tests.support.stand_in import URL

NO_TABLE = "no table .* with such columns"


@each_row(
    ("version", "record", "refusal"),
    [
        *(
            (version, None, f"version {version} is not {VERSION}; export it with the gateway")
            for version in (0, -1, VERSION - 1, VERSION + 1)
        ),
        (VERSION, MoveRecord("accounts; DROP TABLE keys", {"id": 1}), NO_TABLE),
        (VERSION, MoveRecord("accounts", {"id) VALUES (1); --": 1}), NO_TABLE),
        (VERSION, MoveRecord("accounts", {}), NO_TABLE),
        (VERSION, MoveRecord("accounts", {"id": 2**64}), "accounts: Python int too large"),
    ],
)
def test_other_records_are_refused(
    tmp_path: Path, version: int, record: MoveRecord | None, refusal: str
) -> None:
    """A file may name any table and column; only those of the schema become SQL."""
    with pytest.raises(BadRecord, match=refusal):
        make_ledger(tmp_path / "new.db", version, [] if record is None else [record])


def test_a_ledger_that_was_there_is_not_replaced(tmp_path: Path) -> None:
    """The lock file of one whose database was moved away tells of it."""
    (tmp_path / "new.db.lock").write_text("x")
    with pytest.raises(LedgerError, match=r"there is no database, but new\.db\.lock shows"):
        make_ledger(tmp_path / "new.db", VERSION, [])


def test_a_ledger_gets_its_name_only_once_all_of_it_is_in_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader, or a full disk, keeps it in the log of the part, which goes with the part's name."""
    monkeypatch.setattr(schema, "BUSY_MS", 10)
    place = make_place(tmp_path)
    with open_books(place.path) as old, old.snapshot():
        version, moving = read_records(old)
        records = [*moving]
    with ExitStack() as until_read:

        def read_along() -> Iterator[MoveRecord]:
            (part,) = tmp_path.glob(".new.db.*part")
            reader = sqlite3.connect(part, isolation_level=None)
            until_read.callback(reader.close)
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            yield from records

        with pytest.raises(LedgerError, match="another program reads it"):
            make_ledger(tmp_path / "new.db", version, read_along())
    assert not (tmp_path / "new.db").exists()


def test_two_imports_of_one_name_do_not_share_a_part(tmp_path: Path) -> None:
    """The first to end has the name, while the other one is still at its rows; that one is refused."""
    place = make_place(tmp_path)
    with open_books(place.path) as old, old.snapshot():
        version, moving = read_records(old)
        records = [*moving]
    begun, may_end = threading.Event(), threading.Event()

    def read_slowly() -> Iterator[MoveRecord]:
        begun.set()
        may_end.wait(WAIT_SECONDS)
        yield from records

    with ThreadPoolExecutor(1) as thread:

        def read_meanwhile() -> Iterator[MoveRecord]:
            made.append(thread.submit(make_ledger, tmp_path / "new.db", version, read_slowly()))
            begun.wait(WAIT_SECONDS)
            yield from records

        made: list[Future[AuditReport]] = []
        assert make_ledger(tmp_path / "new.db", version, read_meanwhile()).ok
        assert_sound(tmp_path / "new.db")
        may_end.set()
        with pytest.raises(LedgerError, match="File exists"):
            made[0].result()
    assert_sound(tmp_path / "new.db")
    assert [*tmp_path.glob(".*")] == []


def test_rows_of_extras_move_to_where_these_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the extra, rows that stay are exported, too: they are left out. Others are refused by its name."""
    place = make_place(tmp_path)
    with open_books(place.path) as books:
        version, moving = read_records(books)
        records = [*moving, MoveRecord("toys", {"id": 1}), MoveRecord("codes", {"id": "code_1"})]
    known = {"toy": extension.LedgerTables(names=("toys", "codes"), unmoved=("toys", "codes"))}
    monkeypatch.setattr("gateway.extras.moves.ledgers.find_ledger_tables", lambda: known)
    assert make_ledger(tmp_path / "whole.db", version, records).ok
    monkeypatch.setattr("gateway.extras.moves.ledgers.find_ledger_tables", dict)
    with pytest.raises(BadRecord, match="its table 'codes' needs the extra \"codes\"; it is not"):
        make_ledger(tmp_path / "part.db", version, [one for one in records if one.table != "toys"])
    assert not (tmp_path / "part.db").exists()


def test_without_the_extra_of_an_address_its_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extension, "find_extras", dict)
    with pytest.raises(LedgerError, match=r"\[storage\] url needs (an|the) extra"):
        make_ledger(DatabaseUrl(URL), VERSION, [])

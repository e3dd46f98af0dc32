"""A ledger goes through a file: every row arrives, the audit agrees on both sides, or nothing is made."""

from __future__ import annotations

import errno
import re
import stat
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import orjson
import pytest

from gateway.admin import keys
from gateway.base.ids import digest
from gateway.base.money import NANO
from gateway.base.times import unix_ms
from gateway.extras.moves import files
from gateway.extras.moves.ledgers import BadRecord
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books, open_ledger
from gateway.ledger.records import LedgerError, NotFound, Refused
from gateway.ledger.sqlite.folds import FILES
from tests.ledger.contract.kit import admission, charge, settlement, void
from tests.ledger.kit import add_rows, assert_sound, find_key, make_place, query
from tests.support.rows import each_row

BILLED_NANO = 7
EDITS: tuple[tuple[bytes, bytes, str], ...] = (
    (b'"entries":', b'"entries": 1', "other rows than it ended with|no JSON"),
    (b'"table":"accounts"', b'"table":"acounts"', "no table 'acounts'"),
    (b'"table":"accounts"', b'"table":"sqlite_schema"', "no table 'sqlite_schema'"),
    (b'"table":"accounts"', b'"table":"changes"', "no table 'changes'"),
    (b'"suspended":0', b'"suspnded":0', "no table 'accounts' with such columns"),
    (b'"suspended":0', b'"suspended":2', "CHECK constraint failed"),
    (b'"suspended":0', b'"suspended":"no"', "cannot store TEXT value in INTEGER"),
    (b'"suspended":0', b'"suspended":0.5', "a text, a whole number"),
    (b'"hex":"', b'"hex":"x', "a text, a whole number, null or {hex}"),
    (b'"account_id":1', b'"account_id":77', "refers to one that is missing"),
    (b'{"gateway_ledger":', b'{"gateway_ledger":9', "version 9[0-9]+ is not [0-9]+; export it"),
    (b'{"gateway_ledger":', b'{"ledger":', "no file that `export` wrote"),
    (b"{", b"[", "it is no JSON"),
)


async def make_history(folder: Path) -> Path:
    """Make a ledger with a row in nearly each table that moves, among them a rotated key.

    All calls are charged to a budget. Those of its present period are one, which its provider billed.
    """
    place = make_place(folder)
    with open_books(place.path) as books:
        team = books.keys.budgets.insert(1, "team", Allowance(100 * NANO, "month"))
        books.keys.edit(place.key_id, {"budget_id": team})
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        for number in range(5):
            await charge(ledger, key, NANO + number)
        billed = settlement(
            BILLED_NANO, provider_cost_nano=4, reported_cost_nano=5, ended_ms=unix_ms()
        )
        await ledger.settle(ledger.hold(key, admission()), billed)
        failed = ledger.hold(key, replace(admission(), model="other"))
        await ledger.settle(failed, void())
    with open_books(place.path) as books:
        books.accounts.create("operator", operator=True)
        secret = keys.rotate_key(books, place.key_id).secret
        keys.add_key(books, "a", KeyTerms(name="second", models=("x/y",), cap_nano=5))
        add_rows(books)
        books.entries.correct("a", -5, note="a correction")
    (folder / "secrets").write_text(secret, encoding="utf-8")
    return place.path


def dump(path: Path) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows of the tables that move; the event of the export itself is left out."""
    names = query(path, "SELECT name FROM sqlite_schema WHERE type = 'table'")
    left_out = {"changes", "checkpoints", "sessions", "signin_links", "replays", "sqlite_sequence"}
    left_out |= {"folded", "entries_by_account", *FILES}
    return {
        str(name): query(path, f"SELECT * FROM {name} ORDER BY 1")
        for (name,) in names
        if name not in left_out
    }


OBSERVED = {"refusals", "refused", "upstream_calls", "upstream_failures", "latencies"}
"""Tables without a row in this history; they move as all do."""


@pytest.fixture
async def exported(tmp_path: Path) -> Path:
    path = await make_history(tmp_path)
    with open_books(path) as books:
        files.export_ledger(books, tmp_path / "ledger.jsonl")
    return tmp_path / "ledger.jsonl"


def test_only_an_own_file_is_removed_after_a_failure(
    exported: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content, new = exported.read_bytes(), tmp_path / "new.jsonl"
    with open_books(tmp_path / "gateway.db") as books:
        for error, told in (
            (LedgerError("lost"), "lost"),
            (OSError(errno.ENOSPC, "full"), f"full: '{new}'"),
        ):
            monkeypatch.setattr(files, "_write", Mock(side_effect=error))
            with pytest.raises(type(error), match=re.escape(told)):
                files.export_ledger(books, new)
            assert not new.exists()
        # Another process made it between the look and the opening.
        monkeypatch.setattr("gateway.ledger.checks.require_new", lambda *_: None)
        with pytest.raises(FileExistsError):
            files.export_ledger(books, exported)
    assert exported.read_bytes() == content


def test_every_row_arrives(exported: Path, tmp_path: Path) -> None:
    counts, report = files.import_ledger(tmp_path / "new.db", exported)
    assert report.ok
    rows = dump(tmp_path / "gateway.db")
    assert dump(tmp_path / "new.db") == rows
    assert rows.pop("daily_totals")  # it follows from `daily`
    assert counts == {name: len(found) for name, found in rows.items() if found}
    assert {name for name, found in rows.items() if not found} == OBSERVED
    assert stat.S_IMODE((tmp_path / "new.db").stat().st_mode) == files.FILE_MODE
    assert sorted(path.name for path in tmp_path.glob("*new.db*")) == ["new.db"]


async def test_the_gateway_serves_from_it(exported: Path, tmp_path: Path) -> None:
    """Balances and budgets go on from where they were."""
    files.import_ledger(tmp_path / "new.db", exported)
    secret = (tmp_path / "secrets").read_text(encoding="utf-8")
    with open_books(tmp_path / "new.db") as books:
        held = books.accounts.read("a").balance_nano
    async with open_ledger(tmp_path / "new.db") as ledger:
        assert [one.balance_nano for one in ledger.accounts() if one.name == "a"] == [held]
        key = ledger.find_key(digest(secret))
        assert key is not None
        assert key.budget is not None
        assert key.budget.find_spent_nano(unix_ms()) == BILLED_NANO
        await charge(ledger, key, NANO)
    assert_sound(tmp_path / "new.db")


def test_no_secret_is_in_the_file(exported: Path) -> None:
    words = exported.read_text(encoding="utf-8")
    secrets = (exported.parent / "secrets").read_text(encoding="utf-8").split()
    assert not [one for one in secrets if one in words]
    assert stat.S_IMODE(exported.stat().st_mode) == files.FILE_MODE


@each_row(("old", "new", "refusal"), EDITS)
def test_a_changed_file_makes_nothing(
    exported: Path, tmp_path: Path, old: bytes, new: bytes, refusal: str
) -> None:
    """The refusal names the file and the line."""
    content, changed = exported.read_bytes(), tmp_path / "changed.jsonl"
    assert old in content
    changed.write_bytes(content.replace(old, new, 1))
    with pytest.raises(BadRecord, match=refusal) as caught:
        files.import_ledger(tmp_path / "new.db", changed)
    assert f"{changed}, line " in str(caught.value)
    assert not list(tmp_path.glob("*new.db*"))


@each_row("cut", [1, 2, 60, 5_000])
def test_half_a_file_makes_nothing(exported: Path, tmp_path: Path, cut: int) -> None:
    (tmp_path / "half.jsonl").write_bytes(exported.read_bytes()[:-cut])
    with pytest.raises(BadRecord, match="ends too early"):
        files.import_ledger(tmp_path / "new.db", tmp_path / "half.jsonl")
    assert not list(tmp_path.glob("*new.db*"))


def leave_out(table: bytes) -> Callable[[bytes], bytes]:
    """Return an edit that drops the last row of a table, and counts it no more."""

    def edit(content: bytes) -> bytes:
        *lines, end = content.splitlines(keepends=True)
        place = max(n for n, line in enumerate(lines) if b'"table":"%b"' % table in line)
        counts = orjson.loads(end)
        left = Counter(counts["end"]) - Counter([table.decode()])
        return b"".join(lines[:place] + lines[place + 1 :]) + orjson.dumps({"end": left}) + b"\n"

    return edit


def raise_balance(content: bytes) -> bytes:
    return content.replace(b'"balance_after_nano":', b'"balance_after_nano":1', 1)


def raise_budget(content: bytes) -> bytes:
    spent = b'"spent_nano":%d,"period_day"' % BILLED_NANO
    assert spent in content
    return content.replace(spent, b'"spent_nano":8,"period_day"')


@each_row("edit", [raise_balance, raise_budget, *map(leave_out, (b"entries", b"hourly", b"daily"))])
def test_books_that_do_not_add_up_are_not_kept(
    exported: Path, tmp_path: Path, edit: Callable[[bytes], bytes]
) -> None:
    (tmp_path / "wrong.jsonl").write_bytes(edit(exported.read_bytes()))
    _, report = files.import_ledger(tmp_path / "new.db", tmp_path / "wrong.jsonl")
    assert not report.ok
    assert report.problems
    assert not list(tmp_path.glob("*new.db*"))


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no file"):
        files.import_ledger(tmp_path / "new.db", tmp_path / "missing")
    with pytest.raises(Refused, match="is not an ordinary file; name one that `export` wrote"):
        files.import_ledger(tmp_path / "new.db", tmp_path)

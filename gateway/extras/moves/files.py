"""Moves a whole ledger by a file of JSON lines, and proves it by the audit on both sides.

    {"gateway_ledger": 4}                              the version of its schema
    {"table": "accounts", "row": {"id": 1, ...}}       one row; blobs are {"hex": "..."}
    {"end": {"accounts": 1, ...}}                      the rows of each table: the file is whole

The file has no key, token, code or password in clear text, and no sessions. But it has the secrets that sign
messages to holders' webhooks, as the database does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

import orjson

from gateway.base.progress import ROWS_BETWEEN, Progress, ignore
from gateway.extras.moves.ledgers import BadRecord, MoveRecord, make_ledger, read_records
from gateway.ledger import checks
from gateway.ledger.records import AuditReport, Conflict, Location, NotFound, Refused
from gateway.ledger.sql.books import Books

FILE_MODE: Final = 0o600
"""The file's mode: only its owner may read and write it, since it has all accounts."""


def export_ledger(
    books: Books, target: Path, progress: Progress = ignore
) -> tuple[dict[str, int], int]:
    """Write a new file with the whole ledger; return the rows of each table, and the requests in flight.

    Raises Conflict if the file exists, NotFound if there is no such folder, OSError.
    """
    checks.require_new(target, "an export")
    # O_EXCL: a file that another process made meanwhile is neither followed nor overwritten, nor removed.
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as out, books.snapshot():
            counts = _write(books, out, progress)
            in_flight, _ = books.measure_pending()
            out.flush()
            os.fsync(out.fileno())  # the old ledger may be deleted as soon as this returns
    except BaseException as error:  # including Ctrl-C: nobody must take half a file for a ledger
        with suppress(FileNotFoundError):
            target.unlink()
        if isinstance(error, OSError):
            error.filename = error.filename or str(target)  # a failed write does not name its file
        raise
    return counts, in_flight


def import_ledger(
    location: Location, source: Path, progress: Progress = ignore
) -> tuple[dict[str, int], AuditReport]:
    """Make a new ledger of an exported file; return the rows of each table, and the audit.

    Nothing is kept unless the audit succeeds. Raises Conflict if there is a ledger at `location`,
    BadRecord with the number of the line, LedgerError, OSError.
    """
    if isinstance(location, Path) and os.path.lexists(location):
        raise Conflict(f"{location} exists already; an import needs a new database")
    if not source.exists():
        raise NotFound(f"there is no file {source}")
    if not source.is_file():
        raise Refused(f"{source} is not an ordinary file; name one that `export` wrote")
    with source.open("rb") as lines:
        size = os.fstat(lines.fileno()).st_size
        reader = _Reader(lines)
        try:
            version = reader.read_version()
            records = reader.read_records(
                lambda done: progress(f"reading {source}", done, size, "bytes")
            )
            report = make_ledger(location, version, records, progress=progress)
        except BadRecord as error:
            raise BadRecord(f"{source}, line {reader.line}: {error}") from error
    return dict(reader.counts), report


def _write(books: Books, out: BinaryIO, progress: Progress) -> dict[str, int]:
    version, records = read_records(books, progress)
    counts: Counter[str] = Counter()
    _write_line(out, {"gateway_ledger": version})
    for record in records:
        counts[record.table] += 1
        _write_line(out, {"table": record.table, "row": record.row})
    _write_line(out, {"end": counts})
    return dict(counts)


def _write_line(out: BinaryIO, value: Mapping[str, object]) -> None:
    out.write(orjson.dumps(value, default=_write_blob, option=orjson.OPT_APPEND_NEWLINE))


def _write_blob(value: object) -> dict[str, str]:
    if isinstance(value, bytes):
        return {"hex": value.hex()}
    raise TypeError(type(value).__name__)


class _Reader:
    """Reads the lines of one file; `line` is the number of the one that is read."""

    def __init__(self, lines: BinaryIO) -> None:
        self._lines = lines
        self.line = 0
        self.counts: Counter[str] = Counter()

    def read_version(self) -> int:
        version = self._read_line().get("gateway_ledger")
        if not isinstance(version, int):
            raise BadRecord("this is no file that `export` wrote")
        return version

    def read_records(self, tell: Callable[[int], object]) -> Iterator[MoveRecord]:
        while "end" not in (line := self._read_line()):
            table, row = line.get("table"), line.get("row")
            if not isinstance(table, str) or not isinstance(row, dict):
                raise BadRecord("a line has a table and a row")
            self.counts[table] += 1
            if self.line % ROWS_BETWEEN == 0:
                tell(self._lines.tell())
            yield MoveRecord(table, {name: _read_cell(cell) for name, cell in row.items()})
        # A file that lost lines in a copy must not pass for the whole ledger.
        if line["end"] != self.counts:
            raise BadRecord("the file has other rows than it ended with when it was written")

    def _read_line(self) -> dict[str, object]:
        text = self._lines.readline()
        self.line += 1
        if not text.endswith(b"\n"):
            raise BadRecord("the file ends too early; export it again")
        try:
            line = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise BadRecord(f"it is no JSON: {error}") from error
        if not isinstance(line, dict):
            raise BadRecord("a line is an object")
        return line


def _read_cell(cell: object) -> str | int | bytes | None:
    match cell:
        case None | str() | int():
            return cell
        case {"hex": str(text)}:
            with suppress(ValueError):
                return bytes.fromhex(text)
        case _:
            pass
    raise BadRecord("a column has a text, a whole number, null or {hex}")

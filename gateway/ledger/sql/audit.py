"""The proof of the books: balances, entries, requests and sums agree, exactly and in integers.

Each check is a query that finds rows which contradict others; `*.sql` has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from string import Formatter
from typing import Final, NamedTuple

from gateway.base.ids import find_first_id
from gateway.base.money import Price, compute_cost_nano
from gateway.base.prices import AppliedPrice, read_price
from gateway.base.progress import Progress, ignore
from gateway.extension import FOLDER, find_ledger_tables
from gateway.ledger.records import AuditReport, InterruptedView
from gateway.ledger.sql.database import Connection, count_rows, read_number, read_script
from gateway.ledger.sql.rows import USED, read_used

_READ: Final = re.compile(r"\b(?:FROM|JOIN)\s+(requests|entries)\b")
"""The large tables that a check reads: the more rows, the longer it takes."""
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Check(NamedTuple):
    """A query for violations, and a text for each of its rows, which says what is wrong.

    `:since` is the last entry already proven. All requests since `:kept_from`, a midnight, are kept;
    `:kept_id` is their least id. Earlier times are proven by the sums by hour, and charges of those
    times may lack their requests.

    In a script the text is in lines that begin with `--:` above the query. `{0}` is the first column
    of a row; one with a format, such as `{1:%Y-%m-%d}`, is a time in Unix milliseconds.
    """

    sql: str
    text: str


def read_checks(module: str, name: str = "proof.sql") -> tuple[Check, ...]:
    return tuple(Check(sql, text) for text, sql in read_script(module, name).items())


AT_START: Final = read_checks(__file__, "proof_at_start.sql")
IN_FULL: Final = read_checks(__file__)


def _read_added() -> Iterator[Check]:
    """Yield the checks of extras, whose tables every ledger has."""
    for extra in find_ledger_tables():
        proof = FOLDER.joinpath(extra, "proof.sql")
        if proof.exists():
            yield from read_checks(str(proof))


class _Formatter(Formatter):
    def format_field(self, value: object, format_spec: str) -> str:
        """Format a time, which may be any number, as the row is wrong."""
        if not format_spec or not isinstance(value, int):
            return str(value)
        try:
            return f"{EPOCH + timedelta(milliseconds=value):{format_spec}}"
        except OverflowError:
            return f"{value} ms"


_FORMATTER: Final = _Formatter()

MAX_PROBLEMS: Final = 20
"""Problems listed of each kind: broken books have thousands of similar ones."""
MAX_TO_SETTLE: Final = 100
"""The most interrupted requests listed; settling them brings up the next."""

_CHARGES: Final = f"""
    SELECT id, cost_nano, price_id, reported_cost_nano, {", ".join(USED)}
    FROM requests WHERE id > ? AND state = 'posted' ORDER BY id LIMIT 10000
"""  # noqa: S608 - of constants
_UNSETTLED: Final = """
    FROM requests JOIN accounts ON accounts.id = requests.account_id
    WHERE outcome = 'interrupted' AND NOT EXISTS (
        SELECT 1 FROM entries
        WHERE entries.request_id = requests.id AND entries.kind = 'correction'
    )
"""
_COUNTS: Final = f"""
    SELECT (SELECT count(*) FROM accounts), (SELECT count(*) FROM entries WHERE id > ?),
        (SELECT count(*) FROM requests WHERE state = 'pending'),
        (SELECT count(*) FROM requests WHERE outcome = 'interrupted'),
        (SELECT count(*) {_UNSETTLED})
"""  # noqa: S608 - built from constants
_TO_SETTLE: Final = f"""
    SELECT requests.id, accounts.name, model, provider, hold_nano, started_ms {_UNSETTLED}
    ORDER BY started_ms DESC, requests.id DESC LIMIT {MAX_TO_SETTLE}
"""


def prove(
    connection: Connection,
    since: int,
    *,
    full: bool,
    kept_from_ms: int = 0,
    more_checks: Iterable[Check] = (),
    progress: Progress = ignore,
) -> AuditReport:
    """Prove what came after the entry `since`, or everything if `full`, inside one snapshot.

    `kept_from_ms` is the time since which all requests are kept; `more_checks` are the database's own.
    """
    checks = (*AT_START, *IN_FULL, *more_checks, *_read_added()) if full else AT_START
    # An empty text is below every id: then no request may be missing.
    kept_id = find_first_id(kept_from_ms) if kept_from_ms else ""
    values: dict[str, int | str] = {"since": since, "kept_from": kept_from_ms, "kept_id": kept_id}
    reads = _count_reads(connection, checks, progress)

    def tell(done: int) -> None:
        progress("proving the books", done, reads[-1], "rows")

    problems: list[str] = []
    for check, before in zip(checks, reads, strict=False):
        tell(before)
        problems += _find(connection, check, values)
    if full:
        problems += _find_wrong_costs(connection, lambda seen: tell(reads[-2] + seen))
    counts = connection.execute(_COUNTS, (since,)).fetchone()
    report = AuditReport(not problems, tuple(problems), *counts)
    if not full:
        return report
    to_settle = tuple(InterruptedView(*row) for row in connection.execute(_TO_SETTLE))
    return replace(report, to_settle=to_settle)


def read_last_entry(connection: Connection) -> int:
    return read_number(connection, "SELECT coalesce(max(id), 0) FROM entries")


def read_checkpoint(connection: Connection) -> int:
    """Return the last entry that is proven."""
    return read_number(connection, "SELECT coalesce(max(entry_id), 0) FROM checkpoints")


def write_checkpoint(connection: Connection, entry_id: int, now_ms: int) -> None:
    """Note that all entries up to this one are proven, inside a transaction."""
    # Another process may have proven more meanwhile.
    if entry_id > read_checkpoint(connection):
        connection.execute(
            "INSERT INTO checkpoints (entry_id, created_ms) VALUES (?, ?)", (entry_id, now_ms)
        )


def _find(connection: Connection, check: Check, values: Mapping[str, int | str]) -> list[str]:
    rows = connection.execute(f"{check.sql} LIMIT {MAX_PROBLEMS}", values)
    return [_FORMATTER.format(check.text, *row) for row in rows]


def _count_reads(connection: Connection, checks: Sequence[Check], progress: Progress) -> list[int]:
    """Return the rows to be read before each check, before the costs, and in all; 0 where nobody looks."""
    if progress is ignore:
        return [0] * (len(checks) + 2)
    rows = {table: count_rows(connection, (table,)) for table in ("requests", "entries")}
    reads = [sum(rows[table] for table in _READ.findall(one.sql)) for one in checks]
    return [*accumulate([*reads, rows["requests"]], initial=0)]


def _find_wrong_costs(connection: Connection, tell: Callable[[int], None]) -> Iterator[str]:
    """Compute each charge again by the function that made it; report those that differ."""
    prices: dict[int, Price] = {}
    for price_id, text in connection.execute("SELECT id, price FROM prices"):
        if (applied := _maybe_read_price(text)) is not None and applied.id == price_id:
            prices[price_id] = applied.price
        else:
            yield f"price {price_id}: its text is not that of the price that was applied"
    # Page by page, as charges may be millions; by id, as the partitions of PostgreSQL are.
    last_id, found, seen = "", 0, 0
    while rows := connection.execute(_CHARGES, (last_id,)).fetchall():
        for request_id, cost_nano, price_id, reported_nano, *used in rows:
            if price_id not in prices:
                continue  # it is told of above, or by the check of references
            tokens, calls = read_used(used)
            made = compute_cost_nano(tokens, prices[price_id], calls, reported_nano)
            if made != cost_nano and found < MAX_PROBLEMS:
                found += 1
                yield (
                    f"request {request_id}: its cost is {cost_nano}, its usage at its price makes"
                    f" {made} nano-units"
                )
        last_id, seen = rows[-1][0], seen + len(rows)
        tell(seen)


def _maybe_read_price(text: str) -> AppliedPrice | None:
    try:
        return read_price(text)
    except (ValueError, TypeError, AttributeError):  # whatever a wrong text leads to
        return None

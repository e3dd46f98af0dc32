"""Charges are folded into sums, and filed in the tables by which lists find calls, a moment later.

Sums of posted requests are folded: not written with each charge, but for all charges since the
last fold, some times a second, because each is a page of the log. `folded` has the last entry whose
charge they have; the view `unfolded` has the requests of the charges behind it.

    who                               sees the sums of all committed charges, because
    the books, before any read        they fold, and a snapshot begins where all is folded
    the reader of a serving process   it adds what is not folded
    the writer, in memory             what a key's line has spent is read once, then added to by commits
    a start                           it folds
    an audit, an export               they add what is not folded, see `see_all_charges`

A fold is one transaction: it adds the sums of `unfolded` and moves `folded` to the last entry. So
whatever dies when, each charge is either in the sums or in `unfolded`: before the fold's commit it
is as if the fold had not begun, and after it all of them are in the sums. A fold needs no sync of its own:
one that a crash of the machine loses is made again. A charge itself lives in `requests`, `entries`
and the balance, which are written in its own transaction; voids are few, and counted in theirs.

The tables of calls by account, provider and model, and that of entries by account, are indexes that
are written by folds, too; what is pending for a while, or voided, or no charge, is filed by its own
transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import orjson

from gateway.base.times import DAY_MS, HOUR_MS
from gateway.ledger.sql import rows
from gateway.ledger.sql.database import PART, Values, read_number, sum_parts
from gateway.ledger.sqlite.statements import transaction_aside

BY_HOUR: Final = ("account_id", "hour", "model", "key_id")
BY_DAY: Final = ("account_id", "day", "model", "key_id", "provider")
BY_TOTALS: Final = ("day", "model", "provider")
"""The columns by which there are sums in `hourly`, `daily` and `daily_totals`."""
_TABLES: Final = (
    ("hourly", BY_HOUR, rows.SUMS),
    ("daily", BY_DAY, rows.DAY_SUMS),
    ("daily_totals", BY_TOTALS, rows.TOTALS),
)
"""Each table with the columns that it groups by, and those of its sums."""


def sum_up(place: Sequence[str], sums: Sequence[str], source: str, ended: str = "ended_ms") -> str:
    """Write the sums by place over requests that ended at some time."""
    return f"""
        SELECT {", ".join((*place, *sums))} FROM (
            SELECT *, {ended} / {HOUR_MS} AS hour, {ended} / {DAY_MS} AS day FROM {source}
        ) GROUP BY {", ".join(place)}
    """  # noqa: S608 - of constants


def write_additions(
    sums: Sequence[Sequence[str]], source: str, ended: str = "ended_ms"
) -> tuple[str, ...]:
    """Write the statements that add such sums to what each of the tables has."""
    return tuple(
        f"INSERT INTO {table} {sum_up(place, columns, source, ended)}"
        f" ON CONFLICT ({', '.join(place)}) DO UPDATE SET "
        + ", ".join(f"{name} = {name} + excluded.{name}" for name in names)
        for (table, place, names), columns in zip(_TABLES, sums, strict=True)
    )


_FAILED: Final = [("0", "count(*)", *("0" for _ in names[2:])) for *_, names in _TABLES]
OF_IDS: Final = "requests WHERE id IN (SELECT value FROM json_each(:ids))"
_COUNT_VOIDS: Final = write_additions(_FAILED, OF_IDS)
_FAIL_PENDING: Final = write_additions(
    _FAILED, "requests WHERE state = 'pending'", "max(started_ms, :now)"
)


def count_and_file(
    connection: sqlite3.Connection, voided: Sequence[str], pending: Sequence[str]
) -> None:
    """Count voided requests as failed, and file all that have no charge, inside their transaction."""
    if voided:
        for sql in _COUNT_VOIDS:
            connection.execute(sql, {"ids": orjson.dumps(voided).decode()})
    ids = [*voided, *pending]
    file_all(connection, OF_IDS, {"ids": orjson.dumps(ids).decode()})


def fail_pending(connection: sqlite3.Connection, now_ms: int) -> None:
    """Count all pending requests as failed, inside the transaction that will void them."""
    for sql in _FAIL_PENDING:
        connection.execute(sql, {"now": now_ms})


_HAS_UNFOLDED: Final = "SELECT entry_id < (SELECT coalesce(max(id), 0) FROM entries) FROM folded"


def _write_charged(add_up: Callable[[str], str]) -> tuple[str, ...]:
    """Write the sums over charges in the order of `DAY_SUMS`, which begins with `SUMS`."""
    count, *used = rows.write_usage_sums(add_up)
    return (count, "0", *used, *rows.write_cost_sums(add_up))


def _add_up(column: str) -> str:
    return f"coalesce(sum({column}), 0)"


_CHARGED: Final = _write_charged(_add_up)
_ADD_CHARGES: Final = (
    *write_additions((_CHARGED[: len(rows.SUMS)], _CHARGED, _write_charged(sum_parts)), "unfolded"),
    """
    UPDATE keys SET spent_nano = keys.spent_nano + new.cost_nano FROM (
        SELECT origin_id, sum(cost_nano) AS cost_nano
        FROM unfolded CROSS JOIN keys AS used ON used.id = key_id GROUP BY origin_id
    ) AS new WHERE keys.id = new.origin_id
    """,
    """
    UPDATE keys SET last_used_ms = max(coalesce(last_used_ms, 0), new.used_ms) FROM (
        SELECT key_id, max(ended_ms) AS used_ms FROM unfolded GROUP BY key_id
    ) AS new WHERE keys.id = new.key_id
    """,
    "INSERT INTO entries_by_account SELECT account_id, charge_id FROM unfolded",
)
"""The first key of a line has the sum of all of them; the used one has its time alone."""
NOTE_FOLDED: Final = "UPDATE folded SET entry_id = (SELECT coalesce(max(id), 0) FROM entries)"
"""All charges are in the sums."""


_SUMS_OF_DAYS: Final = [
    sum_parts(name) if rows.is_amount(name) else f"sum({name})" for name in rows.DAY_SUMS
]
_SUMMED: Final = f"""
    SELECT {", ".join((*BY_TOTALS, *_SUMS_OF_DAYS))} FROM main.daily GROUP BY 1, 2, 3
"""  # noqa: S608 - of constants
SUM_UP_DAYS: Final = f"INSERT INTO daily_totals {_SUMMED}"


def _differ(name: str) -> str:
    return f" * {PART} + ".join(f"sum({part})" for part in rows.name_parts(name))


WRONG_TOTALS: Final = f"""
    SELECT day, model, provider FROM (
        SELECT {", ".join(BY_TOTALS)}, {", ".join(f"-{name} AS {name}" for name in rows.TOTALS)}
        FROM main.daily_totals
        UNION ALL {_SUMMED}
    ) GROUP BY 1, 2, 3
    HAVING {" OR ".join(f"{_differ(name)} <> 0" for name in rows.DAY_SUMS)}
"""  # noqa: S608
"""Audit check: totals that differ from the sum over accounts, even where the accounts' errors cancel out."""
FILE_ENTRIES: Final = "INSERT OR IGNORE INTO entries_by_account SELECT account_id, id FROM entries"


def fold(connection: sqlite3.Connection) -> None:
    """Add the charges that are not in the sums yet, in a separate transaction."""
    if has_unfolded(connection):
        with transaction_aside(connection):
            _fold(connection)


def has_unfolded(connection: sqlite3.Connection) -> bool:
    return bool(read_number(connection, _HAS_UNFOLDED))


def read_folded(connection: sqlite3.Connection) -> int:
    """Return the last entry that was there at the last fold."""
    return read_number(connection, "SELECT entry_id FROM folded")


def _fold(connection: sqlite3.Connection) -> None:
    for sql in _ADD_CHARGES:
        connection.execute(sql)
    file_all(connection, "unfolded")
    # Last: it empties the view that all of these read.
    connection.execute(NOTE_FOLDED)


_FILES: Final = (
    ("calls_by_account", ("account_id", "id", "key_id", "model")),
    ("calls_by_provider", ("provider", "id", "account_id")),
    ("calls_by_model", ("model", "id")),
)
"""The tables that stand for indexes of requests. A call may be filed already: it was pending."""
FILES: Final = {table: names[0] for table, names in _FILES}
"""The tables of calls, and the column that each is ordered by."""


def file_all(connection: sqlite3.Connection, calls: str, values: Values = ()) -> None:
    """File the calls of a table or view."""
    for table, names in _FILES:
        into = f"INSERT OR IGNORE INTO {table} SELECT {', '.join(names)}"
        connection.execute(f"{into} FROM {calls}", values)


def _write_exact(table: str, place: Sequence[str], names: Sequence[str]) -> str:
    sums = ", ".join(f"sum({name}) AS {name}" for name in names)
    more = sum_up(place, _CHARGED[: len(names)], "main.unfolded")
    return f"""
        CREATE TEMP VIEW {table} AS SELECT {", ".join(place)}, {sums} FROM (
            SELECT * FROM main.{table} UNION ALL {more}
        ) GROUP BY {", ".join(place)}
    """  # noqa: S608 - of constants


_EXACT_VIEWS: Final = (
    _write_exact("hourly", BY_HOUR, rows.SUMS),
    _write_exact("daily", BY_DAY, rows.DAY_SUMS),
)
_EXACT_COLUMNS: Final = {
    "spent_nano": "spent_nano + coalesce((SELECT sum(cost_nano) FROM main.unfolded"
    " CROSS JOIN main.keys AS used ON used.id = key_id WHERE used.origin_id = keys.id), 0)",
    "last_used_ms": "(SELECT max(ms) FROM (SELECT last_used_ms AS ms UNION ALL"
    " SELECT ended_ms FROM main.unfolded WHERE key_id = keys.id))",
}
_COLUMNS_OF_KEYS: Final = "SELECT name FROM pragma_table_info('keys')"


def see_all_charges(connection: sqlite3.Connection) -> None:
    """Make the sums include all charges until the end of the transaction, which only reads.

    A fold before the transaction would miss charges in between. So views hide the tables of the sums;
    look-ups in the views take longer.
    """
    names = [name for (name,) in connection.execute(_COLUMNS_OF_KEYS)]
    columns = ", ".join(f"{_EXACT_COLUMNS.get(name, name)} AS {name}" for name in names)
    connection.execute(f"CREATE TEMP VIEW keys AS SELECT {columns} FROM main.keys")  # noqa: S608
    for sql in _EXACT_VIEWS:
        connection.execute(sql)


_TRIGGERS: Final = (
    "SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'"
    " AND name IN ('requests_settle_once', 'entries_one_charge')"
)
_NAME_CHARGES: Final = (
    "UPDATE requests SET charge_id = entries.id FROM entries"
    " WHERE entries.request_id = requests.id AND kind = 'charge'"
)


@contextmanager
def naming_charges(connection: sqlite3.Connection) -> Iterator[None]:
    """Let requests and charges be inserted that do not name each other; at the end they do."""
    triggers = connection.execute(_TRIGGERS).fetchall()
    for name, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    yield
    connection.execute(_NAME_CHARGES)
    for _, sql in triggers:
        connection.execute(sql)

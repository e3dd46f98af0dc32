"""The tables and functions of a database: made, checked, and migrated to this version; and its audit.

The audit proves the books, and the holds, while several nodes share the database.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Final

import psycopg
from psycopg import errors

from gateway.base.progress import Progress, ignore
from gateway.extras.postgres.session import (
    NOW,
    Session,
    commit_at_end,
    connect,
    explain,
    snapshot,
    transaction,
)
from gateway.extras.postgres.urls import show_url
from gateway.extras.postgres.versions import COMMIT, UPGRADES, VERSION
from gateway.ledger.records import AuditReport, LedgerError, LedgerMissing
from gateway.ledger.sql import audit

TABLES: Final = ("tables.sql", "requests.sql", "rules.sql", "nodes.sql")
"""The scripts of a new database."""
FUNCTIONS: Final = (
    "periods.sql", "sums.sql", "rates.sql", "settle.sql", "admit.sql", "rounds.sql", "lives.sql",
    "months.sql",
)  # fmt: skip
"""The scripts of the functions, which every upgrade runs again."""
WORKS_SINCE: Final = 6
"""The oldest version of this program that can serve from the present schema: an older one reads a
table that is not there any more, and takes a person's password for the account's own."""
SHAPE: Final = 15
"""The version of the SQLite schema that has the same tables and columns: ledgers of it can move."""
SILENCE_SECONDS: Final = 5
"""A node that was not seen for this long is dead. Nodes report twice a second."""
NOTICE_SECONDS: Final = SILENCE_SECONDS / 2
"""A node gives up a round after this time and connects again, so that it is seen in the rest of the time."""
OLDEST_SERVER: Final = 130_000
"""PostgreSQL 13: functions of snapshots and 64-bit transaction ids."""

_SERVES: Final = (
    "SELECT EXISTS (SELECT 1 FROM nodes WHERE ended_at IS NULL"
    " AND seen_at > clock_timestamp() - make_interval(secs => ?))"
)
WAIT_MS: Final = 5000
"""Milliseconds that a command waits for another one to make or upgrade the tables: then it says which process
does, as a large ledger takes minutes."""
_SCHEMA_LOCK: Final = "SET LOCAL lock_timeout = {}; SELECT pg_advisory_xact_lock(4742, 0); SET LOCAL lock_timeout TO DEFAULT"
_FIND_UPGRADE: Final = (
    "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND classid = 4742 AND objid = 0 AND granted"
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
)


def open_session(
    url: str, *, create: bool = False, progress: Progress = ignore, waits: bool = False
) -> Session:
    """Connect to a database of the present schema; its clock knows the time.

    `progress` is told of an upgrade. If another process has one under way, a server waits for its end.

    Raises:
        LedgerMissing: the database has no ledger, and `create` is False.
        LedgerError: it cannot be used; the text says why.
    """
    with ExitStack() as until_ready:
        session = connect(url)
        until_ready.callback(session.close)
        _check_server(session, url)
        try:
            if _read_version(session, url) < VERSION:
                _migrate(session, url, create=create, progress=progress, waits=waits)
        except psycopg.Error as error:
            raise explain(url, error) from error
        until_ready.pop_all()
    return session


def _check_server(session: Session, url: str) -> None:
    if session.driver.info.server_version < OLDEST_SERVER:
        raise LedgerError(f"{show_url(url)}: PostgreSQL 13 or newer is needed")


def check_database(url: str) -> bool:
    """Return whether the database has a ledger of the present schema; nothing is made or changed.

    Raises:
        LedgerError: it cannot be used, or one of its settings can lose what was committed.
    """
    with closing(connect(url)) as session:
        try:
            for problem in find_lossy_settings(session):
                raise LedgerError(f"{show_url(url)}: {problem}")
            return _read_version(session, url) >= VERSION
        except psycopg.Error as error:
            raise explain(url, error) from error


def find_lossy_settings(session: Session) -> Iterator[str]:
    """Yield what is wrong with each setting that can lose what was committed."""
    for name in ("fsync", "full_page_writes", "synchronous_commit"):
        (value,) = session.execute(f"SHOW {name}").fetchone() or ("",)
        if value == "off":
            yield f"its setting {name} is off, so a crash loses what was committed; set {name} = on"


def _read_version(session: Session, url: str) -> int:
    """Return the version of the schema, 0 for none. Raises LedgerError if it is too new or too old."""
    (table, others) = session.execute_timed(
        f"SELECT to_regclass('schema_version'), {NOW}, to_regclass('accounts')"
    )
    if table is None:
        if others is not None:
            raise LedgerError(
                f"{show_url(url)}: not a ledger, but another program's database; make one for"
                " the gateway alone"
            )
        return 0
    version, works_since = session.execute(
        "SELECT version, works_since FROM schema_version"
    ).fetchone() or (0, 0)
    if 0 < version < min(UPGRADES):
        raise LedgerError(
            f"{show_url(url)}: schema version {version} is older than this gateway can upgrade"
            f' ({min(UPGRADES)}); start the gateway of commit {COMMIT} once (see "Upgrade" in deploy.md)'
        )
    if works_since > VERSION:
        raise LedgerError(
            f"{show_url(url)}: schema version {version} is newer than this gateway knows"
            f" ({VERSION}); run a newer gateway, or restore the"
            " backup from before its upgrade"
        )
    return int(version)


@contextmanager
def _alone(session: Session, url: str, progress: Progress, *, waits: bool) -> Iterator[None]:
    """Run a transaction in which nobody else makes or upgrades the tables. Raises LedgerError."""
    while True:
        with ExitStack() as stack:
            try:
                stack.enter_context(commit_at_end(session, _SCHEMA_LOCK.format(WAIT_MS)))
            except errors.LockNotAvailable as error:
                (pid,) = session.execute(_FIND_UPGRADE).fetchone() or ("that ended",)
                upgrade = f"it is being upgraded by another gateway or command (process {pid} of PostgreSQL)"
                if not waits:
                    raise LedgerError(
                        f"{show_url(url)}: {upgrade}; try again when that is done"
                    ) from error
                progress(f"waiting, as {upgrade}")
            else:
                yield
                return


def _migrate(session: Session, url: str, *, create: bool, progress: Progress, waits: bool) -> None:
    """Run the missing scripts in one transaction; a second node then finds it done."""
    with _alone(session, url, progress, waits=waits):
        version = _read_version(session, url)  # again, now that nobody else migrates
        if version == 0 and not create:
            raise LedgerMissing(
                f"{show_url(url)}: it has no ledger yet; start the gateway, or add an account"
            )
        if version < VERSION:
            if version:
                _require_no_nodes(session, url)
            step = f"upgrading to version {VERSION} of the schema"
            upgrades = [UPGRADES[one] for one in range(version, VERSION)] if version else TABLES
            scripts = (*upgrades, *FUNCTIONS)
            for number, script in enumerate(scripts):
                progress(step, number, len(scripts), "scripts")
                run_script(session, script)
            # With the tables in one transaction; whoever opens the database meanwhile waits at the lock.
            session.execute("DELETE FROM schema_version")
            session.execute(
                "INSERT INTO schema_version (version, works_since) VALUES (?, ?)",
                (VERSION, WORKS_SINCE),
            )
            session.execute("SELECT make_months(now(), 2)")


def is_served(session: Session) -> bool:
    """Return whether a gateway serves from the database."""
    found = session.execute(_SERVES, (f"{SILENCE_SECONDS:f}",)).fetchone()
    return found == (True,)


def _require_no_nodes(session: Session, url: str) -> None:
    """Raise LedgerError if a gateway serves, which must be one of the version before."""
    if is_served(session):
        raise LedgerError(
            f"{show_url(url)}: gateways of an older version serve from it; stop them all first,"
            " as the database is upgraded"
        )


def run_script(session: Session, name: str) -> None:
    session.run(Path(__file__).with_name(name).read_text(encoding="utf-8"))


_HELD: Final = """
    SELECT {table}.id, {table}.{sum}, coalesce(pending.amount_nano, 0)
    FROM {table} LEFT JOIN (
        SELECT {column}, sum({amount}) AS amount_nano
        FROM requests JOIN (SELECT id, origin_id FROM keys) AS used ON used.id = key_id
        WHERE state = 'pending' GROUP BY 1
    ) AS pending ON pending.{column} = {table}.id
    WHERE {table}.{sum} <> coalesce(pending.amount_nano, 0)
"""
_SUMS: Final = (
    ("held_nano", "hold_nano", "held is {1}, its pending requests hold {2} nano-units"),
    ("unheld_nano", "unheld_nano", "not held is {1}, its pending requests say {2} nano-units"),
)
"""Sums of pending requests, the column that is summed, and the complaint."""
_SCOPES: Final = (
    ("account", "accounts", "account_id"),
    ("key", "keys", "origin_id"),
    ("budget", "budgets", "budget_id"),
)


CHECKS: Final = (
    *(
        audit.Check(
            _HELD.format(table=table, column=column, sum=total, amount=amount),
            f"{what} {{0}}: {complaint}",
        )
        for what, table, column in _SCOPES
        for total, amount, complaint in _SUMS
    ),
    *audit.read_checks(__file__),
)


def run_audit(
    session: Session, *, full: bool, now_ms: int, progress: Progress = ignore
) -> AuditReport:
    """Prove everything, or only entries and balances since the last checkpoint (at the start).

    A success becomes the next checkpoint. Other nodes go on meanwhile. Raises psycopg.Error.
    """
    with transaction(session):  # no round is under way: later entries have later numbers
        last = audit.read_last_entry(session)
    # Entries committed between the two transactions are proven, but are behind the checkpoint.
    with snapshot(session):
        since = 0 if full else audit.read_checkpoint(session)
        report = prove_books(session, since, full=full, progress=progress)
    if report.ok:
        with transaction(session):
            audit.write_checkpoint(session, last, now_ms)
    return report


_KEPT_FROM: Final = "SELECT coalesce(max(kept_from_ms), 0) FROM retention"


def prove_books(
    session: Session, since: int, *, full: bool, progress: Progress = ignore
) -> AuditReport:
    """Prove the entries after the id `since`, or everything, in the caller's transaction."""
    (kept_from_ms,) = session.execute(_KEPT_FROM).fetchone() or (0,)
    return audit.prove(
        session,
        since,
        full=full,
        kept_from_ms=int(kept_from_ms),
        more_checks=CHECKS,
        progress=progress,
    )

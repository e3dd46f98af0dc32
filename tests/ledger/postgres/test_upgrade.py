"""A database of the version before becomes one of this version: nothing lost, all as in a new one."""

from __future__ import annotations

from contextlib import closing
from typing import Final

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.ledger.base import Key, Ledger
from gateway.ledger.postgres.nodes import register
from gateway.ledger.postgres.schema import VERSION, open_session
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import LedgerError
from tests.ledger.databases import ask
from tests.ledger.postgres.shared import admission, make_shared, settlement

pytestmark = pytest.mark.slow

BACK: Final = """
    DROP TABLE recovery_codes, totp;
    ALTER TABLE accounts DROP COLUMN unheld_nano;
    ALTER TABLE keys DROP COLUMN unheld_nano;
    ALTER TABLE budgets DROP COLUMN unheld_nano;
    ALTER TABLE requests DROP COLUMN unheld_nano;
    ALTER TABLE nodes DROP COLUMN suspected_at, DROP COLUMN has_pending;
    CREATE FUNCTION take_over(node BIGINT, its_epoch BIGINT, silence INTERVAL, its_time_ms BIGINT)
    RETURNS VOID LANGUAGE plpgsql AS 'BEGIN END';
    DROP FUNCTION insert_requests;
    CREATE FUNCTION insert_requests(node BIGINT, asked JSON, admitted TEXT[], sent_ms BIGINT)
    RETURNS VOID LANGUAGE plpgsql AS 'BEGIN END';
    UPDATE schema_version SET version = 2;
"""
"""Takes a database of version 3 back to version 2."""
SHAPE: Final = {
    "columns": """
        SELECT table_name, column_name, coalesce(domain_name, data_type), is_nullable,
            column_default, collation_name
        FROM information_schema.columns WHERE table_schema = 'public'
    """,
    "constraints": """
        SELECT conrelid::regclass::text, contype, pg_get_constraintdef(oid)
        FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    """,
    "indexes": "SELECT indexdef FROM pg_indexes WHERE schemaname = 'public'",
    "triggers": "SELECT pg_get_triggerdef(oid) FROM pg_trigger WHERE NOT tgisinternal",
    "functions": """
        SELECT proname, pg_get_function_identity_arguments(oid), prosrc FROM pg_proc
        WHERE pronamespace = 'public'::regnamespace
    """,
}


async def charge(node: Ledger, key: Key, cost_nano: int) -> None:
    hold = node.hold(key, admission())
    await node.confirm(hold)
    await node.settle(hold, settlement(cost_nano))


def describe(session: Session) -> dict[str, list[str]]:
    return {what: sorted(str(row) for row in session.execute(sql)) for what, sql in SHAPE.items()}


def read_version(session: Session) -> object:
    return ask(session, "SELECT version FROM schema_version")


async def test_nothing_is_lost(ledger_url: str) -> None:
    """The tables and functions become those of a new one; the books add up, and a node starts."""
    shared = make_shared(ledger_url)
    async with shared.serve() as node:
        await charge(node, shared.find_key(node), 300)
    with closing(open_session(ledger_url)) as session:
        made = describe(session)
        session.run(BACK)
        assert describe(session) != made
        rows = session.execute("SELECT id, state, cost_nano FROM requests").fetchall()
    with closing(open_session(ledger_url)) as session:
        assert (read_version(session), describe(session)) == (VERSION, made)
        assert session.execute("SELECT id, state, cost_nano FROM requests").fetchall() == rows
    shared.assert_sound()
    async with shared.serve() as node:
        await charge(node, shared.find_key(node), 200)
    shared.assert_sound()


def test_nobody_upgrades_beneath_nodes_that_serve(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        register(session)
        session.run(BACK)
        with pytest.raises(LedgerError, match="gateways of an older version serve from it"):
            open_session(ledger_url)
        assert read_version(session) == 2


def test_an_upgrade_that_fails_changes_nothing(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run(BACK)
        session.run("CREATE TABLE recovery_codes (theirs int)")
        before = describe(session)
        with pytest.raises(LedgerError, match="recovery_codes"):
            open_session(ledger_url)
        assert (read_version(session), describe(session)) == (2, before)


def test_an_older_version_is_refused(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run("UPDATE schema_version SET version = 1")
        with pytest.raises(LedgerError, match=r"version 1 is older .* \(2\); start the gateway"):
            open_session(ledger_url)
        assert read_version(session) == 1

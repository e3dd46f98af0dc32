"""A database of version 1 becomes one of this version: receipts, caps, holds and sums stay right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.ledger.base import Settlement
from gateway.ledger.call_records import Receipt
from gateway.ledger.postgres.audit import run_audit
from gateway.ledger.postgres.nodes import Node, register
from gateway.ledger.postgres.schema import VERSION, open_session
from gateway.ledger.postgres.serving.ledger import PostgresLedger
from gateway.ledger.postgres.serving.messages import write_admissions, write_settlements
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.rounds import Item
from gateway.ledger.sql.rows import read_receipt
from gateway.money import Price, Tokens
from gateway.prices import AppliedPrice, read_price
from tests.ledger.contract.kit import (
    NOW_MS,
    PRICE,
    admission,
    charge,
    find_key,
    settlement,
    until,
    void,
)
from tests.ledger.databases import ask
from tests.ledger.sql.requests import make_item
from tests.support.postgres import Cluster, name_of

SCRIPT: Final = Path(__file__).with_name("version_1.sql").read_text(encoding="utf-8")
ROUND: Final = "SELECT run_round(?, ?, ?, '[]', ?, ?)"
FILLED: Final = f"""
    SELECT make_months(to_timestamp({NOW_MS // 1000}), 2);
    INSERT INTO accounts (name, created_ms, balance_nano) VALUES ('a', 1, 1000000);
    INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, created_ms)
    VALUES (1, 'credit', 1000000, 1000000, {NOW_MS});
    INSERT INTO keys (id, account_id, name, digest, last4, cap_nano, created_ms)
    SELECT 'key_' || n, 1, 'n', sha256(n::text::bytea), 'last', caps[n], n
    FROM generate_series(1, 4) AS n, (SELECT '{{1000,700,600}}'::bigint[] AS caps) AS given;
    UPDATE keys SET replaced_by = 'key_2' WHERE id = 'key_1';
    UPDATE keys SET replaced_by = 'key_3' WHERE id = 'key_2';
"""
"""`key_1` was rotated to `key_2` when it had spent 300, and that one to `key_3` at 100."""
BACK_TO_2: Final = """
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
AMOUNTS: Final = (
    *("input", "output", "cached_input", "cache_write", "request", "cache_write_1h", "web_search"),
)
SEARCHES: Final = AppliedPrice(
    Price(10**6, 2 * 10**6, 0, 5, request=3, cache_write_1h=10**7, web_search=1000),
    'input_above 200000, service_tier "fast"',
)
SEARCHED: Final = replace(
    settlement(100), price=SEARCHES, tokens=Tokens(5, 1, 0, 10, 7), tool_calls={"web_search": 2}
)
ENDS: Final[Mapping[str, tuple[Settlement | None, ...]]] = {
    "key_1": (settlement(300), replace(settlement(50, provider_cost_nano=4), attempts=3)),
    "key_2": (SEARCHED,),
    "key_3": (None,),
    "key_4": (settlement(70), void(), None),
}
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


def list_amounts(price: AppliedPrice) -> list[int]:
    return [getattr(price.price, name) for name in AMOUNTS]


def run_old_round(session: Session, node: Node, item: Item) -> None:
    """Admit a request, and settle it if it has an end, as nodes of version 1 did."""
    started: list[dict[str, Any]] = json.loads(write_admissions([item], (), NOW_MS))
    started[0]["prices"] = list_amounts(item.hold.admission.price)
    ended: list[dict[str, Any]] = json.loads(write_settlements([item], NOW_MS))
    for one in ended:
        assert item.settlement is not None
        one["prices"] = list_amounts(item.settlement.price)
        one["price_rule"] = item.settlement.price.rule
        one["web_searches"] = item.settlement.tool_calls.get("web_search", 0)
    for told in (("[]", json.dumps(started)), (json.dumps(ended), "[]")):
        session.execute(ROUND, (node.id, node.epoch, *told, NOW_MS))


@pytest.fixture(scope="module")
def template(postgres: Cluster) -> Iterator[tuple[str, list[Item]]]:
    """A database of version 1 and its requests; the last nodes died a while ago."""
    url = postgres.make_database()
    items = [make_item(1, key, NOW_MS, end) for key, ends in ENDS.items() for end in ends]
    with closing(connect(url)) as session:
        session.run(SCRIPT)
        session.run(FILLED)
        node = register(session)
        for item in items:
            run_old_round(session, node, item)
        states = session.execute("SELECT state, count(*) FROM requests GROUP BY 1 ORDER BY 1")
        assert states.fetchall() == [("pending", 2), ("posted", 4), ("voided", 1)]
        session.run("UPDATE nodes SET seen_at = now() - INTERVAL '1 hour', steady_at = seen_at")
    yield url, items
    postgres.drop_database(url)


@pytest.fixture
def items(template: tuple[str, list[Item]]) -> list[Item]:
    return template[1]


@pytest.fixture
def url(template: tuple[str, list[Item]], postgres: Cluster) -> Iterator[str]:
    old, name = name_of(template[0]), "upgraded"
    postgres.run_sql(f"CREATE DATABASE {name} TEMPLATE {old} OWNER gateway;")
    url = template[0].removesuffix(old) + name
    yield url
    postgres.drop_database(url)


def read(session: Session, request_id: str) -> Receipt:
    receipt = read_receipt(session, request_id=request_id)
    assert receipt is not None
    return receipt


def test_receipts_tell_what_they_told(url: str, items: list[Item]) -> None:
    with closing(open_session(url)) as session:
        assert ask(session, "SELECT version FROM schema_version") == VERSION
        for item in items:
            receipt = read(session, item.request_id)
            assert (receipt.key_id, receipt.hold_nano) == (item.hold.key.id, 1000)
            end = item.settlement
            if end is None:
                assert (receipt.state, receipt.price, receipt.tool_calls) == ("pending", PRICE, {})
                continue
            assert (receipt.outcome, receipt.cost_nano) == (end.outcome, end.cost_nano)
            assert (receipt.price, receipt.tokens) == (end.price, end.tokens)
            assert (receipt.tool_calls, receipt.attempts) == (end.tool_calls, end.attempts)


def test_prices_are_those_that_a_node_would_write(url: str) -> None:
    """By the same ids, so that the next request at a price finds it."""
    with closing(open_session(url)) as session:
        prices = session.execute("SELECT id, price FROM prices").fetchall()
    told = [read_price(text) for _, text in prices]
    assert [(one.id, one.text) for one in told] == prices
    used = {end.price.id for ends in ENDS.values() for end in ends if end is not None}
    assert {one.id for one in told} == used | {PRICE.id}


def test_rotated_keys_share_the_cap_of_the_first(url: str) -> None:
    """Each keeps what was left for it: before, a new key had a cap of its own."""
    with closing(open_session(url)) as session:
        rows = session.execute(
            "SELECT id, origin_id, cap_nano, spent_nano, held_nano, in_flight FROM keys ORDER BY id"
        ).fetchall()
    assert rows == [
        ("key_1", "key_1", 1000, 450, 1000, 0),
        ("key_2", "key_1", 700 + 350, 0, 0, 0),
        ("key_3", "key_1", 600 + 350 + 100, 0, 0, 1),
        ("key_4", "key_4", None, 70, 1000, 1),
    ]


def test_the_books_are_proven(url: str) -> None:
    with closing(open_session(url)) as session:
        report = run_audit(session, full=True, now_ms=NOW_MS)
    assert (report.problems, report.entries, report.pending) == ((), 5, 2)


async def test_a_node_starts_from_it(url: str) -> None:
    """What dead nodes left is interrupted, and what a line of keys spends counts together."""
    pending = "SELECT count(*) FROM requests WHERE state = 'pending'"
    async with PostgresLedger.open(url, clock=lambda: NOW_MS, silence_seconds=1.0) as ledger:
        with closing(connect(url)) as session:
            await until(lambda: ask(session, pending) == 0, 10)
        key = find_key(ledger, sha256(b"3").digest())
        assert (key.terms.cap_nano, key.spent_nano) == (1050, 450)
        await charge(ledger, key, 60)
        assert key.spent_nano == 510
        hold = ledger.hold(key, admission(20))
        await ledger.wait_admitted(hold)
        await ledger.settle(hold, SEARCHED)
    with closing(open_session(url)) as session:
        spent = session.execute("SELECT spent_nano, held_nano FROM keys ORDER BY id").fetchall()
        assert spent == [(610, 0), (0, 0), (0, 0), (70, 0)]
        assert ask(session, "SELECT count(*) FROM prices WHERE price LIKE '%\"rule\"%'") == 1
        report = run_audit(session, full=True, now_ms=NOW_MS)
    assert (report.problems, report.pending, report.interrupted) == ((), 0, 2)


def test_an_upgraded_database_is_like_a_new_one(url: str, ledger_url: str) -> None:
    """But for the order of columns, and the partitions by month."""

    def describe(session: Session) -> dict[str, set[str]]:
        return {
            what: {str(row) for row in session.execute(sql) if "_20" not in str(row)}
            for what, sql in SHAPE.items()
        }

    with closing(open_session(url)) as old, closing(open_session(ledger_url)) as new:
        upgraded, made = describe(old), describe(new)
    for what, found in made.items():
        assert upgraded[what] == found, what


def test_version_2_gets_what_it_lacks(ledger_url: str) -> None:
    def describe(session: Session) -> dict[str, list[str]]:
        return {
            what: sorted(str(row) for row in session.execute(sql)) for what, sql in SHAPE.items()
        }

    with closing(open_session(ledger_url)) as session:
        made = describe(session)
        session.run(BACK_TO_2)
        assert describe(session) != made
    with closing(open_session(ledger_url)) as session:
        assert describe(session) == made
        assert ask(session, "SELECT version FROM schema_version") == VERSION


def test_nobody_upgrades_beneath_nodes_that_serve(url: str) -> None:
    with closing(connect(url)) as session:
        register(session)
        with pytest.raises(LedgerError, match="gateways of an older version serve from it"):
            open_session(url)
        assert ask(session, "SELECT version FROM schema_version") == 1


def test_an_upgrade_that_fails_changes_nothing(url: str) -> None:
    with closing(connect(url)) as session:
        session.run("CREATE TABLE prices (theirs int)")
        with pytest.raises(LedgerError, match="prices"):
            open_session(url)
        assert ask(session, "SELECT version FROM schema_version") == 1
        assert ask(session, "SELECT count(*) FROM requests WHERE web_searches > 0") == 1

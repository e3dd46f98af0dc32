"""The schema: made once, checked each time, upgraded, and never over another program's tables."""

from __future__ import annotations

import gzip
import re
import threading
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.extras.postgres import schema
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.nodes import register
from gateway.extras.postgres.schema import FUNCTIONS, check_database, open_session
from gateway.extras.postgres.session import Session, connect
from gateway.extras.postgres.versions import UPGRADES, VERSION
from gateway.ledger.base import Key
from gateway.ledger.records import LedgerError, LedgerMissing
from gateway.ledger.serving.ledger import ServingLedger
from tests.extras.postgres.cluster import name_of, run_cluster
from tests.extras.postgres.databases import ask
from tests.extras.postgres.fixtures import need_server
from tests.extras.postgres.shared import admission, make_shared, settlement

COUNT_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


def test_it_is_made_when_told_and_then_found(postgres_url: str) -> None:
    with pytest.raises(LedgerMissing, match="it has no ledger yet"):
        open_session(postgres_url)
    with closing(connect(postgres_url)) as session:
        assert ask(session, COUNT_TABLES) == 0
    open_session(postgres_url, create=True).close()
    for create in (False, True):
        with closing(open_session(postgres_url, create=create)) as session:
            assert not session.in_transaction
            assert session.execute("SELECT version FROM schema_version").fetchall() == [(VERSION,)]


def test_every_script_is_run() -> None:
    folder = Path(schema.__file__).parent
    run = {*schema.TABLES, *UPGRADES.values(), *FUNCTIONS}
    assert run | {"proof.sql", "imported.sql"} == {path.name for path in folder.glob("*.sql")}


def test_functions_can_be_made_anew(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        for script in FUNCTIONS:
            schema.run_script(session, script)


def test_a_newer_schema_is_used_as_long_as_it_says_so(ledger_url: str) -> None:
    """Nodes are upgraded one by one."""
    with closing(connect(ledger_url)) as session:
        session.run("UPDATE schema_version SET version = 99")
        open_session(ledger_url).close()
        session.run("UPDATE schema_version SET works_since = 98")
    with pytest.raises(LedgerError, match="schema version 99 is newer than this gateway knows"):
        open_session(ledger_url, create=True)


def test_another_programs_database_is_left_alone(postgres_url: str) -> None:
    with closing(connect(postgres_url)) as session:
        session.run("CREATE TABLE accounts (id int)")
        with pytest.raises(LedgerError, match="another program's database"):
            open_session(postgres_url, create=True)
        assert ask(session, COUNT_TABLES) == 1


def test_two_that_come_at_once_make_one(postgres_url: str) -> None:
    start, failed = threading.Barrier(2), []

    def make() -> None:
        start.wait(10)
        try:
            open_session(postgres_url, create=True).close()
        except Exception as error:  # noqa: BLE001 - it is looked at
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    with closing(open_session(postgres_url)) as session:
        assert ask(session, "SELECT count(*) FROM schema_version") == 1


def test_commands_are_told_of_an_upgrade_and_a_server_waits_for_it(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that upgrades is no other program."""
    monkeypatch.setattr(schema, "WAIT_MS", 10)
    steps: list[str] = []
    with closing(connect(ledger_url)) as other, closing(connect(ledger_url)) as session:
        pid = ask(other, "SELECT pg_backend_pid()")
        session.run("UPDATE schema_version SET version = 5")
        other.run("BEGIN; SELECT pg_advisory_xact_lock(4742, 0)")
        told = rf"it is being upgraded by .* \(process {pid} of PostgreSQL\); try again when"
        with pytest.raises(LedgerError, match=told):
            open_session(ledger_url)

        def end(step: str, *_: object) -> None:
            steps.append(step)
            session.run(f"UPDATE schema_version SET version = {VERSION}")
            other.run("COMMIT")

        open_session(ledger_url, progress=end, waits=True).close()
    assert steps == [
        f"waiting, as it is being upgraded by another gateway or command (process {pid} of PostgreSQL)"
    ]


def test_an_old_server_is_refused(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990_000)
    with pytest.raises(LedgerError, match="PostgreSQL 13 or newer is needed"):
        open_session(ledger_url)


def test_a_check_makes_nothing_and_knows_a_ledger() -> None:
    """It refuses settings that can lose what was committed."""
    with run_cluster(need_server()) as cluster:
        url = cluster.make_database()
        assert check_database(url) is False
        assert cluster.run_sql(COUNT_TABLES, name_of(url)) == [(0,)]
        open_session(url, create=True).close()
        assert check_database(url) is True
        name = name_of(url)
        cluster.run_sql(f"ALTER DATABASE {name} SET synchronous_commit = off")
        with pytest.raises(LedgerError, match="synchronous_commit is off, so a crash loses"):
            check_database(url)


def test_a_server_that_forgets_is_refused(ledger_url: str) -> None:
    """The server of these tests forgets."""
    with pytest.raises(LedgerError, match="set fsync = on"):
        check_database(ledger_url)


pytestmark = pytest.mark.slow

BACK_TO_5: Final = """
    ALTER TABLE recovery_codes DROP COLUMN person;
    ALTER TABLE passwords DROP COLUMN person, DROP COLUMN created_ms, DROP COLUMN signed_in_ms;
    ALTER TABLE passwords ADD PRIMARY KEY (account_id);
    ALTER TABLE totp DROP COLUMN person, ADD PRIMARY KEY (account_id);
    ALTER TABLE recovery_codes ADD FOREIGN KEY (account_id) REFERENCES totp DEFERRABLE;
    CREATE INDEX recovery_codes_by_account ON recovery_codes (account_id);
    ALTER TABLE signin_links DROP COLUMN person, ADD PRIMARY KEY (account_id);
    ALTER TABLE sessions DROP COLUMN person;
    CREATE INDEX sessions_by_account ON sessions (account_id);
    DROP VIEW daily_totals;
    CREATE TABLE daily_costs AS
    SELECT account_id, day, model, key_id, known, charged_nano, provider_cost_nano AS cost_nano,
        reported, reported_nano, compared, difference_nano
    FROM daily WHERE known + reported > 0;
    ALTER TABLE daily DROP COLUMN provider, DROP COLUMN known, DROP COLUMN charged_nano,
        DROP COLUMN provider_cost_nano, DROP COLUMN reported, DROP COLUMN reported_nano,
        DROP COLUMN compared, DROP COLUMN difference_nano,
        ADD CONSTRAINT daily_pkey PRIMARY KEY (account_id, day, model, key_id);
    CREATE FUNCTION add_to_costs(ended requests[])
    RETURNS VOID LANGUAGE plpgsql AS 'BEGIN END';
    DROP TABLE order_fees;
    UPDATE schema_version SET version = 5;
"""
"""Takes a database with the accounts' own sign-ins alone back to version 5."""
BACK: Final = f"""
    {BACK_TO_5}
    DROP TABLE recovery_codes, totp, latencies, refused, model_prices, order_reversals, orders;
    DROP INDEX upstream_failures_by_kind;
    ALTER TABLE upstream_failures DROP COLUMN type;
    ALTER TABLE upstream_failures DROP COLUMN code;
    ALTER TABLE upstream_failures DROP COLUMN param;
    ALTER TABLE upstream_failures DROP COLUMN rejected;
    DROP FUNCTION refuse_other_terms;
    ALTER DOMAIN entry_kind DROP CONSTRAINT entry_kind_check;
    ALTER DOMAIN entry_kind ADD CHECK (VALUE IN ('credit', 'code', 'charge', 'correction'));
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
    CREATE FUNCTION run_round(
        node BIGINT, its_epoch BIGINT, settled JSON, raised JSON, asked JSON, its_time_ms BIGINT
    ) RETURNS VOID LANGUAGE plpgsql AS 'BEGIN END';
    UPDATE schema_version SET version = 2;
"""
"""Takes a database back to version 2."""
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


async def charge(
    node: ServingLedger, key: Key, cost_nano: int, provider_cost_nano: int | None = None
) -> None:
    hold = node.hold(key, admission())
    await node.confirm(hold)
    end = replace(settlement(cost_nano), provider_cost_nano=provider_cost_nano)
    await node.settle(hold, end)


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


STORED: Final = sorted((Path(__file__).parent / "old").glob("*.sql.gz"))
MONTH: Final = re.compile(r"_\d{4}_\d{2}\b")
"""The months that have partitions depend on the day of the test."""
MONEY: Final = (
    "SELECT id, name, balance_nano, held_nano FROM accounts ORDER BY 1",
    "SELECT id, account_id, kind, amount_nano, balance_after_nano, request_id FROM entries ORDER BY 1",
    "SELECT id, state, outcome, cost_nano, output_tokens FROM requests ORDER BY 1",
    "SELECT id, account_id, digest, cap_nano, spent_nano FROM keys ORDER BY 1",
    "SELECT account_id, day, model, key_id, requests, cost_nano FROM daily ORDER BY 1, 2, 3, 4",
)


def read_money(session: Session) -> list[list[tuple[object, ...]]]:
    return [session.execute(sql).fetchall() for sql in MONEY]


def describe_plainly(session: Session) -> dict[str, list[str]]:
    """Leave out months, and brackets: a dump that was read again has fewer of them."""
    return {
        what: sorted(re.sub("[()]", "", row) for row in rows if not MONTH.search(row))
        for what, rows in describe(session).items()
    }


@pytest.mark.parametrize("stored", STORED, ids=lambda one: one.name)
def test_a_stored_ledger_of_each_version_is_upgraded(
    stored: Path, postgres_url: str, ledger_url: str
) -> None:
    """As the commands and a node of that version wrote it, which was killed.

    `pg_dump --inserts --no-owner --no-privileges`, without its comments and settings.
    """
    with closing(connect(postgres_url)) as session:
        script = gzip.decompress(stored.read_bytes()).decode()
        session.run(f"SET check_function_bodies = off; {script}")
        version, before = read_version(session), read_money(session)
    assert stored.name == f"{version}.sql.gz"
    with closing(open_session(postgres_url)) as session, closing(connect(ledger_url)) as new:
        assert (read_version(session), read_money(session)) == (VERSION, before)
        assert describe_plainly(session) == describe_plainly(new)
    with PostgresBooks(postgres_url) as books:
        report = books.audit()
    assert (report.problems, report.accounts, report.entries) == ((), 3, 7)


def test_a_ledger_of_each_version_is_stored() -> None:
    assert [int(one.name.partition(".")[0]) for one in STORED] == [*UPGRADES, VERSION]


async def test_sums_stay_of_requests_that_were_dropped(ledger_url: str) -> None:
    """Nothing tells their providers."""
    shared = make_shared(ledger_url)
    async with shared.serve() as node:
        await charge(node, shared.find_key(node), 300, provider_cost_nano=200)
    with closing(open_session(ledger_url)) as session:
        session.run(BACK)
        session.run("ALTER TABLE requests DISABLE TRIGGER USER; DELETE FROM requests")
        session.run("UPDATE retention SET kept_from_ms = 9000000000000")
    with PostgresBooks(ledger_url) as books:
        sums = books.fetch(
            "SELECT provider, cost_nano, charged_nano - provider_cost_nano FROM daily", ()
        )
        assert books.audit().problems == ()
    assert sums == [("", 300, 100)]


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
        with pytest.raises(
            LedgerError, match=r"version 1 is older .* \(2\); start the gateway of commit b7"
        ):
            open_session(ledger_url)
        assert read_version(session) == 1

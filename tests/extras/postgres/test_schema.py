"""The schema: made once, checked each time, upgraded, and never over another program's tables."""

from __future__ import annotations

import gzip
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.base.times import unix_ms
from gateway.extras.postgres import schema
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.schema import FUNCTIONS, check_database, open_session
from gateway.extras.postgres.session import Session, connect
from gateway.extras.postgres.versions import UPGRADES, VERSION
from gateway.ledger.records import LedgerError, LedgerMissing
from tests.extras.postgres.cluster import name_of, run_cluster
from tests.extras.postgres.databases import ask
from tests.extras.postgres.fixtures import need_server
from tests.extras.postgres.shared import Shared, admission, settlement
from tests.support.extras import need_extra

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
    start = threading.Barrier(2)

    def make(_: int) -> None:
        start.wait(10)
        open_session(postgres_url, create=True).close()

    with ThreadPoolExecutor(2) as threads:
        assert [*threads.map(make, range(2), timeout=30)] == [None, None]
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


def test_a_start_that_waits_for_an_upgrade_can_be_broken_off(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(schema, "WAIT_MS", 10)
    steps: list[str] = []

    def stop(step: str, *_: object) -> None:
        steps.append(step)
        if len(steps) == 2:
            raise LedgerError("broken off")

    with closing(connect(ledger_url)) as other:
        other.run("UPDATE schema_version SET version = 5")
        other.run("BEGIN; SELECT pg_advisory_xact_lock(4742, 0)")
        with pytest.raises(LedgerError, match="broken off"):
            open_session(ledger_url, progress=stop, waits=True)


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


def describe(session: Session) -> dict[str, list[str]]:
    return {what: sorted(str(row) for row in session.execute(sql)) for what, sql in SHAPE.items()}


def read_version(session: Session) -> object:
    return ask(session, "SELECT version FROM schema_version")


OLD: Final = Path(__file__).with_name("old")
STORED: Final = sorted(int(one.name.partition(".")[0]) for one in OLD.glob("*.sql.gz"))
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


def restore(session: Session, version: int) -> None:
    """Make a ledger as the commands and a node of that version wrote it, which was killed.

    `pg_dump --inserts --no-owner --no-privileges`, without its comments and settings.
    """
    script = gzip.decompress((OLD / f"{version}.sql.gz").read_bytes()).decode()
    session.run(f"SET check_function_bodies = off; {script}")
    assert read_version(session) == version


@pytest.mark.parametrize("version", STORED)
async def test_a_stored_ledger_of_each_version_is_upgraded(
    version: int, postgres_url: str, ledger_url: str
) -> None:
    """Nothing is lost, tables and functions are those of a new one, and a node serves on."""
    with closing(connect(postgres_url)) as session:
        restore(session, version)
        before = read_money(session)
    with closing(open_session(postgres_url)) as session, closing(connect(ledger_url)) as new:
        assert (read_version(session), read_money(session)) == (VERSION, before)
        assert describe_plainly(session) == describe_plainly(new)
        digest = ask(session, "SELECT digest FROM keys WHERE name = 'laptop'")
    with PostgresBooks(postgres_url) as books:
        report = books.audit()
    assert (report.problems, report.accounts, report.entries) == ((), 3, 7)
    assert isinstance(digest, bytes)
    shared = Shared(postgres_url, digest)
    async with shared.serve() as node:
        hold = node.hold(shared.find_key(node), admission())
        await node.confirm(hold)
        await node.settle(hold, settlement(200))
    shared.assert_sound()


def test_a_ledger_of_each_version_is_stored() -> None:
    assert [*UPGRADES, VERSION] == STORED


def test_sums_stay_of_requests_that_were_dropped(postgres_url: str) -> None:
    """Nothing tells their providers."""
    with closing(connect(postgres_url)) as session:
        restore(session, 2)
        session.run(
            "INSERT INTO daily_costs SELECT account_id, day, model, key_id, 1, 300, 200, 0, 0, 0, 0"
            " FROM daily WHERE account_id = 1;"
            "ALTER TABLE requests DISABLE TRIGGER USER; DELETE FROM requests;"
            "UPDATE retention SET kept_from_ms = 9000000000000"
        )
    with PostgresBooks(postgres_url) as books:
        sums = books.fetch(
            "SELECT provider, cost_nano, charged_nano - provider_cost_nano FROM daily ORDER BY 2",
            (),
        )
        assert books.audit().problems == ()
    assert sums == [("", 3400, 0), ("", 10_213_600, 100)]


def test_nobody_upgrades_beneath_nodes_that_serve(postgres_url: str) -> None:
    with closing(connect(postgres_url)) as session:
        restore(session, 2)
        session.run("UPDATE nodes SET seen_at = now()")
        with pytest.raises(LedgerError, match="gateways of an older version serve from it"):
            open_session(postgres_url)
        assert read_version(session) == 2


def test_an_upgrade_that_fails_changes_nothing(postgres_url: str) -> None:
    with closing(connect(postgres_url)) as session:
        restore(session, 2)
        session.run("CREATE TABLE recovery_codes (theirs int)")
        before = describe(session)
        with pytest.raises(LedgerError, match="recovery_codes"):
            open_session(postgres_url)
        assert (read_version(session), describe(session)) == (2, before)


def test_an_older_version_is_refused(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run("UPDATE schema_version SET version = 1")
        with pytest.raises(
            LedgerError, match=r"version 1 is older .* \(2\); start the gateway of commit b7"
        ):
            open_session(ledger_url)
        assert read_version(session) == 1


SIGNED_IN: Final = """
    INSERT INTO passwords VALUES (1, 'a hash', 7);
    INSERT INTO totp VALUES (1, convert_to(repeat('k', 20), 'UTF8'), 7, 1, 1);
    INSERT INTO recovery_codes VALUES (convert_to(repeat('1', 32), 'UTF8'), 1);
    INSERT INTO signin_links VALUES (1, convert_to(repeat('l', 32), 'UTF8'), 1, 9000000000000);
    INSERT INTO sessions VALUES (
        'ses_1', 1, convert_to(repeat('s', 32), 'UTF8'), 'password', 'Firefox on Linux', '192.0.2.7',
        {now_ms}, {now_ms}, 9000000000000
    )
"""


@need_extra("signins")
def test_the_own_sign_ins_of_accounts_are_kept(postgres_url: str) -> None:
    """Passwords, codes, links and sessions go on as they were, under no person's name."""
    from gateway.extras.signins.people import PeopleBook
    from gateway.extras.signins.records import Opening, TotpView
    from gateway.extras.signins.sessions import SignInBook
    from gateway.extras.signins.totp import TotpBook

    with closing(connect(postgres_url)) as session:
        restore(session, 5)
        session.run(SIGNED_IN.format(now_ms=unix_ms()))
    with PostgresBooks(postgres_url) as books:
        own = PeopleBook(books).read("alice")
        assert PeopleBook(books).find_hash(own) == "a hash"
        assert TotpBook(books).read(own) == TotpView(b"k" * 20, 7, 1, 1)
        assert TotpBook(books).use_recovery_code(own, b"1" * 32)
        assert SignInBook(books).find_session(b"s" * 32) is not None
        opening = Opening("ses_2", b"t" * 32, "Firefox on Linux", "192.0.2.7")
        assert SignInBook(books).open_by_link(b"l" * 32, opening) is not None

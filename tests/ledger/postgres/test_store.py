"""One round: in doubt it is looked up, a bad item is refused alone, and an outage loses nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import psycopg
import pytest

from gateway.ledger.base import Account, Hold, Key, Line, Settlement
from gateway.ledger.key_records import Allowance, Budget, KeyTerms, Spending, find_span
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.messages import Parameter
from gateway.ledger.postgres.nodes import ChangeFeed, Node, Upkeep, register
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.postgres.store import PostgresStore
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.queue import Item, NotPendingError, Report
from tests.ledger.contract.kit import NOW_MS, admission, create_key, key_id_of, settlement, void
from tests.ledger.databases import ask, stop_clock

CREDIT = 5000
ROUND = b"SELECT run_round"


class Fault(Session):
    """Loses a round: before the server has it, or its answer."""

    before: Exception | None = None
    after: Exception | None = None

    async def fetch_value(self, statement: bytes, parameters: Sequence[Parameter]) -> bytes:
        is_round = statement.startswith(ROUND)
        if is_round and self.before is not None:
            error, self.before = self.before, None
            raise error
        value = await super().fetch_value(statement, parameters)
        if is_round and self.after is not None:
            error, self.after = self.after, None
            raise error
        return value


@dataclass
class Desk:
    """A store with one account `a` and its key."""

    url: str
    key: Key
    session: Session
    node: Node
    sessions: list[Fault] = field(default_factory=list)
    stores: list[PostgresStore] = field(default_factory=list)

    def make_store(self, **faults: Exception) -> PostgresStore:
        fault = Fault(connect(self.url).driver)
        for name, error in faults.items():
            setattr(fault, name, error)
        self.sessions.append(fault)
        upkeep = Upkeep(self.node, 0, silence_seconds=5)
        store = PostgresStore(
            self.url, fault, self.node, ChangeFeed(), upkeep,
            clock=lambda: NOW_MS,
        )  # fmt: skip
        self.stores.append(store)
        return store

    def hold(self, id_: str = "req_1", amount_nano: int = 1000) -> Hold:
        return Hold(admission(amount_nano, id_=id_), self.key.account, self.key, amount_nano)

    def item(self, id_: str = "req_1", *, end: Settlement | None = None) -> Item:
        return Item(self.hold(id_), insert=True, settlement=end)

    def read(self) -> tuple[object, ...]:
        """Return balance, held and in flight of the account."""
        sql = "SELECT balance_nano, held_nano, in_flight FROM accounts"
        return tuple(self.session.execute(sql).fetchone() or ())

    def assert_sound(self) -> None:
        with PostgresBooks(self.url) as books:
            assert books.audit().problems == ()


@pytest.fixture
def desk(ledger_url: str) -> Iterator[Desk]:
    with PostgresBooks(ledger_url, clock=lambda: NOW_MS) as books:
        books.accounts.create("a", credit_nano=CREDIT, operator=False)
        digest = create_key(books, "a")
    key = Key(
        key_id_of(digest), Account(1, "a", False, CREDIT), KeyTerms(), Line(key_id_of(digest))
    )
    with closing(connect(ledger_url)) as session:
        stop_clock(session, NOW_MS)
        desk = Desk(ledger_url, key, session, register(session))
        yield desk
        for one in (*desk.sessions, *(store._session for store in desk.stores)):
            one.close()
        desk.assert_sound()


async def run(store: PostgresStore, *items: Item) -> Report:
    return await store._work(items, polls=False)


async def admit(store: PostgresStore, *items: Item) -> None:
    assert (await run(store, *items)).done == list(items)


def lose() -> psycopg.OperationalError:
    return psycopg.OperationalError("the connection is lost")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_admission_without_an_answer_is_admitted_once(desk: Desk, when: str) -> None:
    store, item = desk.make_store(**{when: lose()}), desk.item()
    report = await run(store, item)
    assert isinstance(report.unavailable, LedgerError)
    assert (report.done, report.is_brief) == ([], False)
    await admit(store, item)
    assert desk.read() == (CREDIT, 1000, 1)
    await admit(store, Item(item.hold, insert=False, settlement=settlement(70)))
    assert desk.read() == (CREDIT - 70, 0, 0)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("insert", [False, True])
async def test_a_charge_without_an_answer_is_charged_once(
    desk: Desk, when: str, *, insert: bool
) -> None:
    """Be its request new or not."""
    store = desk.make_store()
    item = Item(desk.hold(), insert=insert, settlement=settlement(70))
    if not insert:
        await admit(store, Item(item.hold, insert=True, settlement=None))
    setattr(desk.sessions[0], when, lose())
    assert (await run(store, item)).unavailable is not None
    report = await run(store, item)
    assert (report.done, report.refused) == ([item], [])
    assert desk.read() == (CREDIT - 70, 0, 0)


async def test_a_charge_that_was_withdrawn_in_doubt_is_taken_back(desk: Desk) -> None:
    """By a correction, once: its caller was told that nothing is charged."""
    store, hold = desk.make_store(), desk.hold()
    await admit(store, Item(hold, insert=True, settlement=None))
    desk.sessions[0].after = lose()
    assert (
        await run(store, Item(hold, insert=False, settlement=settlement(70)))
    ).unavailable is not None
    assert desk.read() == (CREDIT - 70, 0, 0)
    report = await run(store, Item(hold, insert=False, settlement=void()))
    assert (len(report.done), report.balances_nano) == (1, {1: CREDIT})
    entries = "SELECT kind, amount_nano FROM entries ORDER BY id"
    assert desk.session.execute(entries).fetchall() == [
        ("credit", CREDIT),
        ("charge", -70),
        ("correction", 70),
    ]
    again = desk.session.execute(
        "SELECT withdraw_charge(?, ?, 1, 'req_1')", (desk.node.id, desk.node.epoch)
    )
    assert again.fetchall() == [(CREDIT,)]


async def test_a_second_end_is_refused_where_nothing_is_in_doubt(desk: Desk) -> None:
    store, hold = desk.make_store(), desk.hold()
    await admit(store, Item(hold, insert=True, settlement=None))
    ended = Item(hold, insert=False, settlement=settlement(70))
    await admit(store, ended)
    for item in (ended, Item(desk.hold("req_2"), insert=False, settlement=void())):
        ((refused, error),) = (await run(store, item)).refused
        assert refused is item
        assert isinstance(error, NotPendingError)
    assert desk.read() == (CREDIT - 70, 0, 0)


async def test_a_bad_item_is_refused_alone(desk: Desk) -> None:
    store = desk.make_store()
    await admit(store, desk.item("req_1"))
    items = [desk.item("req_2"), desk.item("req_1"), desk.item("req_3", end=settlement(5))]
    report = await run(store, *items)
    assert report.done == [items[0], items[2]]
    ((refused, error),) = report.refused
    assert refused is items[1]
    assert isinstance(error, LedgerError)
    assert "duplicate key" in str(error)
    assert "req_1" not in str(error), "rows of others are in the log"
    assert desk.read() == (CREDIT - 5, 2000, 2)


async def test_a_bad_charge_is_tried_again_where_its_hold_cannot_be_released(desk: Desk) -> None:
    store, hold = desk.make_store(), desk.hold()
    await admit(store, Item(hold, insert=True, settlement=None))
    bad = Item(hold, insert=False, settlement=settlement(2**70))
    desk.sessions[0].before = lose()
    report = await run(store, bad)
    assert (report.refused, type(report.unavailable)) == ([], LedgerError)
    assert (await run(store, bad)).refused != []
    assert desk.read() == (CREDIT, 0, 0)


@pytest.mark.parametrize("what", ["account", "key", "another's key", "budget"])
async def test_what_the_database_does_not_know_is_not_admitted(desk: Desk, what: str) -> None:
    """A standby that became the server may lack the last changes."""
    known, account = desk.key, desk.key.account
    if what == "account":
        account = replace(account, id=99)
    if what == "another's key":
        with PostgresBooks(desk.url) as books:
            books.accounts.create("b", credit_nano=CREDIT, operator=False)
        account = replace(account, id=2)
    key = Key("key_gone" if what == "key" else known.id, account, KeyTerms(), known.line)
    allowance = Allowance(5, "day")
    budget = Budget(9, account.id, None, allowance, Spending(find_span("day", NOW_MS), 0))
    hold = Hold(admission(1000, id_="req_1"), account, key, 1000)
    if what == "budget":
        hold.budget = budget
    store, good = desk.make_store(), desk.item("req_2")
    bad = [Item(hold, insert=True, settlement=None)]
    bad.append(Item(replace_id(hold, "req_3"), insert=True, settlement=void()))
    report = await run(store, *bad, good)
    assert ([item for item, _ in report.refused], report.done) == (bad, [good])
    assert ask(desk.session, "SELECT count(*) FROM requests") == 1


@dataclass
class Other:
    """Another account, `b`, with a key and a budget."""

    account: Account
    key: Key
    budget: Budget


@pytest.fixture
def other(desk: Desk) -> Other:
    with PostgresBooks(desk.url, clock=lambda: NOW_MS) as books:
        books.accounts.create("b", credit_nano=CREDIT, operator=False)
        key_id = key_id_of(create_key(books, "b"))
    desk.session.run(
        "INSERT INTO budgets (account_id, name, period, amount_nano, period_day, created_ms)"
        " VALUES (2, 'n', 'day', 5000, 0, 0)"
    )
    account = Account(2, "b", False, CREDIT)
    spending = Spending(find_span("day", NOW_MS), 0)
    budget = Budget(1, 2, "n", Allowance(5000, "day"), spending)
    return Other(account, Key(key_id, account, KeyTerms(), Line(key_id)), budget)


def make_wrong_hold(desk: Desk, other: Other, what: str) -> Hold:
    """Return one of the desk's account with the other's key or budget."""
    key = other.key if what == "key" else desk.key
    hold = Hold(admission(1000, id_="req_2"), desk.key.account, key, 1000)
    hold.budget = None if what == "key" else other.budget
    return hold


@pytest.mark.parametrize("what", ["key", "budget"])
@pytest.mark.parametrize("is_first", [False, True])
async def test_what_is_anothers_is_not_admitted(
    desk: Desk, other: Other, what: str, *, is_first: bool
) -> None:
    """Be its owner's request behind it in the batch, or before it."""
    owners = Hold(admission(1000, id_="req_1"), other.account, other.key, 1000)
    owners.budget = other.budget
    wrong = make_wrong_hold(desk, other, what)
    good, bad = (Item(hold, insert=True, settlement=None) for hold in (owners, wrong))
    report = await run(desk.make_store(), *((bad, good) if is_first else (good, bad)))
    assert ([item for item, _ in report.refused], report.done) == ([bad], [good])
    assert desk.session.execute(
        "SELECT account_id, held_nano FROM budgets UNION ALL SELECT account_id, held_nano FROM keys"
        " UNION ALL SELECT id, held_nano FROM accounts ORDER BY 1, 2"
    ).fetchall() == [(1, 0), (1, 0), (2, 1000), (2, 1000), (2, 1000)]


def replace_id(hold: Hold, id_: str) -> Hold:
    return replace(hold, admission=replace(hold.admission, request_id=id_))


async def test_a_server_that_became_a_standby_is_left(desk: Desk) -> None:
    """It refuses to write, on a line that lives; a new one leads to its successor."""
    store, item = desk.make_store(), desk.item()
    desk.sessions[0].run("SET default_transaction_read_only = on")
    assert isinstance((await run(store, item)).unavailable, LedgerError)
    await admit(store, item)


async def test_a_function_that_is_missing_is_an_outage(desk: Desk) -> None:
    """A schema that is too old is an outage: no charge is refused for it."""
    store, item = desk.make_store(), desk.item()
    desk.session.run("ALTER FUNCTION settle_requests RENAME TO gone")
    await admit(store, item)
    ended = Item(item.hold, insert=False, settlement=settlement(70))
    report = await run(store, ended)
    assert (report.done, report.refused, report.is_brief) == ([], [], False)
    assert isinstance(report.unavailable, LedgerError)
    desk.session.run("ALTER FUNCTION gone RENAME TO settle_requests")
    await admit(store, ended)


async def test_a_round_at_another_isolation_level_is_an_outage(desk: Desk) -> None:
    """It would see neither that it was taken over, nor what others hold."""
    store = desk.make_store()
    desk.sessions[0].run("SET default_transaction_isolation = 'repeatable read'")
    report = await run(store, desk.item())
    assert report.done == []
    assert "set default_transaction_isolation" in str(report.unavailable)


@pytest.mark.parametrize(
    "error", [psycopg.errors.DeadlockDetected(), psycopg.errors.SerializationFailure()]
)
async def test_others_in_the_way_are_no_outage(desk: Desk, error: Exception) -> None:
    """The connection is kept, and the next try may work at once."""
    store, item = desk.make_store(before=error), desk.item()
    report = await run(store, item)
    assert (report.is_brief, report.done, report.refused) == (True, [], [])
    assert not desk.sessions[0].is_broken
    await admit(store, item)
    assert store._session is desk.sessions[0]


async def test_an_outage_ends_with_a_new_connection(desk: Desk) -> None:
    """It may lead to another server."""
    store, item = desk.make_store(), desk.item()
    desk.session.execute("SELECT pg_terminate_backend(?, 5000)", (get_pid(desk.sessions[0]),))
    assert (await run(store, item)).unavailable is not None
    assert desk.sessions[0].is_broken
    await admit(store, item)
    await store.close(lambda session, _: session.run("SELECT 1"))


def get_pid(session: Session) -> int:
    return session.driver.info.backend_pid


async def test_the_last_word_fails_where_the_server_is_gone(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """The stop goes on."""
    store = desk.make_store()

    def fail(session: Session, node: Node) -> None:
        del node
        session.run("SELECT gone()")

    await store.close(fail)
    assert "this node could not say that it ends: function gone() does not exist" in caplog.text
    assert desk.sessions[0].is_broken


async def test_a_bug_is_reported(desk: Desk) -> None:
    store = desk.make_store(before=ZeroDivisionError())
    reported: asyncio.Future[object] = asyncio.get_running_loop().create_future()
    report: Callable[[object], None] = reported.set_result
    store.start_round([desk.item()], polls=False, report=report)
    assert isinstance(await reported, ZeroDivisionError)
    assert ask(desk.session, "SELECT count(*) FROM requests") == 0

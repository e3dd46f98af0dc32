"""The ledger on PostgreSQL: how it opens and serves, and the messages of its rounds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from dataclasses import replace

import orjson
import pytest

from gateway.errors import (
    BalanceHeld,
    BudgetSpent,
    GatewayError,
    InsufficientBalance,
    LedgerUnavailable,
    RateLimited,
)
from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.key_records import Allowance, Budget, KeyTerms, Rate, Spending, find_span
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.messages import (
    Declined,
    find_spendings,
    make_refusal,
    note_spent,
    read_answer,
    write_admissions,
    write_settlements,
)
from gateway.ledger.postgres.nodes import ChangeFeed
from gateway.ledger.postgres.serving import PostgresReader, open_postgres
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.serving.queue import Item, Report
from gateway.times import DAY_MS
from tests.ledger.contract.kit import (
    NOW_MS,
    PRICE,
    TOKENS,
    WAIT_SECONDS,
    admission,
    create_key,
    find_key,
    settlement,
    void,
)
from tests.ledger.databases import CUT_OFF, ask
from tests.support.rows import each_row

NODES = "SELECT count(*) FROM nodes WHERE ended_at IS NULL"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


@pytest.fixture
def digest(ledger_url: str) -> bytes:
    with PostgresBooks(ledger_url) as books:
        books.accounts.create("a", credit_nano=5000, operator=False)
        return create_key(books, "a")


async def test_a_node_comes_and_goes(ledger_url: str) -> None:
    told: list[str] = []
    with closing(connect(ledger_url)) as session:
        async with open_postgres(ledger_url, tell=told.append) as ledger:
            assert ask(session, NODES) == 1
            assert (ledger.writable, ledger.log_bytes) == (True, 0)
        assert ask(session, NODES) == 0
        async with asyncio.timeout(WAIT_SECONDS):
            while ask(session, CONNECTIONS) != 1:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)


async def test_an_empty_database_becomes_a_ledger(postgres_url: str) -> None:
    async with open_postgres(postgres_url) as ledger:
        assert list(ledger.accounts()) == []


async def test_the_time_is_the_databases(ledger_url: str, digest: bytes) -> None:
    """Unless a test has another."""
    async with open_postgres(ledger_url) as ledger:
        await ledger.settle(ledger.hold(find_key(ledger, digest), admission(id_="req_1")), void())
        await ledger.wait_admitted(ledger.hold(find_key(ledger, digest), admission(id_="req_2")))
    with closing(connect(ledger_url)) as session:
        age = "SELECT now() - to_timestamp(ended_ms / 1000) < INTERVAL '1 minute' FROM requests"
        assert ask(session, f"{age} WHERE id = 'req_2'") is True


async def test_settings_that_can_lose_what_was_committed_are_warned_of(
    ledger_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tests' server has these limits."""
    async with open_postgres(ledger_url):
        assert "its setting fsync is off, so a crash loses what was committed" in caplog.text


async def test_it_is_a_node_once_it_has_read_all(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million keys take longer than others wait for a sign of life."""
    nodes: list[object] = []

    def read_all(feed: ChangeFeed, session: Session, now_ms: int) -> Snapshot:
        nodes.append(ask(session, NODES))
        return read(feed, session, now_ms)

    read = ChangeFeed.read_all
    monkeypatch.setattr(ChangeFeed, "read_all", read_all)
    async with open_postgres(ledger_url):
        assert nodes == [0]


async def test_a_server_that_is_not_there_is_named(ledger_url: str) -> None:
    name = ledger_url.rpartition("/")[2]
    with pytest.raises(LedgerError, match=f'database "{name}x" does not exist'):
        async with open_postgres(f"{ledger_url}x"):
            pass


@pytest.fixture
async def reader(ledger_url: str) -> AsyncIterator[PostgresReader]:
    reader = PostgresReader(ledger_url)
    yield reader
    await reader.close()


async def test_a_connection_that_broke_is_made_anew(
    reader: PostgresReader, ledger_url: str
) -> None:
    assert await reader.read_receipt("req_1") is None
    with closing(connect(ledger_url)) as session:
        session.run(CUT_OFF)
    assert await reader.read_receipt("req_1") is None
    assert await reader.read_ended_key(b"d" * 32) is None


async def test_what_cannot_be_read_is_an_outage_until_it_can(
    reader: PostgresReader, ledger_url: str
) -> None:
    with closing(connect(ledger_url)) as session:
        session.run("ALTER TABLE requests RENAME TO gone")
        with pytest.raises(LedgerUnavailable):
            await reader.read_receipt("req_1")
        session.run("ALTER TABLE gone RENAME TO requests")
    assert await reader.read_receipt("req_1") is None


async def test_a_server_that_is_not_there_is_an_outage() -> None:
    reader = PostgresReader("postgresql://gateway@127.0.0.1:1/gateway")
    with pytest.raises(LedgerUnavailable):
        await reader.read_receipt("req_1")
    await reader.close()


TODAY = NOW_MS // DAY_MS
SPENDING = Spending(find_span("day", NOW_MS), 5)


def make_item(
    id_: str = "req_1", *, rate: Rate | None = None, budget: Budget | None = None
) -> Item:
    account = Account(7, "a", suspended=False, balance_nano=100)
    key = Key("key_1", account, KeyTerms(), Line("key_1"), budget=budget)
    asked = replace(admission(9, id_=id_, stream=True), key_rate=rate, expected_tokens=60)
    asked.full_nano, asked.full_below_nano = 12, 120
    return Item(Hold(asked, account, key, 9, budget=budget), insert=True, settlement=None)


def make_budget() -> Budget:
    return Budget(3, 7, "team", Allowance(1000, "day"), SPENDING)


def test_an_admission_says_all_that_its_row_has() -> None:
    budget = make_budget()
    items = [make_item("req_1", rate=Rate(1, 2, 3), budget=budget), make_item("req_2")]
    first, second = orjson.loads(write_admissions(items, {"req_2"}, NOW_MS + 7))
    assert first == {
        "place": 0,
        "id": "req_1",
        "account_id": 7,
        "key_id": "key_1",
        "budget_id": 3,
        "model": "demo/echo",
        "provider": "demo",
        "stream": 1,
        "hold_nano": 9,
        "full_nano": 12,
        "full_below_nano": 120,
        "started_ago_ms": 7,
        "price_id": PRICE.id,
        "key_rate": [1, 2, 3],
        "account_rate": [0, 0, 0],
        "expected_tokens": 60,
        "again": False,
    }
    assert (second["place"], second["id"], second["again"]) == (1, "req_2", True)
    assert (second["budget_id"], second["key_rate"]) == (None, [0, 0, 0])


def test_a_settlement_says_how_it_ended() -> None:
    """Bills of providers are those of charges; requests without an end are left out."""
    charged = settlement(5, provider_cost_nano=4, reported_cost_nano=3)
    voided = replace(charged, cost_nano=0, outcome="upstream_error")
    items = [replace(make_item(), settlement=one) for one in (charged, None, voided)]
    first, second = orjson.loads(write_settlements(items, NOW_MS))
    assert (first["place"], first["state"], first["cost_nano"]) == (0, "posted", 5)
    assert (first["provider_cost_nano"], first["reported_cost_nano"]) == (4, 3)
    assert (first["input_tokens"], first["estimated"]) == (TOKENS.input, 0)
    assert (second["place"], second["state"], second["account_id"]) == (2, "voided", 7)
    assert (second["provider_cost_nano"], second["reported_cost_nano"]) == (None, None)
    assert orjson.loads(write_settlements([replace(make_item(), settlement=void())], NOW_MS))


def test_an_answer_is_read() -> None:
    told = {
        "done": {
            "settled": ["r1"], "others": [["r2", "posted", 5]], "balances": [[7, -3]],
            "spent": [["key_1", 8]], "budgets": [[3, TODAY, 6]],
        },
        "admitted": {"admitted": ["r3"], "in_full": ["r3"], "declined": [["r4", ["cap"], 1, 2, [3, 4]]]},
    }  # fmt: skip
    answer = read_answer(orjson.dumps(told))
    assert (answer.settled, answer.admitted, answer.in_full) == ({"r1"}, {"r3"}, {"r3"})
    assert (answer.others["r2"].state, answer.others["r2"].cost_nano) == ("posted", 5)
    assert (answer.balances_nano, answer.spent_nano) == ({7: -3}, {"key_1": 8})
    declined = answer.declined["r4"]
    assert (declined.reason, declined.balance_nano, declined.spent_nano) == (["cap"], 1, 2)
    spendings = find_spendings(answer, [make_item(budget=make_budget()), make_item()])
    assert spendings == {3: Spending(find_span("day", NOW_MS), 6)}


@each_row("text", ['{"done": null, "admitted": null, "budgets": []}'])
def test_an_answer_may_say_nothing(text: str) -> None:
    answer = read_answer(text)
    assert not any((answer.settled, answer.others, answer.admitted, answer.declined))


@each_row(
    ("reason", "kind", "words"),
    [
        (["balance"], InsufficientBalance, "balance is used up"),
        (["cap"], InsufficientBalance, "spending cap is reached"),
        (["budget"], BudgetSpent, "team"),
        (["balance held"], BalanceHeld, "whole balance is held"),
        (["cap held"], BalanceHeld, "rest of this key's spending cap is held"),
        (["budget held"], BalanceHeld, "is held by requests in flight"),
        (["concurrency", "key", 4, 0], RateLimited, "This key has 4 requests in flight"),
        (["requests", "account", 3, 1_500_000], RateLimited, "account may make 3 .* in 1.5 s"),
        (["tokens", "key", 90, 2_000_000], RateLimited, "90 tokens .* about 60.* in 2.0 s"),
    ],
)
def test_each_reason_has_its_refusal(
    reason: list[object], kind: type[GatewayError], words: str
) -> None:
    item = make_item(budget=make_budget())
    with pytest.raises(kind, match=words):
        raise make_refusal(item, reason)


def test_an_unknown_reason_is_a_bug() -> None:
    with pytest.raises(ValueError, match="moon"):
        make_refusal(make_item(), ["moon", 1, 2, 3, 4])


def test_what_is_spent_is_reported() -> None:
    report = Report()
    note_spent(make_item(), Declined(["balance"], -1, 2, None), report)
    assert (report.balances_nano, report.spent_nano) == ({7: -1}, {"key_1": 2})
    assert report.spendings == {}
    note_spent(make_item(budget=make_budget()), Declined(["budget"], 0, 0, (TODAY, 9)), report)
    assert report.spendings == {3: Spending(find_span("day", NOW_MS), 9)}


def test_the_answer_of_a_round_account_by_account_is_one() -> None:
    part = {"done": {"settled": ["req_1"], "balances": [[1, 5]]}, "admitted": None}
    other = {"done": {"settled": ["req_2"]}, "admitted": {"admitted": ["req_3"], "declined": []}}
    answer = read_answer(orjson.dumps({"parts": [part, other], "locked": [7]}))
    assert (answer.settled, answer.admitted) == ({"req_1", "req_2"}, {"req_3"})
    assert (answer.balances_nano, answer.locked) == ({1: 5}, {7})

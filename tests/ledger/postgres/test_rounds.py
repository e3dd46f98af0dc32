"""Rounds without a serving ledger: many nodes that die at once, and charges of one round in a row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from gateway.ledger.key_records import Allowance, Budget, KeyTerms, Rate, Spending, find_span
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.nodes import look_around, register
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement
from tests.ledger.databases import ask
from tests.ledger.postgres.rounds import run_round
from tests.ledger.sql.requests import make_item


@pytest.fixture
def books(postgres_url: str) -> Iterator[PostgresBooks]:
    with PostgresBooks(postgres_url, create=True, clock=lambda: NOW_MS) as books:
        books.accounts.create("a", credit_nano=100_000)
        books.accounts.create("b", credit_nano=100_000)
        yield books


def make_budget(budget_id: int) -> Budget:
    spending = Spending(find_span("day", NOW_MS), 0)
    return Budget(budget_id, 1, "team", Allowance(1500, "day"), spending)


def test_nodes_that_died_together_are_taken_over_once(books: PostgresBooks) -> None:
    session = books._session
    keys = [key_id_of(create_key(books, name)) for name in ("a", "b")]
    mine, *dead = (register(session) for _ in range(3))
    for node, (account_id, key) in zip(dead, ((2, keys[1]), (1, keys[0])), strict=True):
        run_round(session, node, asked=[make_item(account_id, key, NOW_MS)], now_ms=NOW_MS)
    session.run("UPDATE nodes SET steady_at = steady_at - INTERVAL '1 hour'")
    past = "clock_timestamp() - INTERVAL '9 s'"
    session.execute(
        f"UPDATE nodes SET seen_at = {past}, suspected_at = {past} WHERE id <> ?", (mine.id,)
    )
    found = [(one.id, one.interrupted) for one in look_around(session, mine, 5)]
    assert found == [(node.id, 1) for node in dead]
    assert list(look_around(session, mine, 5)) == []
    assert books.audit().problems == ()
    assert session.execute("SELECT sum(held_nano), sum(in_flight) FROM accounts").fetchone() == (
        0,
        0,
    )


def test_charges_of_one_round_follow_each_other(books: PostgresBooks) -> None:
    """Each entry has the balance after it, by account, in the order of the settlements."""
    session, node = books._session, register(books._session)
    keys = [key_id_of(create_key(books, name)) for name in ("a", "b")]
    items = [make_item(1 + n % 2, keys[n % 2], NOW_MS, settlement(10 + n)) for n in range(6)]
    run_round(session, node, asked=items, now_ms=NOW_MS)
    answer = run_round(session, node, ended=items[::-1], now_ms=NOW_MS)
    assert answer.balances_nano == {1: 100_000 - 36, 2: 100_000 - 39}
    entries = [
        (one.amount_nano, one.balance_after_nano) for one in books.entries.read_latest("a", 3)
    ]
    assert entries == [(-10, 99_964), (-12, 99_974), (-14, 99_986)]
    assert run_round(session, node, ended=items, now_ms=NOW_MS).settled == set()
    assert books.audit().problems == ()


@pytest.mark.parametrize("is_first", [False, True])
def test_each_request_of_a_round_gets_what_it_needs(
    books: PostgresBooks, *, is_first: bool
) -> None:
    """Its budget, its provider's costs and its rate count, whatever the others have."""
    session, node = books._session, register(books._session)
    team = books.budgets.create("a", "team", Allowance(1500, "day")).id
    key_id = key_id_of(create_key(books, "a", KeyTerms(budget_id=team)))
    rich = make_item(1, key_id, NOW_MS, settlement(10, provider_cost_nano=4))
    rich.hold.budget = make_budget(team)
    limited = replace(rich.hold.admission, key_rate=Rate(0, 200, 0), expected_tokens=60)
    rich.hold.admission = limited
    plain = make_item(1, key_id_of(create_key(books, "a")), NOW_MS, settlement(3))
    items = [rich, plain] if is_first else [plain, rich]
    run_round(session, node, asked=items, now_ms=NOW_MS)
    answer = run_round(session, node, ended=items, now_ms=NOW_MS)
    assert [tuple(one) for one in answer.budgets] == [(team, NOW_MS // DAY_MS, 10)]
    (full_us,) = session.execute("SELECT tokens_full_us FROM rates").fetchone() or (0,)
    assert full_us == (NOW_MS + 60_000 * 175 // 200) * 1000
    assert session.execute("SELECT sum(known), sum(provider_cost_nano) FROM daily").fetchone() == (
        1,
        4,
    )
    assert books.audit().problems == ()


@pytest.mark.parametrize("lack", ["balance held", "cap held", "budget held"])
def test_admissions_of_one_round_hold_together(books: PostgresBooks, lack: str) -> None:
    """Two of 1,000 pass on 1,500; the third finds nothing left."""
    session, node = books._session, register(books._session)
    if lack == "balance held":
        books.entries.post("a", "correction", 1500 - 100_000, note="the rest")
    team = books.budgets.create("a", "team", Allowance(1500, "day")).id
    terms = KeyTerms(
        cap_nano=1500 if lack == "cap held" else None,
        budget_id=team if lack == "budget held" else None,
    )
    key_id = key_id_of(create_key(books, "a", terms))
    items = [make_item(1, key_id, NOW_MS) for _ in range(3)]
    for item in items:
        item.hold.budget = make_budget(team) if lack == "budget held" else None
    answer = run_round(session, node, asked=items, now_ms=NOW_MS)
    ids = [item.hold.admission.request_id for item in items]
    assert answer.admitted == set(ids[:2])
    assert answer.declined[ids[2]].reason == [lack]
    assert books.audit().problems == ()


def test_holds_of_one_round_are_raised_together(books: PostgresBooks) -> None:
    """Those of the node that admitted them."""
    session, node = books._session, register(books._session)
    team = books.budgets.create("a", "team", Allowance(50_000, "day")).id
    key_id = key_id_of(create_key(books, "a", KeyTerms(budget_id=team)))
    items = [make_item(1, key_id, NOW_MS) for _ in range(3)]
    for item in items:
        item.hold.budget = make_budget(team)
    run_round(session, node, asked=items, now_ms=NOW_MS)
    for number, item in enumerate(items):
        item.hold.amount_nano += number
    held = (
        "SELECT held_nano FROM accounts WHERE id = 1 UNION ALL SELECT held_nano FROM keys"
        " UNION ALL SELECT held_nano FROM budgets UNION ALL SELECT sum(hold_nano) FROM requests"
    )
    for one, wanted in ((register(session), 3000), (node, 3003)):
        run_round(session, one, raised=items, now_ms=NOW_MS)
        assert session.execute(held).fetchall() == [(wanted,)] * 4


def test_no_request_ends_before_it_began(books: PostgresBooks) -> None:
    """The node's clock may be set back in between."""
    session, node = books._session, register(books._session)
    key_id = key_id_of(create_key(books, "a"))
    item = make_item(1, key_id, NOW_MS, settlement(10, ended_ms=NOW_MS - 5000))
    run_round(session, node, asked=[item], now_ms=NOW_MS)
    run_round(session, node, ended=[item], now_ms=NOW_MS)
    assert ask(session, "SELECT ended_ms - started_ms FROM requests") == 0
    assert books.audit().problems == ()


def test_a_node_settles_no_request_of_another(books: PostgresBooks) -> None:
    session = books._session
    mine, others = register(session), register(session)
    item = make_item(1, key_id_of(create_key(books, "a")), NOW_MS, settlement(10))
    run_round(session, others, asked=[item], now_ms=NOW_MS)
    answer = run_round(session, mine, ended=[item], now_ms=NOW_MS)
    assert (answer.settled, answer.others) == (set(), {})
    assert run_round(session, others, ended=[item], now_ms=NOW_MS).settled == {
        item.hold.admission.request_id
    }

"""The operator's verbs: what they do, what they refuse, and that each happens once."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest

from gateway.admin import accounts, keys
from gateway.ledger.key_records import KeyTerms, TermChanges, Terms
from gateway.ledger.opening import open_ledger
from gateway.ledger.records import Conflict, EntryView, LedgerError, NotFound, Refused
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import MAX_AMOUNT_NANO, Tokens
from gateway.times import DAY_MS
from tests.ledger.kit import (
    TOKENS,
    admission,
    assert_sound,
    charge,
    find_key,
    make_place,
    query,
    settlement,
)
from tests.support.rows import each_row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def books(path: Path) -> Iterator[Books]:
    with accounts.open_books(path, create=True) as opened:
        yield opened


BAD_TERMS: list[TermChanges] = [
    {"models": ()},
    {"models": tuple(f"{number:0200}" for number in range(21))},
    {"concurrency": -1},
    {"requests_per_minute": 10**9 + 1},
    {},
]


@pytest.mark.parametrize("terms", BAD_TERMS)
def test_an_account_s_terms_are_checked(books: Books, terms: TermChanges) -> None:
    """By the rules for keys; and an edit of nothing is none."""
    accounts.add_account(books, "a")
    with pytest.raises(Refused):
        accounts.edit_account(books, "a", terms)
    if terms:
        with pytest.raises(Refused):
            accounts.add_account(books, "b", terms=Terms(**terms))
    assert [one.terms for one in books.accounts.read_all()] == [Terms()]


def test_an_account_s_models_are_named_once(books: Books) -> None:
    made = accounts.add_account(books, "a", terms=Terms(("m", "n", "m"), 1))
    assert made.terms == Terms(("m", "n"), 1)
    edited = accounts.edit_account(books, "a", {"models": ("n", "n")}, operator=True)
    assert (edited.terms, edited.operator) == (Terms(("n",), 1), True)


def test_missing_database_is_named(path: Path) -> None:
    with pytest.raises(NotFound, match=r"no database at .*gateway\.db"):
        accounts.open_books(path)
    assert not path.exists()


def test_account_begins_with_its_credit(books: Books) -> None:
    view = accounts.add_account(books, "Größe & Söhne", credit_nano=5_000, operator=True)
    assert (view.name, view.balance_nano, view.held_nano) == ("Größe & Söhne", 5_000, 0)
    assert (view.operator, view.suspended) == (True, False)
    accounts.add_account(books, "b")
    assert [one.name for one in books.accounts.read_all()] == ["Größe & Söhne", "b"]
    entries = accounts.show_account(books, view.name).entries
    assert [(one.kind, one.amount_nano, one.balance_after_nano) for one in entries] == [
        ("credit", 5_000, 5_000)
    ]


def test_account_names_are_unique(books: Books) -> None:
    accounts.add_account(books, "a")
    with pytest.raises(Conflict, match="'a' already"):
        accounts.add_account(books, "a", credit_nano=1)
    assert len(books.accounts.read_all()) == 1


@pytest.mark.parametrize(
    "name", ["", "x" * 101, "a\nb", "a\x00b", "\u202eabc", " a", "a ", "\ud800"]
)
def test_names_that_could_deceive_are_refused(books: Books, name: str) -> None:
    accounts.add_account(books, "a")
    with pytest.raises(Refused):
        accounts.add_account(books, name)
    with pytest.raises(Refused):
        accounts.credit(books, "a", 1, note=name * 5 or "\n")
    if name:
        with pytest.raises(Refused):
            keys.add_key(books, "a", KeyTerms(name=name))


@each_row("name", ["x" * 100, "a'; DROP TABLE accounts; --", "100 %", "日本"])
def test_names_are_only_data(books: Books, name: str) -> None:
    assert accounts.add_account(books, name).name == name
    assert accounts.credit(books, name, 7, note=name, idempotency_key=name).note == name
    assert keys.add_key(books, name, KeyTerms(name=name)).key.terms.name == name


@pytest.mark.parametrize("amount", [0, -1, MAX_AMOUNT_NANO + 1])
def test_credit_must_be_positive_and_plausible(books: Books, amount: int) -> None:
    accounts.add_account(books, "a")
    with pytest.raises(Refused):
        accounts.credit(books, "a", amount)
    if amount:
        with pytest.raises(Refused):
            accounts.add_account(books, "b", credit_nano=amount)


@pytest.mark.parametrize(
    ("amount", "note"), [(0, "n"), (5, ""), (-MAX_AMOUNT_NANO - 1, "n"), (MAX_AMOUNT_NANO + 1, "n")]
)
def test_correction_needs_a_reason_and_an_amount(books: Books, amount: int, note: str) -> None:
    accounts.add_account(books, "a")
    with pytest.raises(Refused):
        accounts.correct(books, "a", amount, note=note)


def test_balance_stays_within_64_bits(books: Books) -> None:
    accounts.add_account(books, "a")
    for _ in range(9):
        accounts.credit(books, "a", MAX_AMOUNT_NANO)
    with pytest.raises(Refused, match="beyond what the ledger can keep"):
        accounts.credit(books, "a", MAX_AMOUNT_NANO)
    assert books.audit().ok


def test_corrections_go_both_ways(books: Books) -> None:
    accounts.add_account(books, "a", credit_nano=10)
    entry = accounts.correct(books, "a", -25, note="paid twice")
    assert (entry.account, entry.kind, entry.amount_nano) == ("a", "correction", -25)
    assert (entry.balance_after_nano, entry.note) == (-15, "paid twice")
    assert accounts.correct(books, "a", 5, note="back").balance_after_nano == -10


async def test_correction_may_name_a_request_of_the_account(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with open_ledger(place.path) as ledger:
        key = ledger.find_key(place.digest)
        assert key is not None
        hold = await charge(ledger, key, 100)
        request_id = hold.admission.request_id
        with accounts.open_books(place.path) as books:
            accounts.add_account(books, "b")
            entry = accounts.correct(books, "a", 100, note="refund", request_id=request_id)
            assert entry.request_id == request_id
            with pytest.raises(NotFound, match="'b' has no request"):
                accounts.correct(books, "b", 100, note="refund", request_id=request_id)
    assert_sound(place.path)


UNKNOWN: dict[str, Callable[[Books], object]] = {
    "show": lambda books: accounts.show_account(books, "x"),
    "credit": lambda books: accounts.credit(books, "x", 1),
    "correct": lambda books: accounts.correct(books, "x", 1, note="n"),
    "suspend": lambda books: accounts.suspend(books, "x"),
    "resume": lambda books: books.accounts.resume("x"),
    "add key": lambda books: keys.add_key(books, "x"),
    "list keys": lambda books: books.keys.read_all("x"),
    "rotate": lambda books: keys.rotate_key(books, "x"),
    "revoke": lambda books: books.keys.revoke("x"),
    "edit key": lambda books: keys.edit_key(books, "x", {"name": "n"}),
    "usage": lambda books: accounts.usage(books, account="x"),
}


@each_row("verb", UNKNOWN)
def test_unknown_names_are_not_found(books: Books, verb: str) -> None:
    with pytest.raises(NotFound, match="'x'"):
        UNKNOWN[verb](books)


def test_suspension_is_a_state(books: Books) -> None:
    accounts.add_account(books, "a")
    assert accounts.suspend(books, "a").suspended
    assert accounts.suspend(books, "a").suspended
    assert not books.accounts.resume("a").suspended


def test_idempotent_credit_happens_once(books: Books) -> None:
    """The same call gives the same entry; another amount, kind or note under the key is refused."""
    accounts.add_account(books, "a")
    accounts.add_account(books, "b")
    first = accounts.credit(books, "a", 5, note="n", idempotency_key="k")
    assert accounts.credit(books, "a", 5, note="n", idempotency_key="k") == first
    for amount, note in ((6, "n"), (5, "m")):
        with pytest.raises(Conflict, match="idempotency key 'k'"):
            accounts.credit(books, "a", amount, note=note, idempotency_key="k")
    assert accounts.credit(books, "b", 6, idempotency_key="k").id != first.id, "per account"
    with pytest.raises(Refused):
        accounts.credit(books, "a", 5, idempotency_key="")
    assert accounts.show_account(books, "a").account.balance_nano == 5


async def test_idempotent_correction_happens_once(tmp_path: Path) -> None:
    """The request it is about is part of what has to be the same."""
    place = make_place(tmp_path, credit_nano=1000)
    async with open_ledger(place.path) as ledger:
        key = find_key(ledger, place)
        one, other = [(await charge(ledger, key, 1)).admission.request_id for _ in range(2)]
    with accounts.open_books(place.path) as books:
        correct = partial(accounts.correct, books, "a", note="n", idempotency_key="k")
        first = correct(-5, request_id=one)
        assert correct(-5, request_id=one) == first
        for amount, request_id in ((-6, one), (-5, other), (-5, None)):
            with pytest.raises(Conflict, match="idempotency key 'k'"):
                correct(amount, request_id=request_id)
        with pytest.raises(Conflict, match="idempotency key 'k'"):
            accounts.credit(books, "a", 5, note="n", idempotency_key="k")
        with pytest.raises(Refused):
            accounts.correct(books, "a", 5, note="n", idempotency_key="")
        assert accounts.show_account(books, "a").account.balance_nano == 1000 - 2 - 5
    assert_sound(place.path)


def test_100_concurrent_duplicates_have_one_effect(books: Books, path: Path) -> None:
    """Each on a connection of its own, all at once: one entry, a hundred equal replies."""
    accounts.add_account(books, "a")
    start = Barrier(100)

    def credit(_: int) -> EntryView:
        with accounts.open_books(path) as own:
            start.wait()
            return accounts.credit(own, "a", 5, idempotency_key="k")

    with ThreadPoolExecutor(100) as pool:
        replies = set(pool.map(credit, range(100)))
    assert len(replies) == 1
    assert query(path, "SELECT count(*), sum(amount_nano) FROM entries") == [(1, 5)]
    assert accounts.show_account(books, "a").account.balance_nano == 5


def test_processes_do_not_overwrite_each_other(books: Books, path: Path) -> None:
    accounts.add_account(books, "a")
    script = (
        "import sys; from pathlib import Path; from gateway.admin import accounts\n"
        "with accounts.open_books(Path(sys.argv[1])) as books:\n"
        "    for _ in range(50): accounts.credit(books, 'a', 3)\n"
    )
    command = [sys.executable, "-c", script, str(path)]
    others = [subprocess.Popen(command) for _ in range(3)]
    for _ in range(50):
        accounts.correct(books, "a", -1, note="n")
    assert [other.wait(20) for other in others] == [0, 0, 0]
    assert accounts.show_account(books, "a").account.balance_nano == 400
    assert books.audit().entries == 200


async def test_usage_sums_are_the_ledger(tmp_path: Path) -> None:
    """By day, by model and by key: each sums to the charges, to the nano-unit."""
    place = make_place(tmp_path)
    start_ms = 20_000 * DAY_MS
    ends = [start_ms - 1, start_ms, start_ms + DAY_MS - 1, start_ms + DAY_MS]
    async with open_ledger(place.path) as ledger:
        key = ledger.find_key(place.digest)
        assert key is not None
        for cost_nano, ended_ms in enumerate(ends, start=1):
            hold = ledger.hold(key, admission())
            await ledger.settle(hold, settlement(cost_nano, ended_ms=ended_ms))
        await ledger.wait_admitted(ledger.hold(key, admission(400)))
        with accounts.open_books(place.path) as books:
            assert accounts.show_account(books, "a").account.held_nano == 400
    with accounts.open_books(place.path) as books:
        days = accounts.usage(books, account="a")
        assert [(day, sums.requests, sums.cost_nano) for day, sums in days] == [
            ("2024-10-03", 1, 1),
            ("2024-10-04", 2, 5),
            ("2024-10-05", 1, 4),
        ]
        assert days[1][1].tokens == Tokens(
            2 * TOKENS.input, 2 * TOKENS.cached_input, 2 * TOKENS.cache_write, 2 * TOKENS.output
        )
        ((model, by_model),) = accounts.usage(books, by="model")
        ((key_id, by_key),) = accounts.usage(books, by="key")
        assert (model, by_model.cost_nano) == ("demo/echo", 10)
        assert (key_id, by_key.cost_nano, by_key.requests) == (place.key_id, 10, 4)
        ((day, middle),) = accounts.usage(books, since_ms=start_ms, until_ms=start_ms + DAY_MS)
        assert (day, middle.cost_nano) == ("2024-10-04", 5)
        with pytest.raises(Refused, match="not by 'week'"):
            accounts.usage(books, by="week")  # type: ignore[arg-type] # wrong on purpose


def test_a_locked_ledger_is_said_to_be_so(books: SqliteBooks, path: Path) -> None:
    accounts.add_account(books, "a")
    with SqliteBooks(path) as other:
        other.connection.execute("PRAGMA busy_timeout = 1")
        books.connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerError, match="locked"):
            accounts.credit(other, "a", 1)
        books.connection.execute("ROLLBACK")


def test_a_correction_of_0_must_name_a_request(books: Books) -> None:
    """Without one it corrects nothing; with one it says that nothing is owed."""
    accounts.add_account(books, "a")
    with pytest.raises(Refused, match="corrects nothing"):
        accounts.correct(books, "a", 0, note="no request")

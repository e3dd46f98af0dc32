"""Top-up codes: how they look, what is kept of them, and that each is redeemed once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from gateway import apikeys
from gateway.admin import accounts, codes, keys
from gateway.ledger.opening import open_ledger
from gateway.ledger.records import CodeStatus, CodeView, Conflict, NotFound, Refused
from gateway.ledger.sql.books.books import Books
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import MAX_AMOUNT_NANO, NANO
from tests.ledger.kit import assert_sound, query
from tests.support.rows import each_row

CODE = re.compile(r"[2-9A-HJ-NP-Z]{4}(-[2-9A-HJ-NP-Z]{4}){3}")
RACERS = 100
CONNECTIONS = 8


def list_codes(books: Books, status: CodeStatus | None = None) -> list[CodeView]:
    _, found = books.codes.read_page(status, None, None, None)
    return found


class Clock:
    """Unix milliseconds that a test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000_000

    def __call__(self) -> int:
        return self.now_ms


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "gateway.db"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def books(path: Path, clock: Clock) -> Iterator[Books]:
    with SqliteBooks(path, create=True, clock=clock) as opened:
        accounts.add_account(opened, "a")
        accounts.add_account(opened, "b")
        yield opened


def make_one(books: Books, amount_nano: int = 5 * NANO, expires_ms: int | None = None) -> str:
    (code,) = codes.make_codes(books, amount_nano, 1, expires_ms=expires_ms).codes
    return code


def balance(books: Books, account: str = "a") -> int:
    return books.accounts.read(account).balance_nano


def read_events(path: Path) -> list[tuple[object, ...]]:
    found = query(path, "SELECT actor, action, account, target, detail FROM events ORDER BY id")
    return [event for event in found if str(event[1]).startswith("code.")]


# ---- making --------------------------------------------------------------------------------------


def test_a_code_has_80_bits_in_symbols_that_cannot_be_misread(books: Books) -> None:
    assert len(set(codes.ALPHABET)) == 32
    assert not set("0O1I") & set(codes.ALPHABET)
    made = codes.make_codes(books, 1, 1000).codes
    assert len(set(made)) == 1000
    assert all(CODE.fullmatch(code) for code in made)
    assert set("".join(made)) == {*codes.ALPHABET, "-"}, "every symbol is drawn"


def test_nothing_is_kept_of_a_code_but_its_digest_and_its_end(books: Books, path: Path) -> None:
    made = codes.make_codes(books, 5 * NANO, 3, expires_ms=2_000_000, note="spring")
    rows = query(path, "SELECT digest, last4, created_by, created_ms, note FROM codes ORDER BY id")
    assert rows == [
        (codes.digest(code), code[-4:], "cli", 1_000_000, "spring") for code in made.codes
    ]
    kept = b"".join(file.read_bytes() for file in path.parent.iterdir())
    for code in made.codes:
        assert code.encode() not in kept
        assert code.replace("-", "").encode() not in kept
        assert code not in repr(made)


@each_row(
    ("batch", "field"),
    [
        ({"amount_nano": 0}, "amount"),
        ({"amount_nano": -1}, "amount"),
        ({"amount_nano": MAX_AMOUNT_NANO + 1}, "amount"),
        ({"count": 0}, "count"),
        ({"count": 1001}, "count"),
        ({"expires_ms": 1_000_000}, "expires"),
        ({"note": "a\nb"}, "note"),
        ({"note": "x" * 501}, "note"),
    ],
)
def test_a_batch_that_makes_no_sense_is_refused(
    books: Books, batch: dict[str, Any], field: str
) -> None:
    with pytest.raises(Refused) as refused:
        codes.make_codes(books, **{"amount_nano": 1, "count": 1, **batch})
    assert (refused.value.code, refused.value.field) == ("invalid_field", field)
    assert list_codes(books) == []


# ---- redeeming -----------------------------------------------------------------------------------


def test_a_code_credits_its_amount_as_an_entry_of_its_own_kind(books: Books, path: Path) -> None:
    code = make_one(books)
    entry = codes.redeem(books, "a", code)
    assert (entry.account, entry.kind, entry.amount_nano) == ("a", "code", 5 * NANO)
    assert (entry.balance_after_nano, entry.note) == (5 * NANO, f"code ····{code[-4:]}")
    assert balance(books) == 5 * NANO
    (view,) = list_codes(books)
    assert (view.status(1_000_000), view.redeemed_by, view.redeemed_ms) == (
        "redeemed",
        "a",
        1_000_000,
    )
    assert query(path, "SELECT entry_id, redeemed_by FROM codes") == [(entry.id, 1)]
    assert read_events(path) == [
        ("cli", "code.make", None, view.batch, "1 of 5.00"),
        ("cli", "code.redeem", "a", view.id, f"5.00: code ····{code[-4:]}"),
    ]
    assert_sound(path)


@pytest.mark.parametrize(
    "write",
    [
        lambda code: code.lower(),
        lambda code: code.replace("-", ""),
        lambda code: code.replace("-", " "),
        lambda code: f"  {code.replace('-', ' - ')}\n",
        lambda code: code.replace("-", "\N{EN DASH}"),
        lambda code: code.replace("-", "\N{NO-BREAK SPACE}").lower(),
        lambda code: "-".join(code.replace("-", "")),
    ],
)
def test_a_code_may_be_typed_as_people_do(books: Books, write: Callable[[str], str]) -> None:
    codes.redeem(books, "a", write(make_one(books)))
    assert balance(books) == 5 * NANO


def test_unknown_used_void_and_expired_codes_are_told_apart_to_nobody(
    books: Books, path: Path, clock: Clock
) -> None:
    used, void, expired = make_one(books), make_one(books), make_one(books, expires_ms=1_000_001)
    codes.redeem(books, "b", used)
    (void_id,) = [one.id for one in list_codes(books) if one.last4 == void[-4:]]
    books.codes.void(void_id)
    clock.now_ms += 1
    unknown = "2222-2222-2222-2222"
    wrong = [used, void, expired, unknown, "", "x", used + "2", used.replace("-", "0"), "é" * 16]
    before = len(read_events(path))
    told = set()
    for text in wrong:
        with pytest.raises(Refused) as refused:
            codes.redeem(books, "a", text)
        told.add((str(refused.value), refused.value.code, refused.value.field, type(refused.value)))
    assert len(told) == 1
    assert {(code, field) for _, code, field, _ in told} == {("code_invalid", "code")}
    assert (balance(books), balance(books, "b")) == (0, 5 * NANO)
    assert len(read_events(path)) == before


def test_a_code_works_until_the_millisecond_it_expires(books: Books, clock: Clock) -> None:
    code = make_one(books, expires_ms=1_000_010)
    clock.now_ms = 1_000_009
    assert codes.redeem(books, "a", code).amount_nano == 5 * NANO


def test_of_100_who_race_for_a_code_one_is_credited(books: Books, path: Path) -> None:
    """Through several connections, by as many accounts as tries: one entry, one balance."""
    names = [f"racer-{number}" for number in range(RACERS)]
    for name in names:
        accounts.add_account(books, name)
    code, spare = make_one(books), make_one(books, 7)
    barrier = Barrier(CONNECTIONS)

    def race(mine: list[str]) -> tuple[list[str], list[str]]:
        won, lost = [], []
        with SqliteBooks(path) as own:
            barrier.wait()
            for name in mine:
                try:
                    codes.redeem(own, name, code)
                except Refused as refused:
                    lost.append(refused.code)
                else:
                    won.append(name)
        return won, lost

    with ThreadPoolExecutor(CONNECTIONS) as pool:
        shares = [names[number::CONNECTIONS] for number in range(CONNECTIONS)]
        ends = list(pool.map(race, shares))
    (winner,) = [name for won, _ in ends for name in won]
    assert [code for _, lost in ends for code in lost] == ["code_invalid"] * (RACERS - 1)
    entries = query(path, "SELECT account_id, amount_nano FROM entries WHERE kind = 'code'")
    assert entries == [(books.accounts.read(winner).id, 5 * NANO)]
    assert sum(one.balance_nano for one in books.accounts.read_all()) == 5 * NANO
    codes.redeem(books, "a", spare)
    assert_sound(path)


async def test_a_serving_gateway_learns_of_a_redeemed_code(books: Books, path: Path) -> None:
    key = keys.add_key(books, "a")
    async with open_ledger(path) as ledger:
        codes.redeem(books, "a", make_one(books))
        await ledger.refresh()
        found = ledger.find_key(apikeys.digest(key.secret))
        assert found is not None
        assert found.account.balance_nano == 5 * NANO


# ---- listing and voiding -------------------------------------------------------------------------


def test_codes_are_listed_by_what_became_of_them(books: Books, clock: Clock) -> None:
    used, void, late, left = (make_one(books, expires_ms=x) for x in (None, None, 1_000_005, None))
    codes.redeem(books, "a", used)
    by_end = {one.last4: one.id for one in list_codes(books)}
    books.codes.void(by_end[void[-4:]])
    clock.now_ms = 1_000_005
    expected: dict[CodeStatus, str] = {
        "redeemed": used,
        "void": void,
        "expired": late,
        "open": left,
    }
    for status, code in expected.items():
        (one,) = list_codes(books, status)
        assert (one.id, one.status(clock.now_ms)) == (by_end[code[-4:]], status)


def test_codes_are_paged_the_newest_first(books: Books, clock: Clock) -> None:
    batches = []
    for _ in range(3):
        batches.append(codes.make_codes(books, 1, 4).batch)
        clock.now_ms += 1
    everything = list_codes(books)
    assert [one.batch for one in everything] == [
        batch for batch in reversed(batches) for _ in range(4)
    ]
    paged: list[str] = []
    while True:
        total, found = books.codes.read_page(None, None, paged[-1] if paged else None, 5)
        assert total == 12
        paged += [one.id for one in found]
        if len(found) < 5:
            break
    assert paged == [one.id for one in everything]
    total, found = books.codes.read_page("open", batches[1], None, None)
    assert (total, {one.batch for one in found}) == (4, {batches[1]})


def test_a_code_is_voided_once_and_never_after_it_was_redeemed(
    books: Books, path: Path, clock: Clock
) -> None:
    make_one(books)
    (code,) = list_codes(books)
    assert books.codes.void(code.id).voided_ms == 1_000_000
    clock.now_ms += 5
    assert books.codes.void(code.id).voided_ms == 1_000_000
    assert [event[1] for event in read_events(path)] == ["code.make", "code.void"]
    used = make_one(books)
    codes.redeem(books, "b", used)
    (redeemed,) = list_codes(books, "redeemed")
    with pytest.raises(Conflict, match="redeemed by 'b'") as conflict:
        books.codes.void(redeemed.id)
    assert conflict.value.code == "code_redeemed"
    with pytest.raises(NotFound):
        books.codes.void("code_x")


def test_of_a_batch_the_open_ones_are_voided(books: Books) -> None:
    made, other = codes.make_codes(books, 1, 5), codes.make_codes(books, 1, 2)
    codes.redeem(books, "a", made.codes[0])
    assert books.codes.void_batch(made.batch) == 4
    assert books.codes.void_batch(made.batch) == 0
    assert {one.batch for one in list_codes(books, "open")} == {other.batch}
    with pytest.raises(NotFound):
        books.codes.void_batch("batch_x")

"""One-time codes: the vectors of RFC 6238, each code once, and the way in without the app."""

from __future__ import annotations

import base64
import threading
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from gateway.admin import signin
from gateway.ledger.opening import open_books
from gateway.ledger.records import Conflict, NotFound
from gateway.ledger.sql.books.books import Books
from tests.admin.visits import NAME, OPERATOR, Clock, read, read_events
from tests.support.rows import each_row

STEP_MS = 30_000
RFC_SECRET = b"12345678901234567890"


def set_up(books: Books, name: str = OPERATOR) -> tuple[bytes, tuple[str, ...]]:
    """Return the key of the app and the recovery codes; the present code is used up."""
    account = books.accounts.read(name)
    key = base64.b32decode(signin.begin(books, account, "llm.example.com").secret)
    codes = signin.finish(books, account, show(books, key))
    assert codes is not None
    return key, codes


def show(books: Books, key: bytes, steps: int = 0) -> str:
    """Return what the app shows, so many steps from now."""
    return signin.compute_code(key, books.clock() // STEP_MS + steps)


def check(books: Books, code: str | None, name: str = OPERATOR) -> str:
    return signin.check(books, books.accounts.read(name), code)


@each_row(
    ("seconds", "code"),
    [
        (59, "287082"),
        (1_111_111_109, "081804"),
        (1_111_111_111, "050471"),
        (1_234_567_890, "005924"),
        (2_000_000_000, "279037"),
        (20_000_000_000, "353130"),
    ],
)
def test_the_codes_are_those_of_rfc_6238(seconds: int, code: str) -> None:
    """Appendix B has eight digits; the last six are those of six."""
    assert signin.compute_code(RFC_SECRET, seconds // 30) == code


def test_an_app_gets_the_key_as_text_and_as_a_link(books: Books) -> None:
    books.accounts.create("ann & co@x.com", credit_nano=0, operator=False)
    made = signin.begin(books, books.accounts.read("ann & co@x.com"), "llm.example.com")
    assert len(base64.b32decode(made.secret)) == 20
    url = urlsplit(made.url)
    assert (url.scheme, url.netloc) == ("otpauth", "totp")
    assert unquote(url.path) == "/llm.example.com:ann & co@x.com"
    assert parse_qs(url.query) == {"secret": [made.secret], "issuer": ["llm.example.com"]}
    assert made.secret not in repr(made)


def test_nothing_is_asked_for_until_a_code_was_shown(books: Books, path: Path) -> None:
    account = books.accounts.read(OPERATOR)
    first = base64.b32decode(signin.begin(books, account, "x").secret)
    key = base64.b32decode(signin.begin(books, account, "x").secret)
    assert check(books, None) == "right"
    for wrong in (show(books, first), show(books, key, 2), "", "x", "٣" * 6, "é" * 6, "\udc80"):
        assert signin.finish(books, account, wrong) is None
    codes = signin.finish(books, account, f" {show(books, key)} ")
    assert codes is not None
    assert len(set(codes)) == 10
    assert check(books, None) == check(books, " ") == "missing"
    assert check(books, None, NAME) == "right", "of another account none is asked"
    with pytest.raises(Conflict):
        signin.begin(books, account, "x")
    with pytest.raises(Conflict):
        signin.finish(books, account, show(books, key, 1))
    assert read_events(path) == [("cli", "account.totp", OPERATOR, "set up")]


def test_a_code_works_once_and_a_step_before_and_after(books: Books, clock: Clock) -> None:
    key, _ = set_up(books)
    assert check(books, show(books, key)) == "wrong", "it finished the set-up"
    assert check(books, show(books, key, 1)) == "right", "the app's clock is fast"
    assert [check(books, show(books, key, steps)) for steps in (-1, 0, 1, 2)] == ["wrong"] * 4
    clock.now_ms += 3 * STEP_MS
    late = show(books, key, -1)
    assert check(books, f"{late[:3]} {late[3:]}") == "right", "the app's clock is slow"
    assert check(books, late) == "wrong"
    assert check(books, show(books, key)) == "right"
    clock.now_ms += STEP_MS
    assert check(books, show(books, key, -2)) == "wrong"


def test_one_of_many_that_race_with_a_code_gets_in(books: Books, path: Path, clock: Clock) -> None:
    key, recovery = set_up(books)
    clock.now_ms += STEP_MS
    for code in (show(books, key), recovery[0]):
        gate, answers = threading.Barrier(4), list[str]()

        def race(code: str = code, gate: threading.Barrier = gate) -> None:
            with open_books(path, clock=clock) as own:
                gate.wait(10)
                answers.append(check(own, code))  # noqa: B023 - of this round

        racers = [threading.Thread(target=race) for _ in range(4)]
        for racer in racers:
            racer.start()
        for racer in racers:
            racer.join()
        assert sorted(answers) == ["right", "wrong", "wrong", "wrong"]


def test_a_recovery_code_works_once_however_it_is_typed(books: Books, path: Path) -> None:
    _, recovery = set_up(books)
    _, others = set_up(books, NAME)
    assert check(books, recovery[3].lower().replace("-", " ")) == "right"
    assert check(books, recovery[3]) == "wrong"
    assert check(books, others[0]) == "wrong", "another account's"
    found = books.totp.read(books.accounts.read(OPERATOR).id)
    assert found is not None
    assert found.recovery_codes == 9
    assert read_events(path)[-1] == ("cli", "account.recovery_code", OPERATOR, "")
    stored = b"".join(one.read_bytes() for one in path.parent.iterdir())
    assert all(code.replace("-", "").encode() not in stored for code in recovery)
    assert all(code.encode() not in stored for code in recovery)


def test_a_removal_asks_no_more_and_voids_recovery_codes(books: Books, path: Path) -> None:
    _, recovery = set_up(books)
    books.totp.remove(OPERATOR)
    assert check(books, None) == "right"
    for name in (OPERATOR, "nobody"):
        with pytest.raises(NotFound):
            books.totp.remove(name)
    set_up(books)
    assert check(books, recovery[0]) == "wrong"
    assert [detail for _, _, _, detail in read_events(path)] == ["set up", "removed", "set up"]
    assert len(read(path, "SELECT * FROM recovery_codes")) == 10

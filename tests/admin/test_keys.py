"""The verbs of accounts, budgets, keys, tokens and top-up codes: what they refuse, and what is kept."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from gateway import ids
from gateway.admin import keys
from gateway.ledger.key_records import Allowance, KeyTerms, Terms
from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.signin_records import TokenTerms
from gateway.ledger.sql.books import Books
from gateway.money import MAX_AMOUNT_NANO, NANO
from tests.admin.visits import NAME, Clock, read
from tests.ledger.kit import assert_sound
from tests.support.rows import each_row

NOW_MS: Final = Clock().now_ms
A_DAY: Final = Allowance(NANO, "day")
CODE: Final = re.compile(r"[2-9A-HJ-NP-Z]{4}(-[2-9A-HJ-NP-Z]{4}){3}")
Verb = Callable[[Books], object]


def add_key(terms: KeyTerms) -> Verb:
    return lambda books: keys.add_key(books, NAME, terms)


def make_codes(**changed: object) -> Verb:
    batch: dict[str, object] = {"amount_nano": 1, "count": 1, **changed}
    return lambda books: keys.make_codes(books, **batch)  # type: ignore[arg-type] # of a table


def read_kept(path: Path) -> bytes:
    """Return all that the files of the ledger have."""
    return b"".join(one.read_bytes() for one in path.parent.iterdir())


# ---- what is refused, and the field that is wrong -------------------------------------------------

BAD_NAMES: Final = (
    *("", "x" * 101, "a\nb", "a\x00b", "\x1b[2J", "\u202eabc", "\u200b", " a", "a ", "\ud800"),
)
NAMED: Final[dict[str, Callable[[str], Verb]]] = {
    "account": lambda name: lambda books: books.accounts.create(name),
    "key": lambda name: add_key(KeyTerms(name=name or " ")),
    "token": lambda name: lambda books: keys.add_token(books, TokenTerms(name, "read")),
    "budget": lambda name: lambda books: books.budgets.create(NAME, name, A_DAY),
}


@each_row("kind", NAMED)
@each_row("name", BAD_NAMES)
def test_names_that_could_deceive_are_refused(books: Books, kind: str, name: str) -> None:
    with pytest.raises(Refused) as refused:
        NAMED[kind](name)(books)
    assert refused.value.field == "name"


@each_row("name", ["12", "10/day", "none", "-"])
def test_a_budget_is_not_named_like_an_id_or_an_amount(books: Books, name: str) -> None:
    with pytest.raises(Refused, match="must have a letter"):
        books.budgets.create(NAME, name, A_DAY)
    with pytest.raises(Refused, match="must have a letter"):
        books.budgets.edit(1, {"name": name})


def test_no_account_is_called_like_a_token(books: Books) -> None:
    """Events name who acted, and nobody may pass for a token there."""
    with pytest.raises(Refused, match="must not begin with 'token '"):
        books.accounts.create("token shop")
    books.accounts.create("tokens")


@each_row("name", ["x" * 100, "a'; DROP TABLE accounts; --", "100 %", "日本"])
def test_names_are_only_data(books: Books, name: str) -> None:
    assert books.accounts.create(name).name == name
    assert books.entries.credit(name, 7, note=name, idempotency_key=name).note == name
    assert keys.add_key(books, name, KeyTerms(name=name)).key.terms.name == name


REFUSED: Final[tuple[tuple[Verb, str | None, str], ...]] = (
    (lambda books: books.entries.credit(NAME, 0), "amount", "above 0"),
    (lambda books: books.entries.credit(NAME, -1), "amount", "above 0"),
    (lambda books: books.entries.credit(NAME, 1, note="a\nb"), "note", "printable"),
    (lambda books: books.entries.credit(NAME, 1, idempotency_key=""), None, "idempotency key"),
    (lambda books: books.accounts.create("b", credit_nano=-1), "credit", "above 0"),
    (lambda books: books.accounts.create("b", credit_nano=1, note=" n"), "note", "space"),
    (lambda books: books.entries.correct(NAME, 5, note=""), "note", "the note of a correction"),
    (lambda books: books.entries.correct(NAME, 0, note="n"), "amount", "corrects nothing"),
    (
        lambda books: books.entries.correct(NAME, 5, note="n", idempotency_key=""),
        None,
        "idempotency key",
    ),
    (lambda books: books.accounts.suspend(NAME, reason="a\n"), "reason", "printable"),
    (lambda books: books.accounts.edit(NAME, {}), None, "nothing to change"),
    (lambda books: books.accounts.edit(NAME, {"models": ()}), "models", "at least one"),
    (lambda books: books.accounts.edit(NAME, {"concurrency": -1}), None, "a limit must"),
    (lambda books: books.accounts.create("b", terms=Terms(())), "models", "at least one"),
    (lambda books: books.budgets.create(NAME, "t", Allowance(0, "day")), "amount", "above 0"),
    (lambda books: keys.add_key(books, NAME, own=Allowance(0, "day")), "budget_amount", "above 0"),
    (lambda books: books.keys.edit("k", {}, own=Allowance(-1, "day")), "budget_amount", "abo"),
    (lambda books: books.keys.edit("k", {}), None, "nothing to change"),
    (lambda books: keys.rotate_key(books, "k", grace_seconds=-1), "grace_seconds", "grace"),
    (add_key(KeyTerms(models=("a\n",))), "models", "printable"),
    (add_key(KeyTerms(models=tuple(f"{n:0200}" for n in range(21)))), "models", "4096 bytes"),
    (add_key(KeyTerms(models=tuple(f"{n:03}{'é' * 197}" for n in range(11)))), "models", "bytes"),
    (add_key(KeyTerms(requests_per_minute=-1)), None, "a limit must"),
    (add_key(KeyTerms(tokens_per_minute=10**9 + 1)), None, "a limit must"),
    (add_key(KeyTerms(cap_nano=0)), "cap", "above 0"),
    (add_key(KeyTerms(expires_ms=NOW_MS)), "expires", "in the future"),
    (lambda books: keys.add_token(books, TokenTerms("x", "read", 1)), "expires", "in the future"),
    (make_codes(amount_nano=0), "amount", "worth something"),
    (make_codes(count=0), "count", "1 to 1000"),
    (make_codes(expires_ms=NOW_MS), "expires", "in the future"),
    (make_codes(note="a\nb"), "note", "printable"),
)


@each_row(("verb", "field", "text"), REFUSED)
def test_what_makes_no_sense_is_refused(
    books: Books, verb: Verb, field: str | None, text: str
) -> None:
    before = books.events.count(None)
    with pytest.raises(Refused, match=text) as refused:
        verb(books)
    assert refused.value.field == field
    assert books.events.count(None) == before


def test_an_edit_of_a_budget_is_checked(books: Books) -> None:
    team = books.budgets.create(NAME, "team", A_DAY)
    with pytest.raises(Refused, match="nothing to change"):
        books.budgets.edit(team.id, {})
    with pytest.raises(Refused, match="above 0"):
        books.budgets.edit(team.id, {"allowance": Allowance(0, "day")})


def rotate(books: Books, seconds: int) -> object:
    return keys.rotate_key(books, keys.add_key(books, NAME).key.id, grace_seconds=seconds)


MOST: Final[dict[str, tuple[int, Callable[[Books, int], object]]]] = {
    "characters of an account's name": (100, lambda books, n: NAMED["account"]("n" * n)(books)),
    "characters of a key's name": (100, lambda books, n: NAMED["key"]("n" * n)(books)),
    "characters of a note": (500, lambda books, n: books.entries.credit(NAME, 1, note="n" * n)),
    "characters of an idempotency key": (
        200,
        lambda books, n: books.entries.credit(NAME, 1, idempotency_key="n" * n),
    ),
    "characters of a model's id": (200, lambda books, n: add_key(KeyTerms(("m" * n,)))(books)),
    "models of a key": (100, lambda books, n: add_key(KeyTerms(tuple(map(str, range(n)))))(books)),
    "requests per minute": (10**9, lambda books, n: add_key(KeyTerms(None, n))(books)),
    "the last moment of the year 9999": (
        253_402_300_799_999,
        lambda books, ms: add_key(KeyTerms(expires_ms=ms))(books),
    ),
    "a cap": (MAX_AMOUNT_NANO, lambda books, nano: add_key(KeyTerms(cap_nano=nano))(books)),
    "a credit": (MAX_AMOUNT_NANO, lambda books, nano: books.entries.credit(NAME, nano)),
    "a correction down": (
        MAX_AMOUNT_NANO,
        lambda books, nano: books.entries.correct(NAME, -nano, note="n"),
    ),
    "a budget": (
        MAX_AMOUNT_NANO,
        lambda books, nano: books.budgets.create(NAME, f"b{nano}", Allowance(nano, "day")),
    ),
    "seconds of grace": (7 * 24 * 3600, rotate),
    "codes of a batch": (1000, lambda books, n: make_codes(count=n)(books)),
    "the value of a code": (MAX_AMOUNT_NANO, lambda books, n: make_codes(amount_nano=n)(books)),
}


@each_row(("most", "verb"), MOST.values())
def test_the_limit_is_accepted_and_one_more_refused(
    books: Books, most: int, verb: Callable[[Books, int], object]
) -> None:
    verb(books, most)
    with pytest.raises(Refused):
        verb(books, most + 1)


# ---- what is kept --------------------------------------------------------------------------------


def test_an_account_s_models_are_named_once(books: Books) -> None:
    made = books.accounts.create("a", terms=Terms(("m", "n", "m"), 1))
    assert made.terms == Terms(("m", "n"), 1)
    edited = books.accounts.edit("a", {"models": ("n", "n")}, operator=True)
    assert (edited.terms, edited.operator) == (Terms(("n",), 1), True)


def test_a_key_is_shown_once_and_kept_as_a_digest(books: Books, path: Path) -> None:
    terms = KeyTerms(("m1", "m/2", "m1"), 0, 100, 3, "laptop", 10, 2**47)
    new = keys.add_key(books, NAME, terms)
    assert ids.is_well_formed(new.secret)
    assert new.secret not in repr(new)
    assert new.key.display == f"sk-ru-…{new.secret[-4:]}"
    assert new.key.id.startswith("key_")
    assert new.key.terms == replace(terms, models=("m1", "m/2"))
    assert (new.key.account, new.key.spent_nano, new.key.revoked_ms) == (NAME, 0, None)
    assert books.keys.read_all() == [new.key]
    assert read(path, "SELECT digest FROM keys") == [(ids.digest(new.secret),)]
    assert new.secret[6:-4].encode() not in read_kept(path)


def test_a_rotation_keeps_the_terms_and_ends_the_old_key(books: Books, path: Path) -> None:
    old = keys.add_key(books, NAME, KeyTerms(("m",), concurrency=2, name="n", cap_nano=100)).key
    read(path, "UPDATE keys SET spent_nano = 30")
    new = keys.rotate_key(books, old.id, grace_seconds=60)
    by_id = {key.id: key for key in books.keys.read_all(NAME)}
    assert new.key.terms == old.terms
    assert new.key.spent_nano == by_id[old.id].spent_nano == 30, "they share the cap"
    assert by_id[old.id].terms.expires_ms == NOW_MS + 60_000
    with pytest.raises(Conflict, match=f"replaced by {new.key.id}"):
        keys.rotate_key(books, old.id)


def test_an_edit_changes_what_is_named_alone(books: Books) -> None:
    old = keys.add_key(books, NAME, KeyTerms(("m",), concurrency=2, name="n", cap_nano=100)).key
    edited = books.keys.edit(old.id, {"cap_nano": None, "models": ("a", "b", "a")})
    assert edited.terms == KeyTerms(("a", "b"), concurrency=2, name="n")


def test_a_budget_is_found_by_id_and_by_name(books: Books) -> None:
    mine = books.budgets.create(NAME, "team", A_DAY)
    assert books.budgets.find("team") == books.budgets.find("1") == mine
    theirs = books.budgets.create("root", "team", A_DAY)
    with pytest.raises(Refused, match=rf"give its id: {mine.id} of 'alice', {theirs.id} of 'root'"):
        books.budgets.find("team")
    assert books.budgets.find("team", "root") == theirs
    with pytest.raises(NotFound):
        books.budgets.find(str(mine.id), "root")


def test_a_token_is_kept_as_its_hash(books: Books, path: Path) -> None:
    made = keys.add_token(books, TokenTerms("shop", "accounts"))
    assert re.fullmatch(r"gwt_[\w-]{43}", made.secret)
    assert made.token.display == f"gwt_…{made.secret[-4:]}"
    assert made.secret not in repr(made)
    assert made.secret.encode() not in read_kept(path)
    found = keys.find_token(books, made.secret)
    assert found is not None
    assert found.id == made.token.id


@each_row("secret", ["", "gwt_", f"gwt_{'A' * 43}", f"gws_{'A' * 43}", "\udc80", "'--"])
def test_what_is_no_token_is_none(books: Books, secret: str) -> None:
    assert keys.find_token(books, secret) is None


# ---- top-up codes --------------------------------------------------------------------------------


def make_one(books: Books, expires_ms: int | None = None) -> str:
    (code,) = keys.make_codes(books, 5 * NANO, 1, expires_ms=expires_ms).codes
    return code


def test_a_code_has_80_bits_in_symbols_that_cannot_be_misread(books: Books) -> None:
    assert len(set(keys.ALPHABET)) == 32
    assert not set("0O1I") & set(keys.ALPHABET)
    made = keys.make_codes(books, 1, 1000).codes
    assert len(set(made)) == 1000
    assert all(CODE.fullmatch(code) for code in made)
    assert set("".join(made)) == {*keys.ALPHABET, "-"}, "every symbol is drawn"


def test_nothing_is_kept_of_a_code_but_its_digest_and_its_end(books: Books, path: Path) -> None:
    made = keys.make_codes(books, 5 * NANO, 3, expires_ms=NOW_MS + 1, note="spring")
    rows = read(path, "SELECT digest, last4, created_by, created_ms, note FROM codes ORDER BY id")
    assert rows == [
        (keys.digest_code(code), code[-4:], "cli", NOW_MS, "spring") for code in made.codes
    ]
    kept = read_kept(path)
    for code in made.codes:
        assert code.encode() not in kept
        assert code.replace("-", "").encode() not in kept
        assert code not in repr(made)


def test_a_code_credits_its_amount_as_an_entry_of_its_own_kind(books: Books, path: Path) -> None:
    made = keys.make_codes(books, 5 * NANO, 1)
    (code,) = made.codes
    entry = keys.redeem(books, NAME, code)
    assert (entry.account, entry.kind, entry.amount_nano) == (NAME, "code", 5 * NANO)
    assert (entry.balance_after_nano, entry.note) == (5 * NANO, f"code ····{code[-4:]}")
    ((code_id, *redeemed),) = read(path, "SELECT id, entry_id, redeemed_by FROM codes")
    assert redeemed == [entry.id, 1]
    assert read(path, "SELECT actor, action, account, target, detail FROM events")[2:] == [
        ("cli", "code.make", None, made.batch, "1 of 5.00"),
        ("cli", "code.redeem", NAME, code_id, f"5.00: code ····{code[-4:]}"),
    ]
    assert_sound(path)


@each_row(
    "write",
    [
        lambda code: code.lower(),
        lambda code: code.replace("-", ""),
        lambda code: f"  {code.replace('-', ' - ')}\n",
        lambda code: code.replace("-", "\N{EN DASH}"),
        lambda code: code.replace("-", "\N{NO-BREAK SPACE}").lower(),
        lambda code: "-".join(code.replace("-", "")),
    ],
)
def test_a_code_may_be_typed_as_people_do(books: Books, write: Callable[[str], str]) -> None:
    assert keys.redeem(books, NAME, write(make_one(books))).amount_nano == 5 * NANO


def test_unknown_used_void_and_expired_codes_are_told_apart_to_nobody(
    books: Books, clock: Clock
) -> None:
    used, void, expired = make_one(books), make_one(books), make_one(books, NOW_MS + 1)
    keys.redeem(books, "root", used)
    _, found = books.codes.read_page("open", None, None, None)
    books.codes.void(next(one.id for one in found if one.last4 == void[-4:]))
    clock.now_ms += 1
    unknown = "2222-2222-2222-2222"
    before, told = books.events.count(None), set()
    for text in (used, void, expired, unknown, "", "x", used + "2", used.replace("-", "0")):
        with pytest.raises(Refused) as refused:
            keys.redeem(books, NAME, text)
        told.add((str(refused.value), refused.value.code, refused.value.field, type(refused.value)))
    ((_, *parts, _),) = told
    assert parts == ["code_invalid", "code"]
    assert [one.balance_nano for one in books.accounts.read_all()] == [0, 5 * NANO]
    assert books.events.count(None) == before


def test_a_code_works_until_the_millisecond_it_expires(books: Books, clock: Clock) -> None:
    code = make_one(books, NOW_MS + 10)
    clock.now_ms += 9
    assert keys.redeem(books, NAME, code).amount_nano == 5 * NANO

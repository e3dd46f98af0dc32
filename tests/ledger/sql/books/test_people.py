"""People with a sign-in of their own in an account: nothing of one is another's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.ledger.records import Conflict, NotFound, Refused
from gateway.ledger.signin_records import Opening, SessionView, SignIn, SignInView, StoredPassword
from gateway.ledger.sql import signins
from gateway.ledger.sql.people import MAX_PEOPLE
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.sql.books.conftest import Clock
from tests.ledger.sql.books.places import AnyBooks

KEY = b"k" * 20


def opening(name: str) -> Opening:
    return Opening(name, name.encode().ljust(32), "Firefox on Linux", "192.0.2.7")


def sign_in(books: AnyBooks, session: str, person: str = "dana") -> SessionView:
    stored = StoredPassword(books.people.read("a", person), f"{person}'s hash")
    made = books.signins.open_by_password(stored, None, opening(session))
    assert made is not None
    return made


@pytest.fixture
def dana(books: AnyBooks) -> SignIn:
    """Dana's sign-in, beside the account's own, each with a password and one-time codes."""
    for person in ("", "dana"):
        books.signins.set_password("a", f"{person}'s hash", person)
        own = books.people.read("a", person)
        books.totp.propose(own, KEY)
        books.totp.confirm(own, KEY, 7, [f"{person}'s code".encode().ljust(32)])
    return books.people.read("a", "dana")


def test_a_name_finds_its_own_password(books: AnyBooks, dana: SignIn) -> None:
    assert books.people.find_password("a/dana") == StoredPassword(dana, "dana's hash")
    own = books.people.find_password("a")
    assert own is not None
    assert (own.signin.person, own.hash) == ("", "'s hash")
    for name in ("dana", "a/", "a/erin", "a/dana/", "/dana", "b/dana"):
        assert books.people.find_password(name) is None
    own = replace(own, hash="dana's hash")
    assert books.signins.open_by_password(own, None, opening("s")) is None


@pytest.mark.usefixtures("dana")
def test_a_link_sets_the_password_of_its_person_alone(books: AnyBooks) -> None:
    """A person is there once a link was made, and stays once there is a password."""
    books.signins.set_link("a", b"l" * 32, NOW_MS + 9)
    books.signins.set_link("a", b"m" * 32, NOW_MS + 9, "erin", is_new=True)
    session = books.signins.open_by_link(b"m" * 32, opening("s"))
    assert session is not None
    assert (session.signin.name, session.account.name) == ("a/erin", "a")
    changed = books.signins.change_password(session, None, "erin's hash", opening("t"))
    assert changed.person == "erin"
    stored = [books.people.find_password(one) for one in ("a", "a/dana", "a/erin")]
    assert [one and one.hash for one in stored] == ["'s hash", "dana's hash", "erin's hash"]
    own = books.signins.open_by_link(b"l" * 32, opening("u"))
    assert own is not None
    assert own.person == ""


@pytest.mark.usefixtures("dana")
def test_sessions_are_a_persons_own(books: AnyBooks, monkeypatch: pytest.MonkeyPatch) -> None:
    mine, hers = sign_in(books, "mine", ""), sign_in(books, "hers")
    with pytest.raises(NotFound):
        books.signins.end_session(mine.signin, "hers")
    assert books.signins.end_other_sessions(mine) == 0
    monkeypatch.setattr(signins, "MAX_SESSIONS", 3)
    for number in range(3):
        sign_in(books, f"more {number}")
    assert books.signins.find_session(b"mine".ljust(32)) == mine, "others crowd out none of mine"
    assert len(books.signins.read_own_sessions(hers.signin)) == 3
    assert books.signins.set_password("a", "new", "dana") == 3
    assert books.signins.read_sessions(1) == [mine]
    books.signins.change_password(mine, "'s hash", "new", opening("other"))
    assert books.signins.end_all_sessions("a") == 1


@pytest.mark.usefixtures("dana")
@pytest.mark.parametrize("person", ["", "dana"])
def test_codes_are_a_persons_own(books: AnyBooks, person: str) -> None:
    """Each is used once, by whom it was made for."""
    own, other = books.people.read("a", person), books.people.read("a", "" if person else "dana")
    digest = f"{person}'s code".encode().ljust(32)
    assert not books.totp.use_recovery_code(other, digest)
    assert [books.totp.use_recovery_code(own, digest) for _ in range(2)] == [True, False]
    assert [books.totp.use_step(own, 8) for _ in range(2)] == [True, False]
    views = books.totp.read(own), books.totp.read(other)
    assert [one and (one.last_step, one.recovery_codes) for one in views] == [(8, 0), (7, 1)]
    books.totp.remove(own)
    assert books.totp.read(other) is not None


def test_a_removal_leaves_nothing_of_a_person(books: AnyBooks, dana: SignIn) -> None:
    """Whoever gets the name next begins anew."""
    mine, _ = sign_in(books, "mine", ""), sign_in(books, "hers")
    books.signins.set_link("a", b"l" * 32, NOW_MS + 9, "dana")
    stored = StoredPassword(dana, "dana's hash")
    assert books.people.remove("a", "dana") == 1
    assert books.people.find_password("a/dana") is None
    assert books.signins.find_session(b"hers".ljust(32)) is None
    assert books.signins.open_by_link(b"l" * 32, opening("s")) is None
    assert books.signins.open_by_password(stored, None, opening("s")) is None
    assert not books.totp.use_recovery_code(dana, b"dana's code".ljust(32))
    assert books.signins.find_session(b"mine".ljust(32)) == mine
    with pytest.raises(NotFound):
        books.people.remove("a", "dana")
    with pytest.raises(Refused):
        books.people.remove("a", "")
    with pytest.raises(Conflict, match="set one first"):
        books.totp.propose(dana, KEY)
    books.signins.set_password("a", "dana's hash", "dana")
    assert books.totp.read(dana) is None
    noted = [
        (one.account, one.target, one.detail) for one in books.events.read_page("remove", None, 9)
    ]
    assert noted == [("a", "dana", "ended 1 session")]


def test_all_are_listed(books: AnyBooks, dana: SignIn, clock: Clock) -> None:
    clock.now_ms += 5
    sign_in(books, "hers")
    books.signins.set_link("a", b"l" * 32, NOW_MS + 9, "Erin")
    assert books.people.read_all("a") == [
        SignInView(SignIn(1, "a"), NOW_MS, None, NOW_MS, 0, None),
        SignInView(SignIn(1, "a", "Erin"), None, None, None, 0, NOW_MS + 9),
        SignInView(dana, NOW_MS, NOW_MS + 5, NOW_MS, 1, None),
    ]
    clock.now_ms += 9
    assert [one.signin.person for one in books.people.read_all("a")] == ["", "dana"]
    with pytest.raises(NotFound):
        books.people.read("a", "Erin")


@pytest.mark.parametrize("name", ["x/y", "/", " x", "x\n", "y" * 101])
def test_a_persons_name_is_plain_text_without_the_mark(books: AnyBooks, name: str) -> None:
    with pytest.raises(Refused):
        books.signins.set_link("a", b"l" * 32, NOW_MS + 9, name)


@pytest.mark.usefixtures("dana")
def test_one_name_is_one_sign_in(books: AnyBooks) -> None:
    """Else an event would not say who acted."""
    with pytest.raises(Conflict) as refused:
        books.accounts.create("a/dana")
    assert (refused.value.code, refused.value.field) == ("name_taken", "name")
    for name in ("a/erin", "a/"):
        books.accounts.create(name)
    with pytest.raises(Conflict):
        books.signins.set_link("a", b"l" * 32, NOW_MS + 9, "erin")
    books.signins.set_password("a/erin", "the account's hash")
    found = books.people.find_password("a/erin")
    assert found is not None
    assert found.signin.account == "a/erin"
    with pytest.raises(Conflict):
        books.signins.set_link("a", b"l" * 32, NOW_MS + 9, "dana", is_new=True)


def test_an_account_has_so_many_people(books: AnyBooks, clock: Clock) -> None:
    def invite(person: str) -> None:
        books.signins.set_link("a", person.encode().ljust(32), clock() + 9, person)

    for number in range(MAX_PEOPLE):
        invite(f"p{number}")
    invite("p0")
    with pytest.raises(Refused, match="50 people already"):
        invite("more")
    clock.now_ms += 9
    invite("more")
    assert books.read_number("SELECT count(*) FROM signin_links", ()) == 1, "the others are swept"


@pytest.mark.usefixtures("dana")
def test_events_name_the_person(books: AnyBooks) -> None:
    sign_in(books, "hers")
    for name in ("a/dana", "a/typo", "a"):
        books.signins.note_failure(name, "password")
    found = [
        (one.actor, one.action, one.account, one.target)
        for one in books.events.read_page(None, None, 4)
    ]
    assert found == [
        ("a/dana", "session.fail", "a", None),
        ("a/dana", "session.fail", None, None),
        ("a/dana", "session.fail", "a", "dana"),
        ("a/dana", "session.open", "a", "hers"),
    ]

"""People in an account over HTTP: let in, told apart, removed."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Final

from gateway.admin.signin import FRESH_MS
from gateway.console.throttle import name_cookie
from tests.console.kit import API, HOLDER, OPERATOR, Console, Reply, execute
from tests.console.session import PASSWORD, SESSION, is_in, open_with_passwords, sign_in, use

console = open_with_passwords

SIGNINS: Final = f"{API}/settings/signins"
DANA: Final = f"{HOLDER}/dana"
NEW: Final = "another horse battery"
Headers = dict[str, str]


async def use_link(console: Console, made: Reply) -> Headers:
    token = made.json["url"].partition("#token=")[2]
    return use(await console.post(f"{SESSION}/link", {"token": token}, as_=None))


async def let_in(console: Console, person: str = "dana") -> Headers:
    """Let somebody in, who sets a password; return the headers of the session."""
    opened = await use_link(console, await console.post(SIGNINS, {"person": person}))
    body = {"new_password": NEW}
    return use(await console.post(f"{API}/settings/password", body, as_=None, headers=opened))


async def add_budget(console: Console, headers: Headers, name: str) -> int:
    """Add a budget, always with the same Idempotency-Key."""
    body = {"name": name, "amount": "1", "period": "day"}
    return (await console.post(f"{API}/budgets", body, as_=None, headers=headers, key="1")).status


async def test_a_person_has_a_sign_in_of_their_own(console: Console) -> None:
    """A password, sessions and events, and the account's keys and balance."""
    hers = await let_in(console)
    shown = (await console.get(SESSION, as_=None, headers=hers)).json
    assert (shown["name"], shown["person"], shown["has_password"]) == (DANA, "dana", True)
    assert shown["account"]["name"] == HOLDER
    wrong = [(DANA, PASSWORD), (HOLDER, NEW), ("dana", NEW), (f"{HOLDER}/", PASSWORD)]
    found = [await sign_in(console, name, password) for name, password in wrong]
    assert {one.refusal for one in found} == {(401, "wrong_credentials", None)}
    mine, hers = use(await sign_in(console)), use(await sign_in(console, DANA, NEW))
    added = [(mine, "one"), (hers, "two"), (hers, "three")]
    assert [await add_budget(console, *one) for one in added] == [201, 201, 409]
    events = "SELECT actor, account FROM events WHERE action = 'budget.add'"
    assert execute(console, events) == [(HOLDER, HOLDER), (DANA, HOLDER)]


async def test_sessions_and_passwords_are_apart(console: Console) -> None:
    hers, mine = await let_in(console), await sign_in(console)
    listed = (await console.get(f"{API}/sessions", as_=None, headers=hers)).json["sessions"]
    assert [one["current"] for one in listed] == [True]
    path = f"{API}/sessions/{mine.json['session']['id']}"
    assert (await console.delete(path, as_=None, headers=hers)).status == 404
    others = await console.delete(f"{API}/sessions", as_=None, headers=hers)
    assert others.json == {"revoked": 0}
    body = {"current_password": PASSWORD, "new_password": f"{NEW}!"}
    path = f"{API}/settings/password"
    refused = await console.post(path, body, as_=None, headers=hers)
    assert refused.refusal == (403, "wrong_password", "current_password")
    assert (await console.post(path, body, as_=None, headers=use(mine))).status == 204
    assert (await console.get(SESSION, as_=None, headers=hers)).status == 200
    assert (await sign_in(console, DANA, NEW)).status == 200


async def test_codes_are_apart(console: Console) -> None:
    hers, path = await let_in(console), f"{API}/settings/totp"
    made = await console.post(path, as_=None, headers=hers)
    assert f":{HOLDER}%2Fdana?" in made.json["url"]
    execute(console, "UPDATE totp SET confirmed_ms = 1")
    assert (await sign_in(console, DANA, NEW)).refusal == (403, "code_needed", "code")
    assert (await sign_in(console)).status == 200
    shown = [await console.get(path), await console.get(path, as_=None, headers=hers)]
    assert [one.json["enabled"] for one in shown] == [False, True]


async def test_guesses_at_one_name_are_not_anothers(console: Console) -> None:
    """Nor are browsers that one has signed in with, nor tries at the current password."""
    hers = await let_in(console)
    while (await sign_in(console, DANA, "a wrong password")).status == 401:
        pass
    assert (await sign_in(console, DANA, NEW)).refusal == (429, "too_many_tries", None)
    assert (await sign_in(console)).status == 200
    noted = "SELECT DISTINCT account, target FROM events WHERE action = 'session.fail'"
    assert execute(console, noted) == [(HOLDER, "dana")]
    path, body = f"{API}/settings/password", {"current_password": NEW, "new_password": f"{NEW}!"}
    changed = await console.post(path, body, as_=None, headers=hers)
    signed_in = await sign_in(console, DANA, f"{NEW}!")
    assert signed_in.status == 200, "who sets the password is not kept out by guesses before"
    for reply in (changed, signed_in):
        (device,) = SimpleCookie(reply.headers.getall("Set-Cookie")[1])
        assert device == name_cookie(DANA)
    wrong, mine = {**body, "current_password": "no"}, use(await sign_in(console))
    while (await console.post(path, wrong, as_=None, headers=use(signed_in))).status == 403:
        pass
    refused = await console.post(path, wrong, as_=None, headers=mine)
    assert refused.refusal == (403, "wrong_password", "current_password")


async def test_a_removal_ends_all_at_once(console: Console) -> None:
    """Sessions of the person who is removed end; the others stay."""
    hers, mine = await let_in(console), await sign_in(console)
    link = await console.post(SIGNINS, {"person": "erin"})
    assert [one["name"] for one in (await console.get(SIGNINS)).json["signins"]] == [
        *(HOLDER, DANA, f"{HOLDER}/erin")
    ]
    for person, ended in (("dana", 1), ("erin", 0)):
        assert (await console.delete(f"{SIGNINS}/{person}")).json == {"ended": ended}
    assert (await console.get(SESSION, as_=None, headers=hers)).status == 401
    assert (await sign_in(console, DANA, NEW)).refusal == (401, "wrong_credentials", None)
    token = {"token": link.json["url"].partition("#token=")[2]}
    assert (await console.post(f"{SESSION}/link", token, as_=None)).status == 401
    assert await is_in(console, mine)
    assert (await console.get(SIGNINS)).json["count"] == 1
    assert (await console.delete(f"{SIGNINS}/dana")).status == 404


async def test_who_lets_people_in(console: Console) -> None:
    """The account itself, freshly signed in, and nobody whose password it would replace."""
    hers = await let_in(console)
    asked = [
        await console.post(SIGNINS, {"person": "erin"}, as_=None, headers=hers),
        await console.delete(f"{SIGNINS}/dana", as_=None, headers=hers),
        await console.post(SIGNINS, {"person": "dana"}),
        await console.post(SIGNINS, {"person": "x/y"}),
        await console.get(f"{API}/accounts/1/signins"),
        await console.delete(f"{API}/accounts/1/signins/dana"),
    ]
    execute(console, "UPDATE sessions SET created_ms = created_ms - ?", FRESH_MS + 1)
    asked.append(await console.post(SIGNINS, {"person": "erin"}))
    assert [one.refusal for one in asked] == [
        (403, "own_signin_only", None),
        (403, "own_signin_only", None),
        (409, "name_taken", "person"),
        (400, "invalid_field", "person"),
        (404, "not_found", None),
        (404, "not_found", None),
        (403, "sign_in_again", None),
    ]


async def test_operators_do_it_for_every_account(console: Console) -> None:
    """Also for somebody who has forgotten the password; and two operators are told apart."""
    hers = await let_in(console)
    path = f"{API}/accounts/1"
    listed = (await console.get(f"{path}/signins", as_=OPERATOR)).json
    assert [one["name"] for one in listed["signins"]] == [HOLDER, DANA]
    made = await console.post(f"{path}/signin-link", {"person": "dana"}, as_=OPERATOR)
    opened = await use_link(console, made)
    assert (await console.get(SESSION, as_=None, headers=opened)).json["name"] == DANA
    assert (await console.delete(f"{path}/signins/dana", as_=OPERATOR)).json == {"ended": 2}
    assert (await console.get(SESSION, as_=None, headers=hers)).status == 401
    path = f"{API}/accounts/by-name?name={OPERATOR}"
    own = (await console.get(path, as_=OPERATOR)).json["id"]
    made = await console.post(f"{API}/accounts/{own}/signin-link", {"person": "erin"}, as_=OPERATOR)
    opened = await use_link(console, made)
    credit = {"amount": "1", "note": "n"}
    reply = await console.post(
        f"{API}/accounts/1/credit", credit, as_=None, headers=opened, key="1"
    )
    assert reply.status == 200
    last = "SELECT actor FROM events WHERE action = 'account.credit' ORDER BY id DESC LIMIT 1"
    assert execute(console, last) == [(f"{OPERATOR}/erin",)]

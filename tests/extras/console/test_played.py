"""Sessions with the console's API, played as they are written in `played/`, and in `console/` of extras.

    == the title of a session, which begins with the three accounts and nothing else
    > server: public_url = "https://llm.example.com"     lines for gateway.toml, or `> passwords:`
    $ holder POST keys {"name": "n"} | key.id secret     who, method, path, body; fields to show
    201 key_1 SECRET-1                                   the status and these fields

Headers may follow the body, as in `nobody GET session Cookie: a=b; Origin: null`. `nobody>here POST …`
keeps the session that is opened under the name `here`, which may ask later; a token or key may stand
in the place of who asks, and `proxy` asks from another address, 127.0.0.2. A path that ends in `#k`
has the Idempotency-Key `k`; one that begins with `/` is not the console's. `PAGES keys` reads all
pages of the list `keys`. A number before who asks sends so many at once and counts the replies.

`.` shows the whole reply, `text` its text, `@Name` a header, `a.#` how many are in `a`, `a.?` the names
in `a`, and `a.*.b` the `b` of each in `a`. A refusal shows its code and field.

`$ complete SECRET-1 MODEL` asks for a completion, `$ past holder key_1 2023-10-04T12:00:00Z cost_nano=7`
writes a call that has ended then (or `-3d`, three days ago), `$ link holder` makes a sign-in link,
`$ signin holder` uses one, `$ gateway WORDS` is the command line, `$ sql` reads or changes the database.
`CODE(SECRET-1+1)` stands for the next one-time code of a secret. Lines that begin with `#` say why.
Ids, secrets and times have names, as in the sessions of the command line. To write the replies anew:

    WRITE_SESSION=1 python -m pytest tests/extras/console/test_played.py && git diff
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shlex
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

from gateway.base.times import DAY_MS, unix_ms
from gateway.extras.console.fields import parse_moment_ms
from gateway.extras.signins import totp
from gateway.extras.signins.throttle import SignInThrottle, Tries
from tests.extras.console.calls import Past, add_calls
from tests.extras.console.kit import API, Console, open_console, read_cookie, read_pages
from tests.extras.console.session import seed_passwords
from tests.ledger.player import BLOCK, play_session, read_sessions
from tests.support.cli import run_here
from tests.support.scribe import Scribe
from tests.support.served import Reply

PLAYED: Final = Path(__file__).with_name("played")
SETTING: Final = re.compile(r"^> (\w+): ?(.*)$", re.MULTILINE)
PROXY: Final = "127.0.0.2"
HEADER: Final = re.compile(r"([\w-]+): ([^;]*)(?:; |$)")
CODE: Final = re.compile(r"CODE\(([A-Z2-7]{32})(\+\d)?\)")
SESSIONS: Final = read_sessions(PLAYED, *sorted(PLAYED.parents[1].glob("*/console")))
Verb = Callable[[str, list[str]], Awaitable[str]]
"""Takes what follows the verb, and the fields to show."""


async def ask(console: Console, command: str) -> Reply:
    who, method, target, rest = f"{command} ".split(" ", 3)
    who, _, kept = who.partition(">")
    path, _, key = target.partition("#")
    body = None
    if rest.startswith(("{", "[")):
        body, end = json.JSONDecoder().raw_decode(rest)
        rest = rest[end:]
    headers = dict(HEADER.findall(rest.strip()))
    as_: str | None = who
    if who.startswith(("gwt_", "sk-ru-")):
        headers["Authorization"] = f"Bearer {who}"
        as_ = None
    elif who in {"nobody", "proxy"}:
        as_ = None
    url = path if path.startswith("/") else f"{API}/{path}"
    reply = await console.ask(method, url, body, as_=as_, key=key or None, headers=headers)
    if reply.status >= 400 and url != path:
        assert reply.error["message"].endswith((".", "?")), "a sentence"
    if kept:
        console.cookies[kept] = read_cookie(reply)
    return reply


def show(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def pick(value: Any, path: str) -> Any:
    name, _, rest = path.partition(".")
    match name:
        case "":
            return value
        case "*":
            return [pick(one, rest) for one in value]
        case "#":
            return len(value)
        case "?":
            return " ".join(value)
        case _:
            return pick(value[int(name)] if isinstance(value, list) else value[name], rest)


def tell(reply: Reply, fields: list[str]) -> str:
    told = [str(reply.status)]
    if reply.status >= 400:
        told += [show(one) for one in (reply.error["code"], reply.error.get("field")) if one]
    for field in fields:
        if field.startswith("@"):
            told.append(" & ".join(reply.headers.getall(field[1:], ["none"])))
        elif field == "text":
            told.append(f"\n{reply.body.decode()}".replace("\r\n", "\n").rstrip("\n"))
        elif reply.status < 400:
            told.append(show(pick(reply.json, field)))
        elif (value := reply.error.get(field)) is not None:
            told.append(show(value))
    return " ".join(told)


def add_past(console: Console, account: str, key: str, when: str, *terms: str) -> None:
    given = dict(term.split("=", 1) for term in terms)
    values: dict[str, Any] = {
        name: int(one) if one.isdecimal() else one for name, one in given.items()
    }
    days_ago = when.endswith("d")
    ended_ms = unix_ms() + int(when[:-1]) * DAY_MS if days_ago else parse_moment_ms("when", when)
    started_ms = ended_ms - values.pop("took_ms", 5)
    past = Past(key, started_ms, None if values.pop("pending", 0) else ended_ms, **values)
    add_calls(console.database, console.account_id(account), [past])


def compute_code(found: re.Match[str]) -> str:
    """Return the one-time code that an app with this secret shows, perhaps in some steps' time."""
    step = unix_ms() // totp.STEP_MS + int(found[2] or 0)
    return totp.compute_code(base64.b32decode(found[1]), step)


async def answer(
    console: Console, command: str, fields: list[str], verbs: Mapping[str, Verb]
) -> str:
    word, _, rest = command.partition(" ")
    if word.isdecimal():
        replies = (answer(console, rest, fields, verbs) for _ in range(int(word)))
        counted = Counter(await asyncio.gather(*replies))
        return "\n".join(f"{count} x {one}" for one, count in sorted(counted.items()))
    if verb := verbs.get(word):
        return await verb(rest, fields)
    return await answer_one(console, command, fields)


async def answer_one(console: Console, command: str, fields: list[str]) -> str:
    word, _, rest = command.partition(" ")
    match word:
        case "sql":
            rows = [" | ".join(map(show, row)) for row in console.execute(rest)]
            told = "\n".join(rows) or "nothing"
        case "past":
            add_past(console, *rest.split())
            told = "written"
        case "link":
            told = console.make_link_token(rest)
        case "signin":
            told = str((await console.sign_in(rest)).status)
        case "complete":
            secret, _, model = rest.partition(" ")
            told = tell(await console.complete(secret, model=model or "demo/echo"), fields)
        case _ if rest.startswith("PAGES "):
            _, name, path = rest.split(" ")
            rows = await read_pages(console, f"{API}/{path}", name, as_=word)
            told = " ".join(show(pick(rows, field)) for field in fields)
        case "gateway":
            environ = {"GATEWAY_CONFIG": str(console.folder / "gateway.toml")}
            told = str(run_here(shlex.split(rest), environ).code)
        case "proxy":
            connector = aiohttp.TCPConnector(local_addr=(PROXY, 0))
            async with aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar()
            ) as client:
                told = tell(await ask(replace(console, web=client), command), fields)
        case _:
            told = tell(await ask(console, CODE.sub(compute_code, command)), fields)
    return told


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    stop_clocks(monkeypatch)
    await play(tmp_path, *SESSIONS[name])


def stop_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no time pass for the throttles, so that waits are as long on a slow machine."""
    monkeypatch.setattr(SignInThrottle.__init__, "__defaults__", (lambda: 1000.0,))
    monkeypatch.setattr(Tries.__init__, "__kwdefaults__", {"clock": lambda: 1000.0})


async def play(
    folder: Path,
    path: Path,
    text: str,
    make_verbs: Callable[[Console], Mapping[str, Verb]] = lambda _: {},
    **settings: Any,
) -> None:
    """Play a session of a file, perhaps with more verbs, and compare what is told, or write it."""
    head = text[: next(BLOCK.finditer(text)).start()]
    for setting, line in SETTING.findall(head):
        settings[setting] = "\n".join(filter(None, (settings.get(setting), line)))
    if settings.pop("passwords", None):
        settings["seed"] = seed_passwords
    scribe = Scribe(folder)
    async with open_console(folder, **settings) as console:
        verbs = make_verbs(console)

        async def play_line(line: str) -> str:
            line = scribe.read(line.replace("URL", console.root_url))
            command, _, fields = line.partition(" | ")
            told = await answer(console, command, fields.split(), verbs)
            return scribe.write(told.replace(console.root_url, "URL"))

        await play_session(path, text, play_line)

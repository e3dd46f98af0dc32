"""Sessions with the console's API, played as they are written in `played/`.

    == the title of a session, which begins with the three accounts and nothing else
    $ holder POST keys {"name": "n"} | key.id secret     who, method, path, body; fields to show
    201 key_1 SECRET-1                                   the status and these fields

`$ complete SECRET-1` asks for a completion, `$ signin holder` opens a session, `$ sql` reads the
database. A path that ends in `#k` has the Idempotency-Key `k`; a token may stand in the place of who
asks. A refusal shows its code and field. Lines that begin with `#` say why. Ids, secrets and times have names, as in the sessions of the command line. To write the replies anew:

    WRITE_SESSION=1 python -m pytest tests/console/api/test_played.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Final

import pytest

from tests.console.kit import API, Console, Reply, execute
from tests.support.rows import told_together
from tests.support.scribe import Scribe

PLAYED: Final = Path(__file__).with_name("played")
BLOCK: Final = re.compile(r"((?:# .*\n)*)\$ (.*)\n((?:(?![#$] ).*\n?)*)")
"""Comments, a command, and what is told of it."""
SESSIONS: Final = {
    f"{path.stem}: {text.splitlines()[0]}": (path, text)
    for path in sorted(PLAYED.iterdir())
    for text in path.read_text(encoding="utf-8").split("== ")[1:]
}


async def ask(console: Console, command: str) -> Reply:
    who, method, target, *rest = command.split(" ", 3)
    path, _, key = target.partition("#")
    body = json.loads(rest[0]) if rest else None
    headers = {"Authorization": f"Bearer {who}"} if who.startswith("gwt_") else {}
    as_ = None if headers or who == "nobody" else who
    return await console.ask(
        method, f"{API}/{path}", body, as_=as_, key=key or None, headers=headers
    )


def show(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def pick(value: Any, path: str) -> Any:
    """Follow names and numbers; `*` stands for each of a list."""
    name, _, rest = path.partition(".")
    if not name:
        return value
    if name == "*":
        return [pick(one, rest) for one in value]
    return pick(value[int(name)] if isinstance(value, list) else value[name], rest)


async def answer(console: Console, command: str, fields: str) -> str:
    word, _, rest = command.partition(" ")
    if word == "sql":
        return "\n".join(" | ".join(map(show, row)) for row in execute(console, rest)) or "nothing"
    if word == "signin":
        return str((await console.sign_in(rest)).status)
    if word == "complete":
        return str((await console.complete(rest)).status)
    reply = await ask(console, command)
    if reply.status >= 400:
        told = (
            reply.error["code"],
            reply.error.get("field"),
            *map(reply.error.get, fields.split()),
        )
        return " ".join([str(reply.status), *(show(one) for one in told if one is not None)])
    shown = [show(pick(reply.json, one)) for one in fields.split()]
    return " ".join([str(reply.status), *shown])


@pytest.mark.parametrize("name", SESSIONS)
async def test_a_session_goes_as_it_is_written(console: Console, name: str) -> None:
    path, text = SESSIONS[name]
    scribe, blocks, played = Scribe(console.folder), BLOCK.findall(text), []
    for _, line, _ in blocks:
        command, _, fields = scribe.read(line).partition(" | ")
        played.append(scribe.write(await answer(console, command, fields)))
    if "WRITE_SESSION" in os.environ:
        new = [
            f"{why}$ {line}\n{told}\n" for (why, line, _), told in zip(blocks, played, strict=True)
        ]
        written = f"{text.partition(chr(10))[0]}\n{''.join(new)}" + "\n" * text.endswith("\n\n")
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(text, written), encoding="utf-8")
    with told_together() as row:
        for (_, line, expected), told in zip(blocks, played, strict=True):
            with row(line):
                assert told == expected.strip("\n")

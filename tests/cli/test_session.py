"""Sessions of an operator: what each command prints, on which stream, and its exit code.

The files in `sessions/`, also those of extras, have the commands and what they print: `! ` begins a line of stderr, `[5]` is an
exit code other than 0, and `> NAME` writes the lines below it into a file. `$ account passwd a < 'word'`
has a text for stdin, `| grep` shows some lines of stdout alone, `$ sql` reads or changes the database,
and `$ sh` runs a command of the shell in the folder. Ids and secrets are numbered in the order in which
they appear, and commands use them by these numbers. JSON that is indented by two spaces fills its lines here. To write the files anew, after a look at what that
would change:

    WRITE_SESSION=1 python -m pytest tests/cli/test_session.py && git diff
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from operator import add
from pathlib import Path
from typing import Final

import pytest

from gateway.base import ids
from gateway.base.times import DAY_MS, unix_ms
from gateway.cli import process
from gateway.extension import find_extras
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.observation_records import UpstreamFailure
from gateway.ledger.opening import open_books, open_ledger
from gateway.ledger.records import StoredSecret
from tests import ROOT
from tests.ledger.contract.kit import admission, settlement, void
from tests.ledger.kit import find_key, make_place
from tests.support.cli import Answer, Cli
from tests.support.layout import fill_json
from tests.support.scribe import Scribe

USED: Final = {"adopt": "responses", "adopted": "moves"}
"""Another extra that a session needs, if it does."""
SESSIONS: Final = {
    path.stem: path
    for folder in (Path(__file__).parent, *ROOT.glob("tests/extras/*"))
    for path in folder.glob("sessions/*.txt")
    if USED.get(path.stem, "") in {"", *find_extras()}
}
NOW_MS: Final = 1_700_000_000_000
OVERLOAD: Final = UpstreamFailure(
    0, "req_8", 529, "status 529 overloaded_error", "https://api.example.com/v1", "overloaded_error"
)
FAILURE: Final = UpstreamFailure(
    0, "req_9", 401, "status 401: the provider refuses our key", "https://api.example.com/v1/chat"
)


async def serve(folder: Path) -> None:
    """Serve five calls of two accounts, and a sixth that a crash cuts off.

    One of them fails; of one, which takes 11 seconds, the provider says what it costs.
    """
    place = make_place(folder)
    with open_books(place.path) as books:
        books.accounts.create("zoe", credit_nano=10**12)
        laptop = ids.make_key()
        # Its id is the first of all: usage by key is listed by their ids.
        new = StoredSecret(f"key_{'0' * 16}", ids.digest(laptop), laptop[-4:])
        books.keys.create("zoe", KeyTerms(name="laptop"), new)
    async with open_ledger(place.path) as ledger:
        first, second = find_key(ledger, place), ledger.find_key(ids.digest(laptop))
        assert second is not None
        billed = settlement(100, provider_cost_nano=60, reported_cost_nano=75)
        for number, (key, model, ending) in enumerate((
            (first, "demo/echo", settlement(5)),
            (first, "demo/echo", replace(void(), status=502)),
            (first, "=cmd", settlement(1_000_000_001)),
            (first, "large", billed),
            (second, "demo/echo", settlement(2_000_000_000)),
        )):  # fmt: skip
            at_ms, took_ms = NOW_MS + number * 1000, 11_000 if ending is billed else 5
            asked = replace(
                admission(id_=ids.make_request_id(at_ms), started_ms=at_ms), model=model
            )
            await ledger.settle(ledger.hold(key, asked), replace(ending, ended_ms=at_ms + took_ms))
            if ending.status == 502:
                ledger.note_upstream_call(
                    "demo", "echo", replace(OVERLOAD, request_id=asked.request_id)
                )
    async with open_ledger(place.path) as ledger:
        at_ms = NOW_MS + 5000
        cut = admission(700, id_=ids.make_request_id(at_ms), started_ms=at_ms)
        await ledger.wait_admitted(ledger.hold(find_key(ledger, place), cut))
    async with open_ledger(place.path):
        pass  # a start finds what was cut off


async def refuse(folder: Path) -> None:
    """Let a provider fail and refuse callers, some of them days ago."""
    with open_books(folder / "gateway.db", create=True) as books:
        account_id = books.accounts.create("alice").id
    for ago_ms, times in ((9 * DAY_MS, 1), (0, 3)):
        clock = partial(add, unix_ms(), -ago_ms)
        async with open_ledger(folder / "gateway.db", clock=clock) as ledger:
            for _ in range(times):
                ledger.note_refusal(account_id, "model_not_found", "", "req_1")
                if ago_ms == 0:
                    ledger.note_upstream_call("demo", "echo", FAILURE)
                    ledger.note_upstream_call("vendor", "far", FAILURE)
                    ledger.note_latency(
                        account_id, "vendor", "far", clock(), first_byte_ms=300, total_ms=20_000
                    )
            ledger.note_refusal(None, "invalid_api_key", "", "req_2")


SEEDS: Final = {"calls": serve, "receipts": serve, "refusals": refuse, "refused": refuse}


def run(cli: Cli, command: str) -> Answer:
    word, _, rest = command.partition(" ")
    if word == "sql":
        with closing(sqlite3.connect(cli.database)) as connection, connection:
            rows = connection.execute(rest).fetchall()
        return Answer(0, "".join(" | ".join(map(str, row)) + "\n" for row in rows), "")
    if word == "sh":
        done = subprocess.run(
            rest, shell=True, cwd=cli.folder, capture_output=True, text=True, check=False
        )
        return Answer(done.returncode, done.stdout, done.stderr)
    words = shlex.split(command)
    words, stdin = (words[:-2], words[-1]) if "<" in words else (words, "")
    environ = {"GATEWAY_CONFIG": str(cli.config), "SUDO_USER": "ann"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8"))
        return cli.run(*words, environ=environ)


def play(cli: Cli, scribe: Scribe, block: str) -> str:
    first, _, rest = block.partition("\n")
    if first.startswith("> "):
        path = cli.folder / first.removeprefix("> ")
        path.write_text(rest, encoding="utf-8")
        path.chmod(0o600)
        return block
    command, _, pattern = first.removeprefix("$ ").partition(" | grep ")
    answer = run(cli, scribe.read(command.replace("ROOT", str(ROOT))))
    # What is said comes first, so its secrets have the first numbers.
    said, out = (
        scribe.write(text.replace(sys.executable, "PYTHON").replace(str(ROOT), "ROOT"))
        for text in (answer.err, answer.out)
    )
    err = said.splitlines()
    shown = [
        line
        for line in (out if pattern else fill_json(out)).splitlines()
        if re.search(pattern, line)
    ]
    lines = [first, *(f"! {line}".rstrip() for line in err), *shown]
    return "\n".join([*lines, *([f"[{answer.code}]"] if answer.code else [])]) + "\n"


@pytest.mark.timeout(300)  # hundreds of commands, and a machine may be busy
@pytest.mark.parametrize("name", sorted(SESSIONS))
def test_each_command_prints_what_it_did(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # The folder of a test belongs to whoever runs it.
    monkeypatch.setattr(process, "_find_owner", lambda _: "keeper")
    path = SESSIONS[name]
    if name in SEEDS:
        asyncio.run(SEEDS[name](cli.folder))
    monkeypatch.chdir(cli.folder)
    scribe = Scribe(cli.folder)
    blocks = re.split(r"(?m)^(?=[$>] )", path.read_text(encoding="utf-8"))[1:]
    played = [play(cli, scribe, block) for block in blocks]
    if "WRITE_SESSION" in os.environ:
        path.write_text("".join(played), encoding="utf-8")
    for got, block in zip(played, blocks, strict=True):
        assert got == block

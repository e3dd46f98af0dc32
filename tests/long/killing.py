"""The kill harness: SIGKILL at random instants under load, then compare books and callers.

Every request has a number, which the upstream reports as its prompt tokens. So each row of the
ledger names its request, even if the caller never learnt the id.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import shutil
import sqlite3
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gateway.ledger.budget_records import Allowance
from gateway.ledger.opening import open_books, open_ledger
from tests.support import config, replies, running
from tests.support.chat import EMBEDDING_PRICE_TOML, PRICE_TOML, Used, say
from tests.support.client import Call, Cut, request
from tests.support.process import CHAT, GatewayProcess
from tests.support.replies import dumps
from tests.support.seed import NANO, Seed
from tests.support.texts import text_completion, text_events
from tests.support.upstream import Drip, Exchange, Script, listen, port_of, serve_scripts

CREDIT_NANO: Final = 10**6 * NANO
RICH: Final = Seed("rich", CREDIT_NANO, budget=Allowance(CREDIT_NANO, "month"))
"""With a budget, which the audit at the end proves as well."""
MODEL: Final = "plain/0"
PRICED: Final = f"price = {PRICE_TOML}"
INPUT_ALONE: Final = f"price = {EMBEDDING_PRICE_TOML}"
KINDS: Final = {
    "plain": config.Kind(("alpha",), 1),
    "text": config.Kind(("alpha",), 1, model_options=config.COMPLETES),
    "image": config.Kind(("alpha",), 1, makes=f'kind = "image"\n{PRICED}'),
    "hearing": config.Kind(("alpha",), 1, makes=f'kind = "audio"\n{PRICED}'),
    "rerank": config.Kind(("alpha",), 1, makes=f'kind = "rerank"\n{INPUT_ALONE}'),
    "speech": config.Kind(("alpha",), 1, makes=config.SPEAKS),
}
PATHS: Final = {
    "plain": CHAT, "text": "/v1/completions", "image": "/v1/images/generations",
    "hearing": "/v1/audio/transcriptions", "rerank": "/v1/rerank", "speech": "/v1/audio/speech",
}  # fmt: skip
ROTATION: Final = ("plain", "text", "plain", "image", "hearing", "plain", "rerank", "speech")
FORM: Final = "multipart/form-data; boundary=kill"
LIFE_SECONDS: Final = (0.05, 0.9)
"""How long a gateway serves before it is killed."""
PIECE_SECONDS: Final = (0.001, 0.04)
PIECES: Final = 8


@dataclass(slots=True)
class Record:
    """A request as its caller saw it."""

    number: int
    stream: bool
    request_id: str = ""
    status: int = 0
    complete: bool = False
    """True if the reply came to its last byte, or `[DONE]` came."""
    told: bool = False
    """A stream that had an error event."""

    async def hear(self, call: Call, *, has_done: bool) -> None:
        """Read the reply to its end; `has_done`: the stream ends with a line of its own."""
        await call.read_head()
        self.status, self.request_id = call.status, call.headers["x-request-id"]
        seen = b""
        while piece := await call.read_piece():
            seen += piece
            self.complete = has_done and seen.endswith(replies.DONE)
            self.told = self.stream and b'"error"' in seen
        self.complete |= not has_done and self.status == 200


@dataclass(slots=True)
class Findings:
    """Faults by kind; a good run has none."""

    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not (self.lost or self.doubled or self.wrong)

    @property
    def problems(self) -> str:
        return "\n".join((*self.lost, *self.doubled, *self.wrong)[:50])


@dataclass(slots=True)
class Figures(Findings):
    """The results of a run."""

    kills: int = 0
    requests: int = 0
    complete: int = 0
    cut: int = 0
    """Replies of which a byte was seen, but not the end."""
    interrupted: int = 0
    charged_not_whole: int = 0
    """Replies cut by a kill between the commit and the last bytes."""
    slowest_start_seconds: float = 0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.requests} requests: {self.complete} complete,"
            f" {self.cut} cut, {self.interrupted} interrupted, {self.charged_not_whole} charged"
            f" but not whole; lost {len(self.lost)}, doubled {len(self.doubled)}, wrong"
            f" {len(self.wrong)}; slowest start {self.slowest_start_seconds:.2f} s"
        )


def find_kind(number: int) -> str:
    """Return the kind of model that a request is for."""
    return ROTATION[number % len(ROTATION)]


def used(number: int) -> Used:
    """Return the usage that the upstream reports for a request."""
    return Used(number, 1 + number % 97)


def expect(number: int) -> Used:
    """Return the usage that a request is charged for: ranks and speech have no output."""
    return Used(number, 0) if find_kind(number) in {"rerank", "speech"} else used(number)


def ask(record: Record) -> bytes:
    """Write the body of a request; speech is charged by its characters, so there are that many."""
    kind, text = find_kind(record.number), f"number {record.number}"
    if kind == "hearing":
        fields = {"model": "hearing/0", "prompt": text, "stream": str(record.stream).lower()}
        told = {f'"{name}"': value for name, value in fields.items()}
        parts = {'"file"; filename="a.mp3"': "sound", **told}
        lines = (
            f"--kill\r\nContent-Disposition: form-data; name={name}\r\n\r\n{value}\r\n"
            for name, value in parts.items()
        )
        return ("".join(lines) + "--kill--\r\n").encode()
    body: dict[str, Any] = {
        "plain": say(MODEL, text),
        "text": {"model": "text/0", "prompt": text},
        "image": {"model": "image/0", "prompt": text},
        "rerank": {"model": "rerank/0", "query": text, "documents": ["a"]},
        "speech": {"model": "speech/0", "input": "a" * record.number, "instructions": text},
    }[kind]
    if record.stream and kind in {"plain", "text", "image"}:
        body["stream"] = True
    return dumps(body)


def answer(exchange: Exchange, draw: random.Random) -> Script:
    """Reply to the number in the request's text: late, and a stream in pieces."""
    found = re.search(rb"number ([0-9]+)", exchange.body)
    assert found is not None
    number = int(found[1])
    is_stream = re.search(rb'"stream":\s*true|"stream"\r\n\r\ntrue', exchange.body) is not None
    wait = Drip((b"",), draw.uniform(*PIECE_SECONDS) * PIECES)
    reply = write_reply(exchange.target, used(number), is_stream=is_stream)
    if is_stream:
        pieces = [one for one in reply if isinstance(one, bytes)]
        reply = [Drip(pieces, draw.uniform(*PIECE_SECONDS))]
    return [wait, *reply]


def write_reply(path: str, reported: Used, *, is_stream: bool) -> Script:
    usage = replies.usage(reported.prompt, reported.completion)
    told = {"type": "tokens", "input_tokens": reported.prompt, "output_tokens": reported.completion}
    image, words = {"b64_json": "QUJD" * 1000}, ["word "] * PIECES
    if is_stream:
        partial = {"type": "image_generation.partial_image", **image}
        whole = {"type": "image_generation.completed", **image, "usage": told}
        delta = {"type": "transcript.text.delta", "delta": "word "}
        done = {"type": "transcript.text.done", "text": "word", "usage": told}
        events: dict[str, list[Any]] = {
            CHAT: replies.stream_chunks(words, usage),
            PATHS["text"]: text_events(*words, usage=usage),
            PATHS["image"]: [partial, partial, whole],
            PATHS["hearing"]: [delta, delta, done],
        }
        return replies.sse_reply(events[path], done=path in {CHAT, PATHS["text"]})
    if path == PATHS["speech"]:
        return [replies.http(b"\xff\xf3" * 5000, content_type="audio/mpeg")]
    ranks = [{"index": 0, "relevance_score": 0.5}]
    found = {
        CHAT: replies.completion("Hello!", usage=usage),
        PATHS["text"]: text_completion("Hello!", usage=usage),
        PATHS["image"]: {"created": 1, "data": [image], "usage": told},
        PATHS["hearing"]: {"text": "word", "usage": told},
        PATHS["rerank"]: {"results": ranks, "usage": {"total_tokens": reported.prompt}},
    }
    return replies.json_reply(found[path])


class Load:
    """Callers that never stop, some with streams and some without, and their records."""

    def __init__(self, process: GatewayProcess, key: str) -> None:
        self.records: list[Record] = []
        self.up = asyncio.Event()
        self.is_on = True
        self._process = process
        self._key = key

    async def call_on(self, *, stream: bool) -> None:
        while self.is_on:
            await self.up.wait()
            record = Record(len(self.records) + 1, stream)
            self.records.append(record)
            with contextlib.suppress(Cut, OSError):
                await self._call(record)

    async def _call(self, record: Record) -> None:
        kind = find_kind(record.number)
        content = FORM if kind == "hearing" else "application/json"
        heads = {"Authorization": f"Bearer {self._key}", "Content-Type": content}
        async with self._process.connect() as call:
            await call.send(request("POST", PATHS[kind], heads, ask(record)))
            # Only the streams of chat and text completions end with a line of their own.
            await record.hear(call, has_done=record.stream and kind in {"plain", "text"})


ROWS: Final = """
    SELECT requests.id, input_tokens, state, outcome, cost_nano, estimated,
        count(entries.id) FILTER (WHERE kind = 'charge'),
        CAST(coalesce(-sum(amount_nano) FILTER (WHERE kind = 'charge'), 0) AS BIGINT),
        CAST(coalesce(sum(amount_nano) FILTER (WHERE kind = 'correction'), 0) AS BIGINT)
    FROM requests LEFT JOIN entries ON entries.request_id = requests.id GROUP BY requests.id
"""
"""The columns of `Row`, in the SQL of both databases."""


@dataclass(frozen=True, slots=True)
class Row:
    """The ledger's row of one request."""

    id: str
    number: int
    state: str
    outcome: str
    cost_nano: int
    estimated: int
    charges: int
    charged_nano: int
    corrected_nano: int = 0


def read_rows(path: Path) -> list[Row]:
    with contextlib.closing(sqlite3.connect(path)) as database:
        return [Row(*row) for row in database.execute(ROWS)]


def summarise(path: Path) -> list[Any]:
    """Summarise balances, and all requests by state and ending."""
    with contextlib.closing(sqlite3.connect(path)) as database:
        return [
            database.execute("SELECT id, balance_nano FROM accounts").fetchall(),
            database.execute("SELECT count(*), sum(amount_nano) FROM entries").fetchall(),
            database.execute(
                "SELECT id, state, cost_nano FROM requests WHERE outcome IN"
                " ('pending', 'interrupted') ORDER BY id"
            ).fetchall(),
        ]


async def recover_copy(path: Path) -> list[Any]:
    """Recover a copy of a killed gateway's files; a second recovery must change nothing."""
    with tempfile.TemporaryDirectory() as folder:
        for file in (path, path.with_name(f"{path.name}-wal")):
            if file.exists():
                shutil.copyfile(file, Path(folder, file.name))
        found = []
        for _ in range(2):
            async with open_ledger(Path(folder, path.name)):
                pass
            found.append(summarise(Path(folder, path.name)))
    assert found[0] == found[1], "recovery is not idempotent"
    return found[0]


def judge(load: Load, rows: list[Row], balance_nano: int, figures: Figures) -> None:
    """Compare what callers saw with the ledger."""
    by_id = {row.id: row for row in rows}
    figures.requests = len(load.records)
    figures.interrupted = sum(row.outcome == "interrupted" for row in rows)
    for record in load.records:
        _judge_record(record, by_id.get(record.request_id), figures)
    judge_rows(rows, balance_nano, figures, lambda number: expect(number).cost_nano, "interrupted")
    complete = {record.number for record in load.records if record.complete}
    figures.charged_not_whole = sum(
        row.state == "posted" and row.number not in complete for row in rows
    )


def judge_rows(
    rows: list[Row],
    balance_nano: int,
    figures: Findings,
    find_cost: Callable[[int], int],
    void: str = "",
) -> None:
    """Check each row: posted at its exact cost with one charge, or voided with none.

    `void` is the only outcome of what is voided. A charge that was taken back whole does not count.
    """
    for row in rows:
        cost_nano = find_cost(row.number)
        if row.charges > 1:
            figures.doubled.append(f"{row}")
        elif row.state == "posted":
            is_exact = (row.cost_nano, row.charged_nano, row.estimated) == (cost_nano, cost_nano, 0)
            if not is_exact or row.corrected_nano not in {0, cost_nano}:
                figures.wrong.append(f"{row} should cost {cost_nano}")
        elif (row.state, row.charges, row.corrected_nano) != ("voided", 0, 0) or (
            void and row.outcome != void
        ):
            figures.wrong.append(f"{row}")
    kept = Counter(row.number for row in rows if row.state == "posted" and not row.corrected_nano)
    figures.doubled += [f"number {number}" for number, count in kept.items() if count > 1]
    expected_nano = CREDIT_NANO - sum(row.charged_nano - row.corrected_nano for row in rows)
    if balance_nano != expected_nano:
        figures.wrong.append(f"balance {balance_nano}, expected {expected_nano}")


def _judge_record(record: Record, row: Row | None, figures: Figures) -> None:
    if not record.status:
        return
    if record.status != 200:
        figures.wrong.append(f"{record} was refused")
    elif row is None:
        figures.lost.append(f"{record} is unknown")
    elif record.complete:
        figures.complete += 1
        if row.state != "posted" or row.number != record.number:
            figures.lost.append(f"{record} is {row}")
    else:
        figures.cut += 1
        if row.state != "posted" and row.outcome != "interrupted":
            figures.wrong.append(f"{record} is {row}")


async def kill_and_restart(
    load: Load, process: GatewayProcess, draw: random.Random, figures: Figures
) -> None:
    """Run one life: serve, be killed, check that the files recover like at the next start."""
    await asyncio.sleep(draw.uniform(*LIFE_SECONDS))
    load.up.clear()
    process.kill()
    figures.kills += 1
    expected = await recover_copy(process.database)
    started = time.perf_counter()
    await asyncio.to_thread(process.start)
    seconds = time.perf_counter() - started
    figures.slowest_start_seconds = max(figures.slowest_start_seconds, seconds)
    if summarise(process.database) != expected:
        figures.wrong.append(f"kill {figures.kills}: the restart recovered to something else")
    load.up.set()


async def run(folder: Path, *, kills: int, seed: int, streams: int, others: int) -> Figures:
    """Play the whole run, with an upstream and a database of its own."""
    draw, figures = random.Random(seed), Figures()
    with listen() as listener:
        places = config.make_places({"alpha": port_of(listener)})
        one = running.start(folder, places, seeds=(RICH,), kinds=KINDS)
        load = Load(one.gateway, one.callers["rich"].key)
        try:
            async with serve_scripts(listener) as upstream, asyncio.TaskGroup() as group:
                upstream.always(lambda exchange: answer(exchange, draw))
                for number in range(streams + others):
                    group.create_task(load.call_on(stream=number < streams))
                load.up.set()
                for _ in range(kills):
                    await kill_and_restart(load, one.gateway, draw, figures)
                    upstream.exchanges.clear()
                load.is_on = False
            one.gateway.stop()
        finally:
            one.gateway.kill()
    with open_books(one.gateway.database) as books:
        figures.wrong += books.audit().problems
    judge(load, read_rows(one.gateway.database), one.books.balance_nano("rich"), figures)
    return figures

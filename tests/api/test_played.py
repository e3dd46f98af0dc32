"""Requests to the API, played as they are written in `played/`.

    == the title of a transcript
    # Why.
    $ @account chat plain {"n": 2} [x-title: a] | usage    who asks, the surface, a model, more fields
    < {"usage": null}                                      what `alpha` says
    << 500                                                 what `beta` says
    200 null                                               the status and the fields picked
    = alpha: posted complete 7 of 9; 11 0 0 0 7            who was asked; charge, hold and tokens
    $ chat plain                                           a request that is told the same as the next
    $ embeddings embed-plain
    < 500
    | 503                                                  another thing said in place of that
    502 upstream_error: … = alpha: voided upstream_error   what fits stands on one line
    < HANG                                                 the same request, another answer

Who asks is `rich` unless said. In the place of a surface may stand a method with a path: the JSON
behind it is the body, and a text is sent as it is. `RAW` sends all bytes of a connection. Several
surfaces, separated by commas, are asked one after the other; one with a `+` is asked for a reply and
then for a stream. What they are told is written once if it is the same. A model without a number is
one that no other request has; `%` stands for the surface. Requests have the ids req_1, req_2 and so
on. Texts are latin-1.

A provider says a whole reply of its dialect, in which fields may differ; a status with headers and a
body; or steps: events, texts as they are, HEAD, UNFRAMED, DONE, LAST, and FIN, RST, HANG for the end.

Picked are fields of the reply, `@header` and `body`; of what the last provider got `target`,
`sent.field` and `sent@header`, and `sent@` for the names of its headers. On lines of their own are
`log` and `kept`: what operators are shown of a refusal (account, code, model) or of a failure (status,
address, reason; the provider's type, code and field). A refusal shows code, field and message by
itself. To write the replies anew:

    WRITE_PLAYED=1 python -m pytest tests/api/test_played.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.extension import NEXT_STEPS, find_extras, tell_next_step
from gateway.ledger.opening import open_books
from gateway.ledger.sql.rows import read_receipt
from tests.api.asks import read_asks, write_asks
from tests.api.language import (
    BOUNDARY,
    SURFACES,
    TRANSCRIPTIONS,
    Command,
    read_command,
    read_script,
    read_variants,
)
from tests.support.chat import check_error, check_messages_error, split_events
from tests.support.client import Reply
from tests.support.config import KINDS, UPSTREAM_NAME
from tests.support.formats import CALLERS, COUNTERS, EVERY_CALLER, find_texts
from tests.support.layout import WIDTH
from tests.support.rows import told_together
from tests.support.scribe import Scribe
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Script
from tests.support.waiting import until

PLAYED: Final = Path(__file__).with_name("played")
PATHS: Final = ", ".join(f"POST /v1{one.path}" for one in EVERY_CALLER)
"""The paths of the core and of the extras that are there."""
CHATS: Final = " or ".join(f"/v1{one.path}" for one in CALLERS.values())
"""Those of models that talk."""
TRANSCRIPTS: Final = {
    f"{path.stem if path.parent == PLAYED else path.parent.name}: {text.splitlines()[0]}": (
        path,
        text,
    )
    for path in (*sorted(PLAYED.iterdir()), *find_texts("played.txt"))
    for text in re.split(r"(?m)^== ", path.read_text(encoding="utf-8"))[1:]
}
SERVED: Final = {f"/v1{path}" for path in (*COUNTERS, *(one.path for one in EVERY_CALLER))}
ABSENT: Final = {
    name for name, (path, _) in SURFACES.items() if path.replace("v2", "v1") not in SERVED
}
"""Surfaces of extras that are missing: nobody plays them."""
NOWHERE: Final = {path for name, (path, _) in SURFACES.items() if name in ABSENT}
NO_MODELS: Final = [name for name, one in KINDS.items() if not one.is_served]
LATER: Final = ("log", "kept")
Say = Callable[[Exchange], Script]
CHARGED: Final = {path for name, (path, _) in SURFACES.items() if not name.startswith("count")}
PROMPT: Final = b"Say hello, please."
ROW: Final = (
    "SELECT state, outcome, cost_nano, hold_nano, input_tokens, cached_input_tokens,"
    " cache_write_tokens, cache_write_1h_tokens, output_tokens, estimated, r.extras, provider_cost_nano,"
    " reported_cost_nano, price ->> 'rule', status FROM requests r JOIN prices p ON p.id = price_id"
    " WHERE r.id = ?"
)


@dataclass(slots=True)
class Player:
    """The stage, and what is remembered from one request to the next."""

    stage: Stage
    scribe: Scribe
    models: dict[str, str] = field(default_factory=dict)
    """The names of the transcript by the models that were chosen for them."""
    replies: list[Reply] = field(default_factory=list)

    async def play(self, line: str, scripts: Sequence[str]) -> str:
        """Play a line; return what is told of it."""
        told = {
            label: await self._play_one(command, scripts)
            for label, command in read_variants(read_command(line))
        }
        named: dict[str, list[str]] = {}
        for label, text in told.items():
            named.setdefault(text, []).append(label or "whole")
        if len(named) == 1:
            return next(iter(named))
        return "\n".join(f"{', '.join(labels)}: {text}" for text, labels in named.items())

    async def _play_one(self, command: Command, scripts: Sequence[str]) -> str:
        said = [
            one.replace("SECRET", self.stage.secret).replace(
                "BETA", self.stage.running.places.urls["beta"]
            )
            for one in scripts
        ]
        asked: list[tuple[str, Exchange]] = []
        for place, name, mark in (
            (self.stage.alpha, "alpha", "< "),
            (self.stage.beta, "beta", "<< "),
        ):
            queue = [read_script(one.removeprefix(mark)) for one in said if one.startswith(mark)]

            def choose(exchange: Exchange, name: str = name, queue: list[Say] = queue) -> Script:
                asked.append((name, exchange))
                return queue.pop(0)(exchange)

            place.always(choose)
        connections = self.stage.alpha.connections
        reply = await self._ask(command)
        self.replies.append(reply)
        self.scribe.write(reply.request_id)
        lines = [self._tell_reply(command, reply, [one for _, one in asked])]
        path = SURFACES.get(command.words[0], (command.words[-1],))[0].partition("?")[0]
        row = ""
        if path in CHARGED and (asked or reply.status == 200 or reply.status >= 500):
            row = await self._tell_row(reply)
        else:
            assert self.stage.books.request(reply.request_id) is None
            assert asked or self.stage.alpha.connections == connections
        if asked or row:
            lines.append(f"= {' '.join(name for name, _ in asked) or 'nobody'}{row}")
        told = [self._name(line) for line in lines]
        fits = "\n" not in told[0] and len(" ".join(told)) <= WIDTH
        return (" " if fits else "\n").join(told)

    def _name(self, text: str) -> str:
        """Put names in the place of what differs from run to run."""
        text = self.scribe.write(text).replace(self.stage.secret, "SECRET")
        for name in NEXT_STEPS:
            text = text.replace(tell_next_step(name), name.upper())
        text = text.replace(PATHS, "PATHS").replace(f"{CHATS} alone", "CHATS alone")
        for real, name in self.models.items():
            text = re.sub(rf"{real}(?!\d)", name, text)
        return text

    async def add_later(self, played: Sequence[str]) -> list[str]:
        """Wait for the lines of all requests and for what is kept; put them where they were picked."""
        for reply in self.replies:
            await self.stage.check_log(reply)
        log = self.stage.gateway.log

        def find(told: re.Match[str]) -> str:
            (line,) = re.findall(rf"(?m) {self.scribe.read(told[1])} (.*)$", log)
            return self._name(re.sub(r"(key|\w+_ms)=\S+ ?", "", line).strip())

        kept = {}
        for name in re.findall(r"KEPT (req_\d+)", "\n".join(played)):
            find_kept = partial(self._find_kept, self.scribe.read(name))
            await until(find_kept, "what is written some seconds later")
            kept[name] = self._name(find_kept() or "")
        told = [re.sub(r"LOG (req_\d+)", find, text) for text in played]
        return [re.sub(r"KEPT (req_\d+)", lambda told: kept[told[1]], text) for text in told]

    def _find_kept(self, request_id: str) -> str | None:
        with open_books(self.stage.books.path) as books:
            book: Any = import_module("gateway.extras.observations.book").ObservationBook(books)
            refusals = book.read_refusals(None, 0)
            seen = {one.provider: one for one in book.read_upstream()}
            for one in refusals:
                if one.last_request_id == request_id:
                    return f"{one.account} {one.code} {one.model}".strip()
            if self.stage.books.request(request_id) is None:
                return None
            receipt = read_receipt(books.connection, request_id=request_id)
            failures = book.read_failures(request_id, request_id)
        if not failures or receipt is None or receipt.provider not in seen:
            return None
        (failure,), view = failures, seen[receipt.provider]
        assert failure.request_id == request_id
        assert view.upstream_model == UPSTREAM_NAME
        assert view.today.failures == (not failure.rejected)
        assert view.failure == (None if failure.rejected else failure)
        url = failure.url.replace(self.stage.running.places.urls["alpha"], "ALPHA")
        what = "rejection" if failure.rejected else "failure"
        names = [one or "-" for one in (failure.type, failure.code, failure.param)]
        return f"{what} {failure.status} at {url}: {failure.reason}; {' '.join(names)}"

    async def _ask(self, command: Command) -> Reply:
        if command.words == ["RAW"]:
            async with self.stage.gateway.connect() as call:
                await call.send(command.body.replace("KEY", self.stage.key).encode("latin-1"))
                reply = await call.read_all()
                assert await call.read_to_close() == b""
                return reply
        method, target, headers = "POST", command.words[0], list(command.headers)
        if target in SURFACES:
            target, body = self._write_body(command)
        else:
            method, target = command.words
            told = command.body
            body = told.encode("latin-1") if isinstance(told, str) else json.dumps(told).encode()
        key = None if command.account == "nobody" else self.stage.callers[command.account].key
        if method == "POST" and "content-type" not in {name.lower() for name, _ in headers}:
            is_form = target == TRANSCRIPTIONS
            kind = f"multipart/form-data; boundary={BOUNDARY}" if is_form else "application/json"
            headers.append(("Content-Type", kind))
        headers = [(name, told.replace("KEY", self.stage.key)) for name, told in headers if told]
        return await self.stage.gateway.ask(
            method, target, key=key, headers=headers, body=body if method == "POST" else None
        )

    def _write_body(self, command: Command) -> tuple[str, bytes]:
        surface, *words = command.words
        path, ask = SURFACES[surface]
        model = words[0]
        if model in KINDS:
            model = self.stage.fresh(model)
            self.models[model] = f"{words[0]}/*"
            self.models[model.replace("/", "-")] = f"{words[0]}-*"
        body = ask(model, **(command.body or {}))
        return path, body if isinstance(body, bytes) else json.dumps(body).encode()

    def _tell_reply(self, command: Command, reply: Reply, sent: list[Exchange]) -> str:
        parts = [str(reply.status)]
        assert UPSTREAM_NAME.encode() not in reply.body
        if reply.status >= 400:
            parts.append(check_refusal(reply))
        if not reply.complete:
            parts.append("cut")
        last = sent[-1] if sent else None
        picked = [pick(one, reply, last) for one in command.picks if one not in LATER]
        later = [
            f"\n{one}: {one.upper()} {reply.request_id}" for one in LATER if one in command.picks
        ]
        return "".join([" ".join([*parts, *map(show, picked)]), *later])

    async def _tell_row(self, reply: Reply) -> str:
        await self.stage.charge_nano(reply)
        rows: list[Any] = self.stage.books._all(ROW, reply.request_id)
        (row,) = rows
        state, outcome, cost, hold, *tokens, estimated, extras, paid, reported, rule, status = row
        assert status == reply.status
        if state == "voided":
            assert not any([cost, *tokens, estimated, extras])
            return f": voided {outcome}"
        facts = [f": {state} {outcome} {cost} of {hold}; {' '.join(map(str, tokens))}"]
        facts += ["estimated"] * estimated
        facts += [str(extras)] if extras else []
        facts += [f"costs {show(paid)}, reported {show(reported)}"] * (
            (paid, reported) != (None, None)
        )
        facts += [f"by {rule}"] if rule else []
        return ", ".join(facts)


def check_refusal(reply: Reply) -> str:
    """Check the envelope of a refusal; return its code, its field, its wait and its message."""
    error = reply.json["error"]
    wait, again = (reply.headers.get(one) for one in ("retry-after-ms", "x-should-retry"))
    if reply.status == 429:
        wait = "SOME"  # it depends on the clock
    waits = [f"wait {wait} ms"] * (wait is not None) + ["no retry"] * (again == "false")
    assert PROMPT not in reply.body
    assert len(reply.body) < 1000
    if "request_id" in reply.json:
        check_messages_error(reply, reply.status, error["type"])
        facts = [error["type"], *waits]
    else:
        check_error(reply, reply.status, error["code"])
        facts = [*filter(None, (error["code"], error["param"])), *waits]
    message = re.sub(r"in [\d.]+ s\b", "in SOME s", error["message"])
    return f"{' '.join(facts) or 'no code'}: {message}"


def show(value: Any) -> str:
    return (
        value
        if isinstance(value, str) and value and "\n" not in value
        else json.dumps(value, ensure_ascii=False)
    )


def pick(path: str, reply: Reply, sent: Exchange | None) -> Any:
    """Pick a header, or a field by names and numbers; `*` stands for each of a list."""
    place, at, name = path.partition("@")
    if at:
        headers = reply.headers if not place or sent is None else sent.headers
        return headers.get(name) if name else " ".join(sorted(headers))
    if path == "body":
        return reply.body.decode(errors="backslashreplace")
    if path == "target" and sent is not None:
        return sent.target
    if (path == "sent" or path.startswith("sent.")) and sent is not None:
        return find(sent.json, path.removeprefix("sent").removeprefix("."))
    if reply.headers["content-type"].startswith("text/event-stream"):
        events = [one if one == b"[DONE]" else json.loads(one) for one in read_data(reply.body)]
        return find([one.decode() if isinstance(one, bytes) else one for one in events], path)
    return find(reply.json, path)


def read_data(body: bytes) -> list[bytes]:
    """Return the data of events, with or without names."""
    return split_events(re.sub(rb"(?m)^event: .*\n", b"", body))


def find(value: Any, path: str) -> Any:
    name, _, rest = path.partition(".")
    if not name:
        return value
    if name == "*":
        return [find(one, rest) for one in value]
    if isinstance(value, list) and name.lstrip("-").isdecimal():
        return find(value[int(name)], rest)
    return find(value.get(name), rest) if isinstance(value, dict) else None


def is_played(line: str) -> bool:
    """Return whether all surfaces and models of a request are there."""
    named = re.findall(r"[\w-]+", line.partition("{")[0])
    picked = line.rpartition(" | ")[2].split()
    return (
        ("kept" not in picked or "observations" in find_extras())
        and ABSENT.isdisjoint(named)
        and not any(path in line for path in NOWHERE)
        and not (NO_MODELS and re.search(rf"(?<![\w\"])({'|'.join(NO_MODELS)})[-/, ]", f"{line} "))
    )


@pytest.mark.parametrize("title", TRANSCRIPTS)
async def test_a_transcript_goes_as_it_is_written(stage: Stage, title: str) -> None:
    path, text = TRANSCRIPTS[title]
    player = Player(stage, Scribe(stage.gateway.folder))
    asks = [ask for ask in read_asks(text) if is_played(ask.line)]
    played = [await player.play(player.scribe.read(one.line), one.scripts) for one in asks]
    played = await player.add_later(played)
    if "WRITE_PLAYED" in os.environ:
        new = f"{text.partition(chr(10))[0]}\n{write_asks(asks, played)}"
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(text, new + "\n" * text.endswith("\n\n")), encoding="utf-8")
    with told_together() as row:
        for ask, told in zip(asks, played, strict=True):
            with row(ask.line):
                assert told.splitlines() == ask.told

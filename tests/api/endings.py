"""The table of endings: every way a request can end, as rows that `test_endings` plays.

`endings.txt` has them. The provider's script tells what the provider does; a row tells what the
ledger records, what is charged, whether the provider's connection can serve again, and the last thing
that the caller gets.

    any, json, stream    what providers and callers do, on the gateway that all tests share
    gateway              what happens to the gateway itself: a stop, a crash, an outage of its ledger
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from tests.streams import drop_comments
from tests.support.chat import (
    MAX_OUTPUT_TOKENS,
    NOTHING,
    SENT,
    Used,
    check_error,
    check_messages_error,
    estimate,
)
from tests.support.chat import read_broken_stream as read_broken_chat
from tests.support.chat import read_stream as read_chat
from tests.support.client import Reply
from tests.support.messages import read_broken_stream as read_broken_messages
from tests.support.messages import read_stream as read_messages
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    chunk,
    chunked,
    completion,
    dumps,
    error_reply,
    head,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    stream_head,
    text_chunks,
)
from tests.support.responses import read_stream as read_responses
from tests.support.upstream import Drip, End, Script, Step, Wait

PROMPT: Final = "Erzähl mir was."
PIECES: Final = ["Es war ", "einmal"]
TEXT: Final = "".join(PIECES)
REPORTED: Final = Used(11, 7)
DELIVERED: Final = Used(SENT, estimate(TEXT))
HOLD: Final = Used(SENT, MAX_OUTPUT_TOKENS)
"""Stands for what was held."""
ERROR: Final = {"error": {"message": "the model crashed", "type": "server_error", "code": "x"}}

Leaves = Literal["never", "before", "during", "finished"]
"""When the caller leaves: never, before a byte came, with the text, or with the finish."""
Last = Literal["reply", "error", "cut", "nothing"]
"""A whole reply; one error, as a status or as the last event; a broken connection; or it is gone."""
Write = Callable[[asyncio.Event], Script]


@dataclass(frozen=True, slots=True)
class Ending:
    """The provider's script, where it waits for the caller, and the expected result."""

    write: Write
    outcome: str
    status: int | None
    """None where nobody knows what the caller got."""
    charge: Used = NOTHING
    kept: bool = False
    """True if the provider's connection can serve again."""
    leaves: Leaves = "never"
    kind: str = "brisk"
    """The kind of the model."""
    told: Last | None = None

    @property
    def waits(self) -> bool:
        """True if it takes the provider's time-out, or the time to notice that a caller left."""
        return self.outcome == "upstream_timeout" or self.leaves == "before"

    @property
    def last(self) -> Last:
        """The last thing that the caller gets."""
        if self.told is not None or self.leaves != "never":
            return self.told or "nothing"
        return "reply" if self.outcome == "complete" else "error"


BODY: Final = dumps(completion(TEXT))
SCRIPTS: Final[dict[str, Sequence[Step]]] = {
    "500": error_reply(500),
    "400": error_reply(400),
    "FIN": [End.FIN],
    "RST": [End.RST],
    "HANG": [End.HANG],
    "NO-HTTP": [b"\x00\x01\r\n\r\n"],
    "HALF-A-HEAD": [b"HTTP/1.1 200 OK\r\nContent-Ty"],
    "INTERIM": [Drip([b"HTTP/1.1 103 Early Hints\r\n\r\n"], 0.4, forever=True)],
    "BODY-BEGUN": [head(200) + b"Content-Length: %d\r\n\r\n" % len(BODY) + BODY[:50]],
    "BODY-REST": [BODY[50:]],
    "CHUNKED-HEAD": [head(200) + b"Transfer-Encoding: chunked\r\n\r\n"],
    "ENDLESS": [Drip([chunked(b"\n")], interval_seconds=0.05, forever=True)],
    "JSON": json_reply(completion(TEXT)),
    "STREAM": sse_reply(stream_chunks(PIECES)),
    "STREAM-HEAD": [stream_head()],
    "BEGUN": sse_start(text_chunks(PIECES, finish=None)),
    "ROLE": sse_start([chunk({"role": "assistant", "content": ""})]),
    "FINISHED": sse_start(text_chunks(PIECES)),
    "FINISH": [chunked(sse(text_chunks([])[-1]))],
    "USAGE": [chunked(sse(stream_chunks([])[-1]))],
    "DONE": [chunked(DONE)],
    "LAST": [LAST_CHUNK],
    "HALF-AN-EVENT": [chunked(b'data: {"id":"chat')],
    "NO-CHUNK": [b"zz\r\n"],
    "DONE-AND-MORE": [chunked(DONE + sse(chunk({"content": "more"})) + DONE)],
    "ERROR": [chunked(sse(ERROR))],
    "COMMENTS": [chunked(b": wait\n\n" * 2**13)] * 17,
    "UNFRAMED": [stream_head(framing="close"), *map(sse, text_chunks(PIECES))],
    "UNFRAMED-PART": [stream_head(framing="close"), *map(sse, text_chunks(PIECES)[:-1])],
    "UNFRAMED-USAGE": [sse(stream_chunks([])[-1])],
    "UNFRAMED-DONE": [DONE],
}
"""The words of `endings.txt`. COMMENTS are more than a stream may have in a row, 1 MiB; ENDLESS is never
silent and never whole, so that only the total deadline ends it; UNFRAMED is a stream up to the finish
without chunks, where the connection's end ends the body."""
CHARGES: Final = {"reported": REPORTED, "delivered": DELIVERED, "hold": HOLD}


def read_ending(line: str) -> tuple[str, Ending]:
    """Read a row: its name, what the provider does, `|`, outcome and status, and what else is so."""
    name, _, row = line.partition(": ")
    script, _, told = row.partition(" | ")
    outcome, status, *words = told.split()
    given = dict(word.split("=") for word in words if "=" in word)

    def write(seen: asyncio.Event) -> Script:
        steps = {**SCRIPTS, "seen": [Wait(seen)]}
        return [step for word in script.split() for step in steps[word]]

    charge = next((CHARGES[word] for word in words if word in CHARGES), NOTHING)
    given = {"leaves": "never", "kind": "brisk"} | given
    at = int(status) if status.isdecimal() else None
    return name, Ending(write, outcome, at, charge, "kept" in words, **cast("Any", given))


def _read_table() -> dict[str, dict[str, Ending]]:
    text = Path(__file__).with_name("endings.txt").read_text(encoding="utf-8")
    tables = [block.splitlines() for block in text.split("== ")[1:]]
    return {
        title: dict(read_ending(line) for line in lines if line and line[0] != "#")
        for title, *lines in tables
    }


TABLES: Final = _read_table()
JSON: Final = TABLES["any"] | TABLES["json"]
STREAM: Final = TABLES["any"] | TABLES["stream"]

Form = Literal["json", "unbegun", "begun"]
"""A JSON request, a stream of which the caller has nothing, and one of which it has the text."""
FORMS: Final[tuple[Form, ...]] = ("json", "unbegun", "begun")


GATEWAY: Final[dict[str, dict[Form, Ending]]] = {}
"""The event that meets the gateway while such requests are in flight, and how each ends."""
for _name, _ending in TABLES["gateway"].items():
    _event, _, _form = _name.rpartition(", ")
    GATEWAY.setdefault(_event, {})[cast("Form", _form)] = _ending


OVERLOADED: Final = ("server_is_overloaded", "overloaded_error")
CODES: Final[dict[str, tuple[str, str]]] = {
    "upstream_error": ("upstream_error", "api_error"),
    "upstream_timeout": ("upstream_timeout", "api_error"),
    "rejected": ("invalid_request_error", "invalid_request_error"),
}
"""The code of an error in chat and its type in messages, by outcome; others are an overload."""
LAST_EVENTS: Final = (b"[DONE]", b"message_stop", b"response.completed")


def check_last(reply: Reply, ending: Ending, caller: str, model: str, *, stream: bool) -> None:
    """Check the end of what the caller got, and what came before it."""
    reply.body = drop_comments(reply.body)
    match ending.last:
        case "nothing" | "cut":
            assert not reply.complete
            assert not any(last in reply.body for last in LAST_EVENTS)
        case "reply":
            assert (reply.status, reply.complete) == (200, True)
            _check_whole(reply, caller, model, stream=stream)
        case "error":
            assert (reply.status, reply.complete) == (ending.status, True)
            _check_error(reply, ending, caller, model)


def _check_whole(reply: Reply, caller: str, model: str, *, stream: bool) -> None:
    if not stream:
        assert TEXT in reply.body.decode()
    elif caller == "chat":
        assert read_chat(reply.body, model).text == TEXT
    elif caller == "messages":
        read_messages(reply.body, model)
        assert all(piece in reply.body.decode() for piece in PIECES)
    else:
        assert read_responses(reply.body, model, "response.completed") == TEXT


def _check_error(reply: Reply, ending: Ending, caller: str, model: str) -> None:
    """Check a status with a body, or one error event behind whole events."""
    code, kind = CODES.get(ending.outcome, OVERLOADED)
    if reply.status != 200:
        if caller == "messages":
            check_messages_error(reply, reply.status, kind)
        else:
            check_error(reply, reply.status, code)
    elif caller == "chat":
        said = read_broken_chat(reply.body, model, code)
        assert said.text == (TEXT if ending.charge.completion else "")
    elif caller == "messages":
        read_broken_messages(reply.body, model, kind, reply.headers["x-request-id"])
    else:
        text = read_responses(reply.body, model, "response.failed")
        assert text == (TEXT if ending.charge.completion else "")

"""Failures as providers tell them, and as callers of each dialect get them: `failures.txt`.

    == too long
    * chat … / responses …        what callers get of each failure of this part, unless it stands below
    # The vendor whose words they are.
    400 {"error": …}              a status, and the body of the provider's answer
    chat 400 code param: message  what a caller of the dialect gets, by every kind of provider
    chat … / messages …           of several callers, if that fits on a line

What the vendor says stands as `…`.

It is told in place of a reply, as a 200, as the first event and behind output, too; `within` stands before
what is different there. A chat caller is told a code and a field, a messages caller a type; `event` is the
code in `response.failed`. To write all of it anew, after a look at what that would change:

    WRITE_FAILURES=1 python -m pytest tests/dialects/wire/test_failures.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gateway.base.errors import BadRequest, GatewayError
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.failures import map_status
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import ReplyContext
from tests.dialects.chat import kit as chat
from tests.dialects.test_faults import BEGUN
from tests.support.formats import EXCHANGES
from tests.support.layout import WIDTH
from tests.support.rows import told_together

PATH: Final = Path(__file__).with_name("failures.txt")
DIALECTS: Final = tuple(BEGUN)
TOLD: Final = re.compile(r"\w+ (?:within )?\d{3} ")
BETWEEN: Final = re.compile(r" / (?=\w+ (?:within )?\d{3} )")


def fail_whole(
    exchange: Exchange, data: bytes, context: ReplyContext, *, stream: bool
) -> GatewayError:
    """Return the failure of a JSON reply, be it raised or charged."""
    try:
        failure = chat.read_whole(exchange, data, context, stream=stream).failure
    except GatewayError as error:
        return error
    assert failure is not None
    return failure


def fail(stream: Pipeline, data: bytes) -> GatewayError:
    stream.feed(data)
    stream.end()
    assert stream.failure is not None
    assert not stream.complete
    return stream.failure


def play(upstream: str, caller: str, body: chat.Json) -> Iterator[GatewayError]:
    """Give what a 200, a first event and a later event with this body are to a caller."""
    exchange, context = EXCHANGES[caller][upstream], chat.make_context(usage=True)
    data = json.dumps(body).encode()
    for stream in (False, True):
        yield fail_whole(exchange, data, context, stream=stream)
    for before in (b"", BEGUN[upstream]):
        yield fail(exchange.open_stream(context), before + b"event: error\ndata: " + data + b"\n\n")


def tell(caller: Caller, error: GatewayError) -> str:
    """Tell an error as a reply and as an event, which say the same."""
    body = json.loads(caller.render_error(error, "request-1"))
    event = caller.render_error_event(error, "request-1", {"sequence_number": 9}, {})
    said = json.loads(event.rpartition(b"data: ")[2])
    inner = body["error"]
    if caller.name == "responses":
        failed = said["response"]["error"]
        assert failed["message"] == inner["message"]
        return f"{error.status} {inner['code']} {inner['param']} event {failed['code']}"
    assert said == body
    if caller.name == "messages":
        return f"{error.status} {inner['type']}: {inner['message']}"
    return f"{error.status} {inner['code']} {inner['param']}: {inner['message']}"


def tell_all(status: int, body: chat.Json) -> list[str]:
    """Tell what a failure is to callers of each dialect; by whom it comes makes no difference."""
    lines = []
    within = body if "error" in body else {"error": body}
    for name in DIALECTS:
        caller = EXCHANGES[name]["chat"].caller
        answered = tell(caller, map_status(status, json.dumps(body).encode(), None))
        errors = [one for upstream in DIALECTS for one in play(upstream, name, within)]
        (inner,) = {tell(caller, one) for one in errors}
        # A fault of the caller's opens no breaker and is repeated by nobody.
        assert {isinstance(one, BadRequest) for one in errors} == {inner.startswith("400")}
        lines.append(f"{name} {answered}")
        if inner != answered:
            lines.append(f"{name} within {inner}")
    said = within["error"].get("message") if isinstance(within["error"], dict) else None
    return [line.replace(said, "…") for line in lines] if said else lines


def fill(told: list[str]) -> list[str]:
    """Put what fits on a line into one."""
    filled = told[:1]
    for line in told[1:]:
        if len(f"{filled[-1]} / {line}") <= WIDTH:
            filled[-1] += f" / {line}"
        else:
            filled.append(line)
    return filled


def read_told(lines: list[str]) -> list[str]:
    """Read what callers are told, of the dialects that are there."""
    parts = (part for line in lines for part in BETWEEN.split(line))
    return [part for part in parts if part.startswith(DIALECTS)]


def test_a_failure_is_told_in_each_dialects_own_words() -> None:
    new: list[str] = []
    old, usual = PATH.read_text(encoding="utf-8").splitlines(), set[str]()
    with told_together() as row:
        for number, line in enumerate(old):
            if line.startswith(("#", "==", "*")) or not line:
                new.append(line)
            if line.startswith(("==", "*")):
                usual = {*BETWEEN.split(line.removeprefix("* "))}
            if not line[:1].isdigit():
                continue
            status, _, body = line.partition(" ")
            end = number + 1
            while end < len(old) and TOLD.match(old[end]):
                end += 1
            with row(line):
                told = [one for one in tell_all(int(status), json.loads(body)) if one not in usual]
                new += (line, *fill(told))
                assert "WRITE_FAILURES" in os.environ or told == read_told(old[number + 1 : end])
    if "WRITE_FAILURES" in os.environ:
        PATH.write_text("\n".join(new) + "\n", encoding="utf-8")

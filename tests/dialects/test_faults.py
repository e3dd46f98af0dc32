"""Replies, events and statuses that are a provider's fault: `faults.txt` has them, and what is said of each.

    == chat                              the dialect, or the service, of caller and provider
    <html>                               a JSON reply, as it came
    [{}]                                 another of which the same is said
    ! The upstream provider's reply …    the failure; `(busy)` stands before one that other routes may heal
    ! (9 0 0 3) The upstream …           one that is charged: input, cached, written, output
    < event: error\\ndata: {"message": …} an event of a stream, alone and behind others

Below `statuses` stand answers that are no 200, and the errors that callers get: a provider's own words are
theirs alone where it finds fault with the request, as others may speak of our key or account.

    429 after 7 {"error": …}             a status, and the seconds that the provider asks to wait
    400 cut {"error": …                  a body of which no more was read
    ! {"status": 503, …}: The upstream … what differs from a plain error, and the words

To write all of it anew, after a look at what that would change:

    WRITE_FAULTS=1 python -m pytest tests/dialects/test_faults.py && git diff
"""

from __future__ import annotations

import itertools
import json
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.base.errors import (
    NO_NAMES,
    GatewayError,
    UndeliverableReply,
    UpstreamError,
    UpstreamUnavailable,
)
from gateway.base.usage import Metered
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.failures import map_status
from tests.dialects.chat import kit as chat
from tests.dialects.messages import kit as messages
from tests.support.formats import EXCHANGES, SERVICES, find_texts
from tests.support.rows import told_together

PATHS: Final = (Path(__file__).with_name("faults.txt"), *find_texts("faults.txt"))
SECTIONS: Final = [
    pytest.param(path, text, id=text.partition("\n")[0])
    for path in PATHS
    for text in path.read_text(encoding="utf-8").split("== ")[1:]
]
BEGUN: Final = {
    "chat": chat.BEGIN + chat.HI * 2,
    "messages": messages.frame(
        messages.start(input_tokens=10), messages.open_block(0, text=""), messages.say("Hi")
    ),
    **{
        name: begun
        for path in find_texts("faults.py")
        for name, begun in import_module(f"tests.extras.{path.parent.name}.faults").BEGUN.items()
    },
}


def find_exchanges(name: str) -> list[Exchange]:
    """Return the exchanges with a provider: with callers of all dialects, or of the service."""
    return [SERVICES[name]] if name in SERVICES else [one[name] for one in EXCHANGES.values()]


def tell(error: Any, metered: Metered | None = None) -> str:
    assert isinstance(error, UpstreamError)
    assert error.status == (503 if isinstance(error, UpstreamUnavailable) else 502)
    mark = "(busy) " * isinstance(error, UpstreamUnavailable)
    if isinstance(error, UndeliverableReply):
        assert metered
        tokens = metered.tokens
        written = tokens.cache_write + tokens.cache_write_1h
        mark = f"({tokens.input} {tokens.cached_input} {written} {tokens.output}) "
        mark += "(estimated) " * metered.estimated
    return f"! {mark}{error.message}"


ANSWER: Final = re.compile(r"^(\d+)(?: after (\d+))?( cut)? ?(.*)$")
USUAL: Final[dict[str, object]] = {
    "retry_after_seconds": 1.0,
    **dict.fromkeys(("code", "param", "detail_code", "alarm", "next_route", "blame")),
    "should_retry": True,
    "rest_seconds": 0.0,
    "provider_error": NO_NAMES,
    "cause": "",
}
"""The fields of an error, and the values that are not told."""


def map_answer(line: str) -> str:
    ((status, after, cut, body),) = ANSWER.findall(line)
    wait = float(after) if after else None
    error = map_status(int(status), body.encode(), wait, is_cut=bool(cut))
    told: dict[str, Any] = {"is": type(error).__name__, "status": error.status}
    for name, usual in USUAL.items():
        value = getattr(error, name, usual)
        if value not in (usual, None, False, ""):
            told[name] = value
    return f"! {json.dumps(told)}: {error.message}"


def read(name: str, line: str) -> str:
    """Play the body where a reply is wanted, and where a stream is, if it may be JSON."""
    told, context = set[str](), chat.make_context({"encoding_format": "base64"})
    is_events = line.startswith(("data:", "event:"))
    body = line.replace("\\n", "\n").encode() if is_events else line.encode()
    for exchange in find_exchanges(name):
        may_stream = exchange.caller.may_stream and not exchange.upstream.makes_audio
        for stream in (False, True) if may_stream and not is_events else (False,):
            try:
                made = chat.read_whole(exchange, body, context, stream=stream)
            except GatewayError as error:
                told.add(tell(error))
                continue
            told.add(tell(made.failure, made.metered))
            # Of a reply that is cut short, the caller of a stream gets what there is.
            assert made.body == b"" or "cut short" in str(made.failure)
    (one,) = told
    return one


@pytest.mark.parametrize("name", BEGUN)
def test_a_null_between_events_says_nothing(name: str) -> None:
    for exchange in find_exchanges(name):
        whole, stream = (exchange.open_stream(chat.make_context(usage=True)) for _ in range(2))
        assert stream.feed(b"data: null\n\n" + BEGUN[name]) == whole.feed(BEGUN[name])
        assert stream.failure is None


def hear(name: str, line: str) -> str:
    """Play the event; neither it nor what is behind it goes out."""
    said, told = line.replace("\\n", "\n").encode() + b"\n\n", set[str]()
    for exchange, before in itertools.product(find_exchanges(name), (b"", BEGUN[name])):
        whole = exchange.open_stream(chat.make_context(usage=True)).feed(before)
        stream = exchange.open_stream(chat.make_context(usage=True))
        assert stream.feed(before + said + BEGUN[name]) == whole
        assert not stream.complete
        told.add(tell(stream.failure))
    (one,) = told
    return one


@pytest.mark.parametrize(("path", "text"), SECTIONS)
def test_what_is_no_reply_is_the_providers_fault(path: Path, text: str) -> None:
    name, *lines = text.rstrip("\n").split("\n")
    new, alike = [name], list[str]()
    with told_together() as row:
        for line in lines:
            if not line.startswith("! "):
                alike.append(line)
                continue
            for one in alike:
                with row(one):
                    if name == "statuses":
                        now = map_answer(one)
                    else:
                        now = hear(name, one[2:]) if one.startswith("< ") else read(name, one)
                    new = [*(new[:-1] if new[-1] == now else new), one, now]
                    assert "WRITE_FAULTS" in os.environ or line == now
            alike = []
    assert not alike
    if "WRITE_FAULTS" in os.environ:
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(text.rstrip("\n"), "\n".join(new)), encoding="utf-8")

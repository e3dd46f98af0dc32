"""Replies and events that are a provider's fault: `faults.txt` has them, and what is said of each.

    == chat                              the dialect, or the service, of caller and provider
    <html>                               a JSON reply, as it came
    ! The upstream provider's reply …    the failure; `(busy)` stands before one that other routes may heal
    < event: error\\ndata: {"message": …} an event of a stream, alone and behind others

To write all of it anew, after a look at what that would change:

    WRITE_FAULTS=1 python -m pytest tests/dialects/test_faults.py && git diff
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.dialects.exchanges import EXCHANGES, SERVICES, Exchange
from gateway.errors import UpstreamError, UpstreamUnavailable
from tests.dialects.chat import kit as chat
from tests.dialects.messages import kit as messages
from tests.dialects.responses import kit as responses
from tests.support.rows import told_together

PATH: Final = Path(__file__).with_name("faults.txt")
SECTIONS: Final = PATH.read_text(encoding="utf-8").split("== ")[1:]
BEGUN: Final = {
    "chat": chat.BEGIN + chat.HI * 2,
    "messages": messages.frame(
        messages.start(input_tokens=10), messages.open_block(0, text=""), messages.say("Hi")
    ),
    "responses": responses.frame(
        {"type": "response.created", "response": responses.make_response(status="in_progress")},
        responses.delta("Hi"),
    ),
}


def find_exchange(name: str) -> Exchange:
    services = {exchange.caller.name: exchange for exchange in SERVICES}
    return services.get(name) or EXCHANGES[name][name]


def tell(error: Any) -> str:
    assert isinstance(error, UpstreamError)
    assert error.status == (503 if isinstance(error, UpstreamUnavailable) else 502)
    return f"! {'(busy) ' * isinstance(error, UpstreamUnavailable)}{error.message}"


def read(name: str, line: str) -> str:
    exchange = find_exchange(name)
    with pytest.raises(UpstreamError) as caught:
        exchange.read_reply(line.encode(), chat.make_context({"encoding_format": "base64"}))
    if name in EXCHANGES and "empty" not in caught.value.message:
        with pytest.raises(UpstreamError):
            exchange.replay_reply(line.encode())
    return tell(caught.value)


def hear(name: str, line: str) -> str:
    """Play the event; neither it nor what is behind it goes out."""
    said, told = line.replace("\\n", "\n").encode() + b"\n\n", set[str]()
    for before in (b"", BEGUN[name]):
        exchange = find_exchange(name)
        whole = exchange.open_stream(chat.make_context(usage=True)).feed(before)
        stream = exchange.open_stream(chat.make_context(usage=True))
        assert stream.feed(before + said + BEGUN[name]) == whole
        assert not stream.complete
        told.add(tell(stream.failure))
    (one,) = told
    return one


@pytest.mark.parametrize("text", SECTIONS, ids=[one.partition("\n")[0] for one in SECTIONS])
def test_what_is_no_reply_is_the_providers_fault(text: str) -> None:
    name, *lines = text.rstrip("\n").split("\n")
    new = [name]
    with told_together() as row:
        for line, then in zip(lines, [*lines[1:], ""], strict=True):
            if not line.startswith("! "):
                with row(line):
                    now = hear(name, line[2:]) if line.startswith("< ") else read(name, line)
                    new += (line, now)
                    assert "WRITE_FAULTS" in os.environ or then == now
    if "WRITE_FAULTS" in os.environ:
        whole = PATH.read_text(encoding="utf-8")
        PATH.write_text(whole.replace(text.rstrip("\n"), "\n".join(new)), encoding="utf-8")

"""An upstream that dies at one byte of its stream: what the caller must read and pay.

The expected result is computed from the sent bytes, independently of the gateway.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anthropic
import openai
from anthropic.types import RawMessageStreamEvent
from openai.types.chat import ChatCompletionChunk

from tests.api.scene import ASKS, Settled, at_most, read_all_settled, set_stage
from tests.streams import get_stream
from tests.support.chat import NOTHING, Used, estimate, estimate_sent
from tests.support.config import Dialect, Kind
from tests.support.content import read_usage
from tests.support.replies import LAST_CHUNK, chunked, stream_head
from tests.support.sdks import Clients
from tests.support.upstream import End, Exchange, Script

CALLS_PER_MODEL: Final = 4
"""Fewer than the failures in a row that open the breaker."""
DEATHS: Final = ("reset", "ended", "closed")
"""A reset; a clean last chunk; a close that ends a body without a length."""
PROMPT: Final = re.compile(rb"Play (\w+) at (\d+)\.")
AT_ONCE: Final = 30
PAIRS: Final = [
    (caller, provider) for caller in ("chat", "messages") for provider in ("chat", "messages")
]
BODIES: Final = {
    "chat": get_stream("mistral-text").body,
    "messages": get_stream("anthropic-text").body,
}
"""The stream that a provider of each dialect sends."""


@dataclass(frozen=True, slots=True)
class Case:
    """One death of the upstream: its kind, and the number of body bytes before it."""

    death: str
    offset: int
    number: int

    @property
    def prompt(self) -> str:
        return f"Play {self.death} at {self.offset}."


def make_cases(size: int, step: int) -> list[Case]:
    """Make a case for every `step`-th offset, each kind from another start, and for both ends."""
    points = [
        (death, offset)
        for start, death in enumerate(DEATHS)
        for offset in sorted({0, size, size - 1, *range(start % step, size + 1, step)})
    ]
    return [Case(death, offset, number) for number, (death, offset) in enumerate(points)]


def make_kind(provider: str, count: int) -> dict[str, Kind]:
    dialects: tuple[Dialect, ...] = ("messages",) if provider == "messages" else ("chat",)
    return {"mortal": Kind(("alpha",), -(-count // CALLS_PER_MODEL), dialects=dialects)}


def make_upstream(
    body: bytes, asked: dict[str, bytes] | None = None
) -> Callable[[Exchange], Script]:
    """Make an upstream that dies as the prompt says; `asked` takes each request, by its prompt."""

    def play(exchange: Exchange) -> Script:
        found = PROMPT.search(exchange.body)
        assert found is not None
        if asked is not None:
            asked[found[0].decode()] = exchange.body
        return die(body, found)

    return play


def die(body: bytes, asked: re.Match[bytes]) -> Script:
    """Send as many bytes of a stream as the prompt says, and end in its way."""
    part = body[: int(asked[2])]
    match asked[1]:
        case b"reset":
            return [stream_head(), chunked(part), End.RST]
        case b"ended":
            return [stream_head(), chunked(part), LAST_CHUNK]
        case _:
            return [stream_head(framing="close"), part, End.FIN]


@dataclass(slots=True)
class Heard:
    """The content that the SDK gave its user."""

    request_id: str
    text: str = ""
    finished: bool = False
    raised: bool = False


def _hear_chunk(heard: Heard, chunk: ChatCompletionChunk) -> None:
    for choice in chunk.choices:
        heard.text += choice.delta.content or ""
        heard.finished |= choice.finish_reason is not None


def _hear_event(heard: Heard, event: RawMessageStreamEvent) -> None:
    if event.type == "content_block_delta" and event.delta.type == "text_delta":
        heard.text += event.delta.text
    heard.finished |= event.type == "message_delta" and bool(event.delta.stop_reason)


async def hear(clients: Clients, caller: str, case: Case) -> tuple[Case, Heard]:
    body = ASKS[caller](f"mortal/{case.number // CALLS_PER_MODEL}", case.prompt)
    is_chat = caller == "chat"
    asked: Any = clients.chat.chat.completions if is_chat else clients.messages.messages
    hear_one: Callable[[Heard, Any], None] = _hear_chunk if is_chat else _hear_event
    heard = Heard("")
    try:
        stream = await asked.create(**body, stream=True)
        heard.request_id = stream.response.headers["x-request-id"]
        async for one in stream:
            hear_one(heard, one)
    except (openai.APIError, anthropic.APIError) as error:
        heard.raised = True
        if isinstance(error, openai.APIStatusError | anthropic.APIStatusError):
            heard.request_id = error.response.headers["x-request-id"]
    return case, heard


@dataclass(slots=True)
class Sent:
    """The request that the upstream got, and the content that it had sent when it died."""

    asked: bytes
    text: str = ""
    used: Used | None = None
    finished: bool = False
    complete: bool = False


def read_sent(provider: str, body: bytes, case: Case, asked: dict[str, bytes]) -> Sent:
    """Read the sent bytes. At a clean end the last event counts even without its blank line."""
    *blocks, rest = body[: case.offset].split(b"\n\n")
    is_clean = case.death != "reset"
    if is_clean or rest.startswith(b"data: [DONE]\n"):
        blocks.append(rest)
    sent = Sent(asked[case.prompt])
    usage: dict[str, Any] = {}
    for data in _read_payloads(blocks):
        if data == b"[DONE]":
            sent.complete = True
        elif (event := _maybe_parse(data)) is not None:
            (_add_chunk if provider == "chat" else _add_event)(sent, usage, event)
    if usage:
        sent.used = _USED[provider](usage)
    sent.complete |= is_clean and sent.finished
    return sent


def _read_payloads(blocks: list[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for line in block.split(b"\n"):
            if line.startswith(b"data: "):
                yield line.removeprefix(b"data: ")


def _maybe_parse(data: bytes) -> dict[str, Any] | None:
    try:
        event: dict[str, Any] = json.loads(data)
    except ValueError:
        return None
    return event


def _add_chunk(sent: Sent, usage: dict[str, Any], event: dict[str, Any]) -> None:
    for choice in event["choices"]:
        sent.text += choice["delta"].get("content") or ""
        sent.finished |= choice["finish_reason"] is not None
    usage |= event.get("usage") or {}


def _add_event(sent: Sent, usage: dict[str, Any], event: dict[str, Any]) -> None:
    usage |= event.get("usage") or event.get("message", {}).get("usage") or {}
    sent.text += event.get("delta", {}).get("text", "")
    sent.finished |= event["type"] == "message_delta"
    sent.complete |= event["type"] == "message_stop"


def _read_chat_usage(usage: dict[str, Any]) -> Used:
    return Used(usage["prompt_tokens"], usage["completion_tokens"])


_USED: Final = {"chat": _read_chat_usage, "messages": read_usage}


def expect_charge(sent: Sent) -> int:
    """Return the reported charge if complete, 0 for nothing, else the larger of the two."""
    if sent.complete:
        assert sent.used is not None
        return sent.used.cost_nano
    if not sent.text:
        return NOTHING.cost_nano
    delivered = estimate(sent.text)
    if sent.used is None:
        return Used(estimate_sent(sent.asked), delivered).cost_nano
    return Used(sent.used.prompt, max(sent.used.completion, delivered)).cost_nano


def judge(case: Case, heard: Heard, sent: Sent, settled: Settled, whole: Sent) -> str | None:
    """Return what is wrong with the result of a case, or None."""
    wrong = []
    if not heard.raised and (heard.text, heard.finished) != (whole.text, True):
        wrong.append("a silently short answer")
    if heard.raised == sent.complete:
        wrong.append("raised though complete" if heard.raised else "not raised though cut")
    if heard.text != sent.text:
        wrong.append(f"text {heard.text!r} of {sent.text!r}")
    charge = expect_charge(sent)
    state = "posted" if charge else "voided"
    outcome = "complete" if sent.complete else "upstream_error"
    expected = Settled(state, outcome, charge, charge, int(charge > 0))
    if settled != expected:
        wrong.append(f"{settled} instead of {expected}")
    return f"{case}: {'; '.join(wrong)}" if wrong else None


async def play_offsets(caller: str, provider: str, step: int) -> tuple[int, list[str]]:
    """Play the deaths; return their number and the faults."""
    body = BODIES[provider]
    cases = make_cases(len(body), step)
    async with set_stage(kinds=make_kind(provider, len(cases))) as stage:
        asked: dict[str, bytes] = {}
        stage.alpha.always(make_upstream(body, asked))
        clients = Clients(stage.gateway, stage.key)
        ended = await at_most(AT_ONCE, [partial(hear, clients, caller, case) for case in cases])
        await clients.close()
        stage.running.prove_books()
        rows = read_all_settled(stage.books)
    whole = read_sent(provider, body, cases[-1], asked)
    verdicts = [
        judge(case, heard, read_sent(provider, body, case, asked), rows[heard.request_id], whole)
        for case, heard in ended
    ]
    assert len(rows) == len(cases)
    return len(cases), [verdict for verdict in verdicts if verdict is not None]

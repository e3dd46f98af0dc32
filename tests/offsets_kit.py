"""An upstream that dies at one byte of a recorded stream, and what its caller then must hear and pay.

What is expected is worked out from the bytes that were sent, by a reading of our own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import anthropic
import openai
from scene_kit import ASKS, Settled, at_most, read_all_settled, set_stage
from support import recorded
from support.chat import NOTHING, Used, estimate
from support.config import Dialect, Kind
from support.messages import frame_line
from support.pairs import Clients
from support.replies import DONE, LAST_CHUNK, chunked, stream_head
from support.told import read_usage
from support.upstream import End, Exchange, Script

CALLS_PER_MODEL: Final = 4
"""Fewer than failures in a row shut a provider off."""
DEATHS: Final = ("reset", "ended", "closed")
"""RST; a clean last chunk; the close that frames a body without a length."""
AT_ONCE: Final = 30
PAIRS: Final = [
    (caller, provider) for caller in ("chat", "messages") for provider in ("chat", "messages")
]


def load(provider: str) -> bytes:
    """The whole body of a recorded text stream, as its provider sends it."""
    if provider == "chat":
        lines = recorded.load_lines("mistral-text")
        return b"".join(b"data: %b\n\n" % line for line in lines) + DONE
    path = recorded.FOLDER.parent / "messages" / "text.jsonl"
    return b"".join(map(frame_line, path.read_bytes().splitlines()))


@dataclass(frozen=True, slots=True)
class Case:
    """One death of the upstream: how, and after how many bytes of the body."""

    death: str
    offset: int
    number: int

    @property
    def prompt(self) -> str:
        return f"Play {self.death} at {self.offset}."


def make_cases(size: int, step: int) -> list[Case]:
    """Every `step`-th offset, each death beginning elsewhere, and both ends."""
    points = [
        (death, offset)
        for start, death in enumerate(DEATHS)
        for offset in sorted({0, size, size - 1, *range(start % step, size + 1, step)})
    ]
    return [Case(death, offset, number) for number, (death, offset) in enumerate(points)]


def make_kind(provider: str, count: int) -> dict[str, Kind]:
    dialects: tuple[Dialect, ...] = ("messages",) if provider == "messages" else ("chat",)
    return {"mortal": Kind(("alpha",), -(-count // CALLS_PER_MODEL), dialects=dialects)}


def make_upstream(body: bytes) -> Callable[[Exchange], Script]:
    """Dies as the prompt says."""

    def play(exchange: Exchange) -> Script:
        found = re.search(rb"Play (\w+) at (\d+)\.", exchange.body)
        assert found is not None
        part = body[: int(found[2])]
        match found[1]:
            case b"reset":
                return [stream_head(), chunked(part), End.RST]
            case b"ended":
                return [stream_head(), chunked(part), LAST_CHUNK]
            case _:
                return [stream_head(framing="close"), part, End.FIN]

    return play


@dataclass(slots=True)
class Heard:
    """What the SDK told its user."""

    request_id: str
    text: str = ""
    finished: bool = False
    raised: bool = False


async def hear_chat(clients: Clients, body: dict[str, Any]) -> Heard:
    try:
        stream = await clients.chat.chat.completions.create(**body, stream=True)
    except openai.APIStatusError as error:
        return Heard(error.response.headers["x-request-id"], raised=True)
    heard = Heard(stream.response.headers["x-request-id"])
    try:
        async for chunk in stream:
            for choice in chunk.choices:
                heard.text += choice.delta.content or ""
                heard.finished |= choice.finish_reason is not None
    except openai.APIError:
        heard.raised = True
    return heard


async def hear_messages(clients: Clients, body: dict[str, Any]) -> Heard:
    try:
        stream = await clients.messages.messages.create(**body, stream=True)
    except anthropic.APIStatusError as error:
        return Heard(error.response.headers["x-request-id"], raised=True)
    heard = Heard(stream.response.headers["x-request-id"])
    try:
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                heard.text += event.delta.text
            heard.finished |= event.type == "message_delta" and bool(event.delta.stop_reason)
    except anthropic.APIError:
        heard.raised = True
    return heard


HEAR: Final[dict[str, Callable[[Clients, dict[str, Any]], Awaitable[Heard]]]] = {
    "chat": hear_chat,
    "messages": hear_messages,
}


async def hear(clients: Clients, caller: str, case: Case) -> tuple[Case, Heard]:
    model = f"mortal/{case.number // CALLS_PER_MODEL}"
    return case, await HEAR[caller](clients, ASKS[caller](model, case.prompt))


@dataclass(slots=True)
class Sent:
    """What the upstream had said when it died."""

    text: str = ""
    used: Used | None = None
    finished: bool = False
    complete: bool = False


def read_sent(provider: str, body: bytes, case: Case) -> Sent:
    """An event counts when it is whole, at a clean end without its blank line too."""
    *blocks, rest = body[: case.offset].split(b"\n\n")
    is_clean = case.death != "reset"
    if is_clean or rest.startswith(b"data: [DONE]\n"):
        blocks.append(rest)
    sent = Sent()
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


def expect_charge(sent: Sent, case: Case) -> int:
    """Reported when complete, nothing for nothing, else the larger of reported and delivered."""
    if sent.complete:
        assert sent.used is not None
        return sent.used.cost_nano
    if not sent.text:
        return NOTHING.cost_nano
    delivered = estimate(sent.text)
    if sent.used is None:
        return Used(estimate(case.prompt), delivered).cost_nano
    return Used(sent.used.prompt, max(sent.used.completion, delivered)).cost_nano


def judge(case: Case, heard: Heard, sent: Sent, settled: Settled, whole: Sent) -> str | None:
    """What is wrong with how a case ended, if anything."""
    wrong = []
    if not heard.raised and (heard.text, heard.finished) != (whole.text, True):
        wrong.append("a silently short answer")
    if heard.raised == sent.complete:
        wrong.append("raised though complete" if heard.raised else "not raised though cut")
    if heard.text != sent.text:
        wrong.append(f"text {heard.text!r} of {sent.text!r}")
    charge = expect_charge(sent, case)
    state = "posted" if charge else "voided"
    outcome = "complete" if sent.complete else "upstream_error"
    expected = Settled(state, outcome, charge, charge, int(charge > 0))
    if settled != expected:
        wrong.append(f"{settled} instead of {expected}")
    return f"{case}: {'; '.join(wrong)}" if wrong else None


async def play_offsets(caller: str, provider: str, step: int) -> tuple[int, list[str]]:
    """How many deaths were played, and what was wrong."""
    body = load(provider)
    cases = make_cases(len(body), step)
    async with set_stage(kinds=make_kind(provider, len(cases))) as stage:
        stage.alpha.always(make_upstream(body))
        clients = Clients(stage)
        ended = await at_most(AT_ONCE, [partial(hear, clients, caller, case) for case in cases])
        await clients.close()
        stage.running.prove_books()
        rows = read_all_settled(stage.books)
    whole = read_sent(provider, body, cases[-1])
    verdicts = [
        judge(case, heard, read_sent(provider, body, case), rows[heard.request_id], whole)
        for case, heard in ended
    ]
    assert len(rows) == len(cases)
    return len(cases), [verdict for verdict in verdicts if verdict is not None]

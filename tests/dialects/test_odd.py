"""Odd requests, replies and streams of every pair: never an internal error, and the rules are kept."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

import pytest

from gateway.base.errors import BadRequest, GatewayError
from gateway.dialects.wire.records import Reasoning, Target
from tests import streams
from tests.dialects.chat.kit import DONE, Json, dump, make_context, make_dice, play, random_slices
from tests.dialects.rules import check_rules
from tests.dialects.test_provider_streams import list_events, play_in, rename
from tests.streams import Stream, drop_comments
from tests.support.formats import EXCHANGES
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.rows import each_row

TIMES: Final = 200 if ALL_EXAMPLES else 40
JUNK: Final[tuple[Any, ...]] = (
    *(None, True, 0, -1, 1.5, 2**64, "", "x", "{", "auto", [], ["a"], [None], {}),
    *({"type": "x"}, {"type": "text", "text": "a"}, {"type": ["function"]}, {"a": {"b": []}}),
)
TEMPLATES: Final[dict[str, dict[str, Json]]] = json.loads(
    Path(__file__).with_name("odd.json").read_text(encoding="utf-8")
)
"""Requests and replies with nearly everything, by dialect: each member becomes something else."""
REQUESTS, REPLIES = TEMPLATES["requests"], TEMPLATES["replies"]


def mangle(value: Any, dice: random.Random, rate: float) -> Any:
    """Return a copy in which members and items are missing, twice there, or something else."""
    if dice.random() < rate:
        return dice.choice(JUNK)
    if isinstance(value, dict):
        kept = {key: held for key, held in value.items() if dice.random() > rate / 2}
        return {key: mangle(held, dice, rate) for key, held in kept.items()}
    if isinstance(value, list):
        copies = [
            one for one in value for _ in range(dice.choice((0, 2)) if dice.random() < rate else 1)
        ]
        return [mangle(one, dice, rate) for one in copies]
    return value


TARGETS: Final = [
    Target("theirs", reasoning=one, leading_system=one == "none") for one in get_args(Reasoning)
]
STAND_INS: Final[tuple[Any, ...]] = (None, 7, "x", ["a"], {"type": ["a"]})


def sketch(value: Any) -> str:
    return type(value).__name__ if value else repr(value)


def vary(
    value: Any, place: tuple[str, ...] = (), known: set[tuple[str, ...]] | None = None
) -> Iterator[Any]:
    """Give a copy for each member and item, at any depth, and each thing that may stand there instead.

    With `known`, objects are left alone whose members were given at the same place before, of the same types.
    """
    members = list(value.items() if isinstance(value, dict) else enumerate(value))
    mark = (*place, "of", *(f"{name}: {sketch(held)}" for name, held in members))
    stand_ins = STAND_INS if known is None or mark not in known else ()
    if known is not None:
        known.add(mark)
    for name, held in members:
        inner = (*place, name if isinstance(value, dict) else "")
        others = vary(held, inner, known) if isinstance(held, (dict, list)) else ()
        for other in (*stand_ins, *others):
            copy = value.copy()
            copy[name] = other
            yield copy


@each_row("caller", EXCHANGES)
@each_row("upstream", EXCHANGES)
def test_any_member_may_be_anything(caller: str, upstream: str) -> None:
    """A request is written or refused; a reply is read, or the provider's fault."""
    exchange, targets = EXCHANGES[caller][upstream], itertools.cycle(TARGETS)
    for body in (*STAND_INS, *vary(REQUESTS[caller])):
        data = dump({"model": "m", **body} if isinstance(body, dict) else body)
        with contextlib.suppress(BadRequest):
            exchange.write_request(exchange.caller.parse_request(data), next(targets))
    for body in (*STAND_INS, *vary(REPLIES[upstream])):
        for read in (exchange.read_reply, exchange.replay_reply):
            with contextlib.suppress(GatewayError):
                read(dump(body), make_context())


EVERY: Final = (*streams.CHAT, *streams.MESSAGES, *streams.RESPONSES)
HEARD: Final = [
    (caller, stream) for stream in EVERY for caller in EXCHANGES if caller != stream.dialect
]
MISHAPS: Final = (
    b"", b"\n", b"\n\n", b"null", b'"', b"{}", b"[]", b"7", b"\xff", b"\r", b"data: ", b":",
)  # fmt: skip


def outline(value: Any) -> str:
    """Return which members an event has, with its type: events that have the same are read alike."""
    if isinstance(value, dict):
        return "".join(f"{key}({outline(held)})" for key, held in value.items())
    return outline(value[0]) if isinstance(value, list) and value else ""


@pytest.mark.daily
@pytest.mark.parametrize("caller", EXCHANGES)
@pytest.mark.parametrize("upstream", EXCHANGES)
def test_any_member_of_an_event_may_be_anything(caller: str, upstream: str) -> None:
    open_stream = EXCHANGES[caller][upstream].open_stream
    kinds = {
        outline(event) + str(event.get("type")): (stream.objects, number)
        for stream in EVERY
        for number, event in enumerate(stream.objects)
        if stream.dialect == upstream
    }
    known: set[tuple[str, ...]] = set()
    for objects, number in kinds.values():
        before, after = objects[max(number - 4, 0) : number], objects[number + 1 :][:4]
        event = objects[number]
        for other in (*STAND_INS, *vary(event, (str(event.get("type")),), known)):
            events = (*objects[:1], *before, other, *after)
            body = b"".join(b"data: " + dump(one) + b"\n\n" for one in events)
            play(open_stream(make_context(usage=True)), [body])


def spoil(body: bytes, dice: random.Random) -> bytes:
    """Return a stream of which some bytes are something else, or missing."""
    mangled = bytearray(body)
    for _ in range(dice.randint(1, 6)):
        at = dice.randrange(len(mangled))
        mangled[at : at + dice.choice((0, 1, 9))] = dice.choice(MISHAPS)
    return bytes(mangled)


@each_row(("caller", "stream"), HEARD)
def test_an_odd_stream_keeps_the_rules_in_any_slicing(caller: str, stream: Stream) -> None:
    """Its members are mangled, or its bytes. It ends in a failure, or else well."""
    dice = make_dice()
    for number in range(TIMES // 10):
        if number % 2:
            objects = [mangle(one, dice, 0.02) for one in stream.objects]
            framed = (b"data: " + dump(one) + b"\n\n" for one in objects)
            body = b"".join(framed) + (DONE if stream.dialect == "chat" else b"")
        else:
            body = spoil(stream.body, dice)
        open_stream = EXCHANGES[caller][stream.dialect].open_stream
        played = play(open_stream(make_context(usage=True)), [body])
        sliced = play(open_stream(make_context(usage=True)), random_slices(body, dice))
        assert sliced == played
        complete = played.complete and not played.failure
        check_rules(caller, drop_comments(played.out), complete=complete)


@streams.each(*(one for one in EVERY if one.repaired == (0, 0)))
def test_what_comes_before_an_odd_event_passes_byte_for_byte(stream: Stream) -> None:
    dice, blocks = make_dice(), list_events(rename(stream))
    for _ in range(TIMES // 10):
        before = blocks[: dice.randrange(1, len(blocks) - 1)]  # a chat's usage waits for the end
        body = b"".join(stream.blocks[: len(before)])
        body += spoil(b"".join(stream.blocks[len(before) :]), dice)
        assert play_in(stream.dialect, stream, body).out.startswith(b"".join(before))

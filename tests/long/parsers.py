"""Random bytes for all that parses a stranger's, a caller's or a provider's: one rule each, on spoiled samples.

A parser raises nothing but its own errors, takes at most `MS_PER_KB` of the processor, and says the same
however its input is cut. The samples are those of the suite.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import random
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import stripe as sdk

from gateway.api.paths import clean_path, explain_path
from gateway.api.wire import choose_caller
from gateway.base.errors import GatewayError
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire import bounds, jsonbytes
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.records import Target
from gateway.dialects.wire.seals import open_seals, seal, split_id
from gateway.extras.audio.forms import FormReader
from gateway.extras.cards.provider import BadMessage, BadSignature
from gateway.extras.cards.settings import Cards
from gateway.extras.cards.stripe import Stripe
from gateway.extras.cards.stripe_objects import READERS
from gateway.ledger.records import Refused
from gateway.upstream.http1 import BadResponse
from tests.api import mutations
from tests.dialects import test_odd
from tests.dialects.chat.kit import make_context, play, random_slices
from tests.extras.audio import test_forms
from tests.streams import drop_comments
from tests.support.formats import EVERY_CALLER, EXCHANGES
from tests.upstream import test_http1

MS_PER_KB: Final = 50.0
"""A busy machine may take ten times as long as a quiet one: slower growth than this is no attack."""
ROUND: Final = 20
"""Inputs of a parser in a row."""
SHOWN_BYTES: Final = 300
LEAST_BYTES: Final = 60
"""Shorter inputs are not spoiled any more: a change takes up to nine bytes, six times."""
ALLOWED: Final = (GatewayError, BadResponse, BadMessage, BadSignature, Refused)
TAG: Final = "t."
SECRET: Final = "whsec_1"
Read = Callable[[Sequence[bytes]], object]


@dataclass(frozen=True, slots=True)
class Parser:
    name: str
    samples: Sequence[bytes]
    read: Read
    """Takes an input in pieces; returns what is to be equal however they are cut."""


class Broken(AssertionError):
    """A parser broke a rule."""


def whole(read: Callable[[bytes], object]) -> Read:
    return lambda pieces: read(b"".join(pieces))


def read_request(caller: Caller, body: bytes) -> object:
    request = caller.parse_request(body)
    for exchange in EXCHANGES.get(caller.name, {}).values():
        with contextlib.suppress(GatewayError):
            exchange.write_request(request, Target("theirs", reasoning="effort"))
    return request.model


def read_reply(exchange: Exchange, body: bytes) -> object:
    if isinstance(exchange.upstream, EventUpstream):
        with contextlib.suppress(GatewayError):
            exchange.replay_reply(body, make_context())
    return exchange.read_reply(body, make_context()).metered


def read_response(pieces: Sequence[bytes]) -> object:
    reader, body, refused = test_http1.read(tuple(pieces))
    return body, bool(refused), reader.done and not refused


def read_form(pieces: Sequence[bytes]) -> object:
    form, content = FormReader(test_forms.TYPE), b""
    for one in pieces:
        content += form.feed(one)
    return form.dump(), content, form.file_name


def read_seals(text: bytes) -> object:
    found = text.decode("latin-1")
    return open_seals(found, TAG), split_id(found)


def read_message(body: bytes) -> object:
    stamp = int(time.time())
    sign = hmac.new(SECRET.encode(), b"%d." % stamp + body, hashlib.sha256).hexdigest()
    return STRIPE.read_message(body, f"t={stamp},v1={sign}")


def read_json(text: bytes) -> object:
    """Compare our own scan of strings and nesting with the parser."""
    count = bounds.count_elements(text, bounds.MAX_ELEMENTS)
    value = jsonbytes.maybe_loads(text)
    assert value is None or count <= bounds.bound_elements(text)
    return repr(value)


def read_head(head: bytes) -> object:
    path = head.partition(b" ")[2].decode("latin-1")
    return choose_caller(head).name, clean_path(path), explain_path(path)


STRIPE: Final = Stripe(Cards("sk_test_1", SECRET, (), 0, 0, "https://stripe.test"))
PAID: Final = {
    "id": "cs_1",
    "object": "checkout.session",
    "payment_status": "paid",
    "status": "complete",
    "amount_total": 500,
    "currency": "eur",
    "payment_intent": "pi_1",
    "metadata": {"order": "1"},
    "client_reference_id": "1",
    "amount": 5,
    "amount_refunded": 5,
    "charge": "ch_1",
    "balance_transactions": [{"fee": 1, "currency": "eur", "id": "txn_1"}],
}
EVENTS: Final = [
    json.dumps({"type": kind, "object": "event", "id": "evt_1", "data": {"object": PAID}}).encode()
    for kind in READERS
]
"""Samples of each kind that is read."""


def list_parsers() -> Iterator[Parser]:
    dice = random.Random(0)
    heads = [mutations.make_valid(dice, "sk-ru-1") for _ in range(50)]
    bodies = [found for one in heads if (found := one.rpartition(b"\r\n\r\n")[2])]
    requests = [json.dumps({"model": "m", **one}).encode() for one in test_odd.REQUESTS.values()]
    texts = [*bodies, *requests]
    yield Parser("heads", heads, whole(read_head))
    yield Parser("JSON", texts, whole(read_json))
    for caller in EVERY_CALLER:
        if caller.name != "transcripts":
            yield Parser(f"requests {caller.path}", texts, whole(partial(read_request, caller)))
    yield Parser("forms", [test_forms.BODY], read_form)
    sealed = seal({"a": [{"b": "c"}]}, TAG).encode()
    yield Parser("seals", [sealed, b"call_1-t-" + sealed[2:]], whole(read_seals))
    yield Parser("webhook", EVENTS, whole(read_message))
    told = tomllib.loads(Path(test_http1.__file__).with_name("responses.toml").read_text("utf-8"))
    wires = [one["wire"].encode("latin-1") for one in told.values()]
    yield Parser("responses", wires, read_response)
    for caller_name, pairs in EXCHANGES.items():
        for name, exchange in pairs.items():
            title = f"{caller_name} over {name}"
            if (reply := test_odd.REPLIES.get(name)) is not None:
                data = [json.dumps(reply).encode()]
                yield Parser(f"replies, {title}", data, whole(partial(read_reply, exchange)))
            bodies = [one.body for one in test_odd.EVERY if one.dialect == name]
            if bodies:
                yield Parser(f"streams, {title}", bodies, partial(read_stream, exchange))


def read_stream(exchange: Exchange, pieces: Sequence[bytes]) -> object:
    played = play(exchange.open_stream(make_context(usage=True)), pieces)
    return replace(played, out=drop_comments(played.out))


def spoil(data: bytes, dice: random.Random) -> bytes:
    """Change bytes, or values of its JSON."""
    if dice.random() < 0.3 and data[:1] == b"{":
        with contextlib.suppress(ValueError):
            return json.dumps(test_odd.mangle(json.loads(data), dice, 0.03)).encode()
    for _ in range(dice.choice((1, 1, 2, 4))):
        if len(data) < LEAST_BYTES:
            break
        data = dice.choice(CHANGES)(dice, data)
    return data


CHANGES: Final[tuple[mutations.Mutation, ...]] = (
    *(mutations.flip, mutations.truncate, mutations.behead, mutations.repeat, mutations.insert),
    lambda dice, data: test_odd.spoil(data, dice),
)


def check(parser: Parser, data: bytes, dice: random.Random) -> None:
    """Play one input, whole and cut. Raises Broken."""
    cut = list(random_slices(data, dice)) if len(data) > 1 else [data]
    began = time.thread_time()
    first, second = judge(parser, [data]), judge(parser, cut)
    spent_ms = 1000 * (time.thread_time() - began) / 2
    if spent_ms > MS_PER_KB * max(len(data) / 1024, 1):
        raise Broken(f"{spent_ms:.0f} ms for {len(data)} bytes")
    if first != second:
        raise Broken(f"{first!r:.300}\nbut cut into {[len(one) for one in cut]}:\n{second!r:.300}")


def judge(parser: Parser, pieces: Sequence[bytes]) -> object:
    try:
        return parser.read(pieces)
    except ALLOWED as error:
        return type(error)  # what is blamed first may depend on what is seen first


def play_parsers(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Play all parsers in turn; return how many inputs there were, and what broke, each kind once."""
    sdk.enable_telemetry = False
    parsers, until, number = list(list_parsers()), time.monotonic() + seconds, 0
    broken: dict[tuple[str, str], str] = {}
    while time.monotonic() < until:
        for parser in parsers:
            for _ in range(ROUND):
                number += 1
                dice = random.Random(f"{seed}/{number}")
                data = spoil(dice.choice(parser.samples), dice)
                try:
                    check(parser, data, dice)
                except Exception as error:  # noqa: BLE001 - told, with its input
                    kind = (parser.name, f"{type(error).__name__}{error.args!r:.40}")
                    if kind not in broken:
                        shown = data if len(data) <= SHOWN_BYTES else data[:SHOWN_BYTES] + b"..."
                        broken[kind] = f"{parser.name}, input {number}: {error!r:.900}\n  {shown!r}"
                        print(broken[kind], flush=True)
    return number, list(broken.values())

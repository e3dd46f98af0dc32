"""Replies and streams as callers hear them: `heard.txt` has both sides.

    == chat over messages
    # A tool without arguments gets `{}` at its end.
    ? {"functions": [{"name": "f"}]}    the caller's fields, where they matter
    < begin                             an event of the provider
    > begin                             what leaves at once for the caller
    < {"type": "content_block_start", "index": 0, "content_block": …}
    = {"content": "Hi"}                 or, in place of events, a JSON reply of the provider
    * begun delivered                   what the relay may know from now on, where a row tells any of it
    ! The upstream's …                  how the stream or the reply fails
    $ 10 0 0 20 estimated               what is charged: input, cached, written, output

The provider's `begin` and `end` are its usual first and last events. Of the caller's side only what
says something is told: the rest is checked by the rules of its dialect and by its SDK, but not where a
messages stream passes as it came. A stream says the same if it comes byte by byte, and a translated JSON
reply if it comes in place of a stream. `provider_tag` is the provider's, in whose name its state is sealed.
To write all of it anew, after a look at what that would change:

    WRITE_HEARD=1 python -m pytest tests/dialects/test_heard.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway.dialects.exchanges import Exchange
from gateway.dialects.records import CompletionRequest, Reply, ReplyContext
from gateway.errors import GatewayError
from gateway.usage import Expected, Metered, UsageLimits
from tests.dialects.chat.kit import (
    DONE,
    ID,
    INPUT_ESTIMATE,
    MODEL,
    Json,
    Played,
    check_stream,
    choice,
    chunk,
    completion,
    each_byte,
    event,
    play,
    read_chunks,
    role,
    stop,
)
from tests.dialects.messages.kit import STOP, finish, frame, start
from tests.dialects.rules import add_up, check_rules, read_events
from tests.dialects.rules import check_reply as check_caller_reply
from tests.support.accumulated import accumulate
from tests.support.formats import EXCHANGES, find_texts
from tests.support.messages import make_message
from tests.support.rows import told_together

PATHS: Final = (Path(__file__).with_name("heard.txt"), *find_texts("heard.txt"))
SECTIONS: Final = [
    pytest.param(path, text, id=text.partition("\n")[0])
    for path in PATHS
    for text in path.read_text(encoding="utf-8").split("== ")[1:]
]
CHAT_USAGE: Final[Json] = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
USAGE: Final[Json] = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 30,
}
RESPONSE: Final[Json] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "theirs"}
BEGUN: Final[Json] = {"id": "resp_1", "created_at": 1, "status": "in_progress", "output": []}
LEAST: Final[Json] = {
    "chat": completion({}),
    "messages": make_message([], usage={"input_tokens": 10, "output_tokens": 20}),
    "responses": {**RESPONSE, "status": "completed", "output": [], "usage": USAGE},
}
"""The provider's JSON replies that say nothing."""
USUAL: Final[dict[str, dict[str, bytes]]] = {
    "chat": {"begin": event(chunk(role())), "end": event(chunk(usage=CHAT_USAGE)) + DONE},
    "messages": {
        "begin": frame(start(input_tokens=10, output_tokens=1)),
        "end": frame(finish(output_tokens=20), STOP),
    },
    "responses": {
        "begin": frame(
            {"type": "response.created", "response": BEGUN},
            {"type": "response.in_progress", "response": BEGUN},
        ),
        "end": frame({"type": "response.completed", "response": LEAST["responses"]}),
    },
}
IDS: Final = {
    "chat": "chatcmpl-request-1",
    "messages": "msg_request-1",
    "responses": "resp_request-1",
}
OWN_IDS: Final = {"chat": ID, "messages": "msg_1"}
"""The providers' own, which pass between equal dialects."""


def write_event(provider: str, line: str) -> bytes:
    """Write an event of the provider; in chat a bare delta stands for its chunk, a word for the finish."""
    if line in USUAL[provider]:
        return USUAL[provider][line]
    try:
        value = json.loads(line)  # orjson refuses halves of characters
    except json.JSONDecodeError:
        return f"data: {line}\n\n".encode()
    if provider != "chat" or not isinstance(value, dict | str):
        name = f"event: {value['type']}\n" if "type" in value else ""
        return f"{name}data: {json.dumps(value)}\n\n".encode()
    if isinstance(value, str):
        return event(chunk(stop(finish=value)))
    if value.keys() & {"choices", "usage", "error", "object"}:
        return event(chunk() | value)
    return event(chunk(choice(value)))


def write_reply(provider: str, fields: Json) -> bytes:
    """Write a JSON reply of the provider; in chat a bare message stands for its choice."""
    least: Json = LEAST[provider]
    if provider == "chat" and not fields.keys() & least.keys():
        (bare,) = least["choices"]
        said = fields if "message" in fields else {"message": fields}
        said["message"] = bare["message"] | said["message"]
        fields = {"choices": [bare | said]}
    return json.dumps(least | fields).encode()


def strip(value: Any, nothing: tuple[Any, ...] = (None,)) -> Any:
    """Leave out members without a value, and zeros of a usage: the rules of a dialect ask for them."""
    if isinstance(value, dict):
        kept = {
            key: held
            if key == "input"
            else strip(held, (None, 0, {}) if key == "usage" else nothing)
            for key, held in value.items()
        }
        return {key: held for key, held in kept.items() if held not in nothing or held is False}
    return [strip(one, nothing) for one in value] if isinstance(value, list) else value


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def differ(made: Json, usual: Json) -> Json:
    return {key: held for key, held in made.items() if usual.get(key, made) != held}


def tell_chunks(out: bytes, identity: str = IDS["chat"]) -> Iterator[str]:
    for one in read_chunks(out.removesuffix(DONE)):
        head = {"id": identity, "created": 1, "model": MODEL}
        fields = strip(differ(one, {**head, "object": "chat.completion.chunk"}))
        match fields:
            case {"choices": [{"index": 0, "delta": delta, **rest}], **more} if not more:
                if delta == {"role": "assistant", "content": ""}:
                    yield "begin"
                elif not delta and rest.keys() == {"finish_reason"}:
                    yield json.dumps(rest["finish_reason"])
                else:
                    yield dump({**delta, **rest})
            case _:
                yield dump(fields)
    if out.endswith(DONE):
        yield "end"


def tell_message_events(out: bytes, identity: str = IDS["messages"]) -> Iterator[str]:
    for one in read_events(out):
        match one["type"]:
            case "message_start":
                assert one["message"]["id"] == identity
                usage = strip({"usage": one["message"]["usage"]})
                yield f"begin {dump(usage)}" if usage["usage"] else "begin"
            case "message_stop":
                yield "end"
            case _:
                yield dump(strip(one))


SUMS: Final = {
    f"{one}.done"
    for one in (
        *("output_text", "refusal", "reasoning_summary_text", "reasoning_summary_part"),
        *("function_call_arguments", "custom_tool_call_input"),
    )
}
"""Events that say the deltas again, which the rules check."""


def tell_response_events(out: bytes) -> Iterator[str]:
    usual: Json = {}
    for one in read_events(out):
        kind = one["type"].removeprefix("response.")
        told = {key: one[key] for key in one if key not in {"type", "sequence_number", "item_id"}}
        if kind == "created":
            usual = one["response"]
            assert (usual["model"], usual["created_at"]) == (MODEL, 1)
            yield "begin"
        elif kind == "in_progress":
            assert one["response"] == usual
        elif kind in SUMS:
            yield kind
        elif "response" in told:
            response = differ(told["response"], {**usual, "status": kind})
            assert response.pop("output", []) is not None
            yield f"{kind} {dump(strip(response))}"
        else:
            yield f"{kind} {dump(strip(told))}"


STATES: Final = ("begun", "delivered", "finished", "complete")
TELL: Final[dict[str, Callable[..., Iterator[str]]]] = {
    "chat": tell_chunks,
    "messages": tell_message_events,
    "responses": tell_response_events,
}


MADE_ID: Final = re.compile(r"request-1_\d+")
"""Ids that the gateway makes count the parts of a reply, which a stream may number otherwise."""


def check_reply(caller: str, reply: Reply) -> Json:
    """Return a JSON reply that keeps the rules of the caller's dialect, and has its head."""
    made = check_caller_reply(caller, reply.body)
    created = made.get("created", made.get("created_at", 1))
    assert (made["id"], made["model"], created) == (IDS[caller], MODEL, 1)
    return made


def check_replay(caller: str, made: Json, played: Played) -> None:
    """Check that a reply says the same where a stream was asked for."""
    if caller != "chat":
        told = add_up(caller, played)
        content = "content" if caller == "messages" else "output"
        one, other = (
            MADE_ID.sub("made", json.dumps(strip(reply[content]), sort_keys=True))
            for reply in (told, made)
        )
        assert one == other
        return
    check_stream(played.chunks, usage=True)
    (heard,) = accumulate(played.chunks).choices.values()
    message = made["choices"][0]["message"]
    assert heard.finish_reason == made["choices"][0]["finish_reason"]
    assert (heard.text, heard.refusal) == (message["content"] or "", message["refusal"] or "")
    assert heard.reasoning == message.get("reasoning_content", "")
    functions = [one["function"] for one in message.get("tool_calls", ()) if "function" in one]
    named = [each["delta"].get("annotations") or [] for each in played.choices]
    assert [{**one, "index": None} for each in named for one in each] == [
        {**one, "index": None} for one in message.get("annotations", ())
    ]
    assert [(one.name, one.arguments) for one in heard.tool_calls.values() if one.name] == [
        (one["name"], one["arguments"]) for one in functions
    ]


@dataclass(frozen=True, slots=True)
class Transcript:
    """The lines that the provider sends; those that the caller hears are added."""

    caller: str
    provider: str
    lines: list[str]

    @property
    def exchange(self) -> Exchange:
        return EXCHANGES[self.caller][self.provider]

    def make_context(self) -> ReplyContext:
        told = [line[2:] for line in self.lines if line.startswith("? ")]
        body: Json = {"stream": True, **(orjson.loads(told[0]) if told else {})}
        usage, tag = "stream_options" in body, body.pop("provider_tag", "")
        request = CompletionRequest(body, MODEL, True, usage, body.get("n", 1), None, 0, 0)
        expected = Expected(INPUT_ESTIMATE, UsageLimits(10**6, 10**6, 10**6))
        return ReplyContext(request, "request-1", expected, created=1, provider_tag=tag)

    def play(self) -> Iterator[str]:
        for line in self.lines:
            if line.startswith("= "):
                yield line
                yield from self._read(write_reply(self.provider, json.loads(line[2:])))
            elif line[0] in "#?":
                yield line
        if "= " not in {line[:2] for line in self.lines}:
            yield from self._stream([line for line in self.lines if line.startswith("< ")])

    def _read(self, data: bytes) -> Iterator[str]:
        exchange, context = self.exchange, self.make_context()
        least = exchange.read_reply(json.dumps(LEAST[self.provider]).encode(), context).body
        try:
            reply = exchange.read_reply(b"\n" + data, context)
        except GatewayError as error:
            yield f"! {error.message}"
            return
        if reply.failure is None:
            made = self._check(reply, data)
            yield f"> {dump(strip(differ(made, orjson.loads(least or b'{}'))))}"
        else:
            yield f"! {reply.failure.message}"
        yield tell_charge(reply.metered)

    def _check(self, reply: Reply, data: bytes) -> Json:
        if self.caller == self.provider:
            return check_caller_reply(self.caller, reply.body)
        made = check_reply(self.caller, reply)
        replay = self.exchange.replay_reply(data, self.make_context()).body
        check_replay(
            self.caller, made, play(self.exchange.open_stream(self.make_context()), [replay])
        )
        return made

    def _stream(self, sent: list[str]) -> Iterator[str]:
        pieces = [write_event(self.provider, line[2:]) for line in sent]
        whole = play(self.exchange.open_stream(self.make_context()), each_byte(b"".join(pieces)))
        pipeline = self.exchange.open_stream(self.make_context())
        out, told, known = b"", 0, set[str]()
        passes, tell = self.caller == self.provider, TELL[self.caller]
        if passes and self.caller in OWN_IDS:
            tell = partial(tell, identity=OWN_IDS[self.caller])
        tells = any(line.startswith("* ") for line in self.lines)
        for line, piece in zip([*sent, ""], [*pieces, b""], strict=True):
            yield from [line] * bool(line)
            if not (pipeline.complete or pipeline.failure):
                out += pipeline.feed(piece) if line else pipeline.end()
            if not line and pipeline.complete:
                out += pipeline.finish()
            heard = [*tell(out)]
            yield from (f"> {one}" for one in heard[told:])
            told = len(heard)
            now = {name for name in STATES if getattr(pipeline, name)} - known
            known |= now
            if tells and now:
                yield f"* {' '.join(sorted(now))}"
        assert whole.out == out
        usage = self.make_context().request.wants_usage
        if (
            not passes or self.caller == "chat"
        ):  # chat's streams are repaired, others pass as they are
            check_rules(self.caller, out, complete=pipeline.complete, usage=usage)
        if not pipeline.complete:
            yield f"! {pipeline.failure.message if pipeline.failure else 'It is cut short.'}"
        yield tell_charge(pipeline.measure())


def tell_charge(metered: Metered) -> str:
    one = metered.tokens
    counts = (one.input, one.cached_input, one.cache_write + one.cache_write_1h, one.output)
    return f"$ {' '.join(map(str, counts))}{' estimated' if metered.estimated else ''}"


@pytest.mark.parametrize(("path", "text"), SECTIONS)
def test_a_caller_hears_what_the_provider_says(path: Path, text: str) -> None:
    section, _, rest = text.partition("\n")
    caller, _, provider = section.partition(" over ")
    blocks = rest.strip("\n").split("\n\n")
    played: list[list[str]] = []
    with told_together() as row:
        for block in blocks:
            with row(block):
                played.append([*Transcript(caller, provider, block.splitlines()).play()])
                assert "WRITE_HEARD" in os.environ or played[-1] == block.splitlines()
    if "WRITE_HEARD" in os.environ:
        new = "\n\n".join(map("\n".join, played))
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(text.rstrip("\n"), f"{section}\n{new}"), encoding="utf-8")

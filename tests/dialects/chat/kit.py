"""Helpers of the chat dialect's unit tests: chunks, streams, and the rules of a stream."""

from __future__ import annotations

import copy
import itertools
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from gateway.base.money import NONE, Tokens
from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.chat.stream import ChatStream
from gateway.dialects.exchanges import Exchange, ReplayedStream
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import CompletionRequest, Reply, ReplyContext
from tests.support.chat import check_chunks

MODEL: Final = "our/model"
INPUT_ESTIMATE: Final = 7
DONE: Final = b"data: [DONE]\n\n"
ID: Final = "chatcmpl-1"

Json = dict[str, Any]


def make_context(
    body: Json | None = None,
    *,
    usage: bool = False,
    n: int = 1,
    limits: int = 10**6,
    model: str = MODEL,
    tag: str = "",
) -> ReplyContext:
    request = CompletionRequest(body or {}, model, True, usage, n, None, 0, 0)
    expected = Expected(INPUT_ESTIMATE, UsageLimits(limits, limits, limits))
    return ReplyContext(request, "request-1", expected, created=1, provider_tag=tag)


def chunk(*choices: Json, **fields: Any) -> Json:
    head = {"id": ID, "object": "chat.completion.chunk", "created": 1, "model": "theirs"}
    return {**head, "choices": list(choices), **fields}


def choice(delta: Json | None, finish: str | None = None, index: int = 0, **fields: Any) -> Json:
    return {"index": index, "delta": delta, "finish_reason": finish, **fields}


def role(index: int = 0) -> Json:
    return choice({"role": "assistant", "content": ""}, index=index)


def text(said: str, index: int = 0) -> Json:
    return choice({"content": said}, index=index)


def stop(index: int = 0, finish: str = "stop") -> Json:
    return choice({}, finish, index)


def copy_pipeline(pipeline: Pipeline) -> Pipeline:
    """Copy it with all of its state; `NONE` cannot be copied, nor need it be."""
    return copy.deepcopy(pipeline, {id(NONE): NONE})


def dump(value: Any) -> bytes:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="backslashreplace")  # which writes halves of characters as JSON does


def event(value: Json) -> bytes:
    return b"data: " + dump(value) + b"\n\n"


def events(*chunks: Json) -> bytes:
    return b"".join(map(event, chunks))


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a stream whose upstream closed it cleanly."""

    out: bytes
    complete: bool
    failure: str | None
    tokens: Tokens
    estimated: bool
    delivered: bool

    @property
    def chunks(self) -> list[Json]:
        return read_chunks(self.out.removesuffix(DONE))

    @property
    def choices(self) -> list[Json]:
        """Return all choices of all chunks, in order."""
        return [one for each in self.chunks for one in each["choices"]]


def play(stream: Pipeline, pieces: Iterable[bytes]) -> Played:
    """Feed like the relay: nothing more once the stream is complete or has failed."""
    out = bytearray()
    for piece in pieces:
        out += stream.feed(piece)
        if stream.complete or stream.failure is not None:
            break
    else:
        out += stream.end()
    metered = stream.measure()
    if stream.complete:
        out += stream.take_last()
    failure = stream.failure.message if stream.failure else None
    return Played(
        bytes(out), stream.complete, failure, metered.tokens, metered.estimated, stream.delivered
    )


def play_sliced(make: Callable[[], PassingStream], body: bytes) -> Played:
    """Play a stream; in any slicing, and with everything parsed, the result must be the same."""
    played = play(make(), [body])
    assert play(make(), each_byte(body)) == played
    assert play_parsed(make(), body) == played
    return played


def play_parsed(stream: PassingStream, body: bytes) -> Played:
    """Play a stream that learns no templates."""
    stream._may_learn = 0
    return play(stream, [body])


def read_whole(exchange: Exchange, body: bytes, context: ReplyContext, *, stream: bool) -> Reply:
    """Read a JSON reply as a delivery does, for a caller of JSON or of a stream."""
    if not stream:
        return exchange.read_reply(body, context)
    replayed = ReplayedStream(exchange, context)
    assert replayed.feed(body) == b""
    out = replayed.end()
    return Reply(out, replayed.measure(), replayed.failure)


def each_byte(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 1] for at in range(len(data)))


def random_slices(data: bytes, dice: random.Random) -> Iterator[bytes]:
    """Cut anywhere, into few or many pieces."""
    count = min(dice.choice((1, 2, 5, 20, 100)), len(data) - 1)
    cuts = [0, *sorted(dice.sample(range(1, len(data)), count)), len(data)]
    return (data[start:end] for start, end in itertools.pairwise(cuts))


def make_dice() -> random.Random:
    seed = random.randrange(2**32)
    print("seed:", seed)
    return random.Random(seed)


def read_chunks(out: bytes) -> list[Json]:
    """Read events; each is one line `data: {JSON}` and an empty one (LF, CR or CRLF)."""
    lines = re.split(rb"\r\n|\n|\r", out)
    assert lines.pop() == b""
    assert all(line == b"" for line in lines[1::2])
    assert all(line.startswith(b"data: {") for line in lines[::2]), lines
    chunks = [json.loads(line[6:].decode("utf-8", "replace")) for line in lines[::2]]
    assert all(isinstance(one, dict) for one in chunks)
    return chunks


check_stream: Final = partial(check_chunks, MODEL)
"""Checks a caller's chunks, by the rules that do not use the gateway's code."""


USAGE: Final[Json] = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
BEGIN: Final = events(chunk(role()))
END: Final = events(chunk(stop()))
HI: Final = event(chunk(text("Hi")))
WHOLE: Final = BEGIN + HI + END + DONE
"""A stream that conforms except for its model's name."""


def ours(body: bytes) -> bytes:
    return body.replace(b'"model":"theirs"', b'"model":"%s"' % MODEL.encode())


def send(*pieces: bytes, usage: bool = False, n: int = 1, limits: int = 10**6) -> Played:
    """Play a stream; cut into bytes or pieces of three it must give the same result."""
    body = b"".join(pieces)
    played = play(ChatStream(make_context(usage=usage, n=n, limits=limits)), [body])
    for sliced in (each_byte(body), (body[at : at + 3] for at in range(0, len(body), 3))):
        assert play(ChatStream(make_context(usage=usage, n=n, limits=limits)), sliced) == played
    return played


REPORT: Json = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}


REPORTED = Tokens(5, 0, 0, 3)


def completion(message: Json, finish: str | None = "stop", **fields: Any) -> Json:
    one = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    extra = fields.pop("choice", {})
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "theirs"}
    return {**head, "choices": [{**one, **extra}], "usage": REPORT, **fields}


def call(identity: Any = "c1", name: Any = "f", arguments: Any = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def fragment(position: int = 0, arguments: str | None = "", **fields: Any) -> Json:
    name = fields.pop("name", None)
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return choice({"tool_calls": [{"index": position, **fields, "function": function}]})


def begin(position: int, arguments: str = "") -> Json:
    """Make the first fragment of the call `f{position}` with the id `c{position}`."""
    names = {"id": f"c{position}", "type": "function", "name": f"f{position}"}
    return fragment(position, arguments, **names)


def stream(*choices: Json, finish: str = "stop", usage: Json | None = REPORT) -> bytes:
    """Make a whole stream of these choices, with its role chunk, usage and end."""
    chunks = [chunk(one) for one in (role(), *choices, stop(finish=finish))]
    tail = [] if usage is None else [chunk(usage=usage)]
    return events(*chunks, *tail) + DONE


AZURE: Final = {**chunk(), "id": "", "object": "", "model": "", "prompt_filter_results": []}
"""The first frame of Azure's streams, which has no choices and no other content."""

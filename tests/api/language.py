"""The words of the transcripts in `played/`: callers' requests, and what providers say.

`test_played` says how they are written.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tests.support import embeddings, messages, responses, texts
from tests.support.chat import say
from tests.support.process import CHAT, COUNT_TOKENS, MESSAGES, RESPONSES
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    chunked,
    completion,
    dumps,
    error_reply,
    http,
    json_reply,
    sse,
    sse_reply,
    stream_chunks,
    stream_head,
    text_chunks,
)
from tests.support.upstream import End, Exchange, Script, Step

Json = dict[str, Any]
TRANSCRIPTIONS: Final = "/v1/audio/transcriptions"
BOUNDARY: Final = "ex"
SOUND: Final = b"\xff\xf3\x00\r\n--" * 5000
"""35 kB."""
END: Final = f"--{BOUNDARY}--\r\n".encode()


def make_part(name: str, value: str | bytes, file: str = "", extra: str = "") -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    named = f'; filename="{file}"' if file else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\n{extra}\r\n'
    return head.encode() + data + b"\r\n"


def make_form(model: str, sound: bytes = SOUND, **fields: str) -> bytes:
    """Write a form as Node does, whose file may come first."""
    told = b"".join(make_part(name, value) for name, value in {"model": model, **fields}.items())
    return make_part("file", sound, "a b.mp3", "Content-Type: audio/mpeg\r\n") + told + END


def ask_for(**usual: Any) -> Callable[..., Json]:
    return lambda model, **fields: {"model": model, **usual, **fields}


SURFACES: Final[dict[str, tuple[str, Callable[..., Any]]]] = {
    "chat": (CHAT, say),
    "messages": (MESSAGES, messages.ask),
    "responses": (RESPONSES, responses.ask),
    "completions": (texts.COMPLETIONS, texts.complete),
    "embeddings": (embeddings.EMBEDDINGS, embeddings.embed),
    "count": (COUNT_TOKENS, messages.ask),
    "count-responses": (f"{RESPONSES}/input_tokens", ask_for(input="Hi")),
    "speech": ("/v1/audio/speech", ask_for(input="Grüße 🎉 to all", voice="alloy")),
    "hearing": (TRANSCRIPTIONS, make_form),
    "images": ("/v1/images/generations", ask_for(prompt="a cat")),
    "rerank-2": ("/v2/rerank", ask_for(query="q", documents=["a", "b"])),
    "rerank": ("/v1/rerank", ask_for(query="q", documents=["a", "b"])),
}
"""The path of each, and a request."""


# ---- Callers -----------------------------------------------------------------------------------

DECODER: Final = json.JSONDecoder()
TOKEN: Final = re.compile(r"\[(?P<header>[\w-]+:[^\]]*)\]|(?P<json>[\[{\"])|(?P<word>\S+)")


def read_tokens(text: str) -> Iterator[tuple[str, Any]]:
    """Give words, JSON values and headers in brackets, each with its kind."""
    at = 0
    while at < len(text):
        if text[at] == " ":
            at += 1
            continue
        found = TOKEN.match(text, at)
        assert found is not None, text[at:]
        kind = str(found.lastgroup)
        if kind == "json":
            value, at = DECODER.raw_decode(text, at)
        else:
            value, at = found[kind], found.end()
        yield kind, value


@dataclass(slots=True)
class Command:
    """A request, read from its line."""

    words: list[str] = field(default_factory=list)
    account: str = "rich"
    headers: list[tuple[str, str]] = field(default_factory=list)
    body: Any = None
    picks: list[str] = field(default_factory=list)


def read_command(line: str) -> Command:
    command = Command()
    asked, _, picks = line.partition(" | ")
    command.picks = picks.split()
    for kind, value in read_tokens(asked):
        if kind == "header":
            name, _, told = value.partition(":")
            command.headers.append((name, told.strip()))
        elif kind == "json":
            command.body = value
        elif value.startswith("@"):
            command.account = value[1:]
        else:
            command.words.append(value)
    return command


# ---- Providers ---------------------------------------------------------------------------------

ENDS: Final = {"FIN": End.FIN, "RST": End.RST, "HANG": End.HANG}
PIECES: Final = {
    "HEAD": stream_head(),
    "UNFRAMED": stream_head(framing="close"),
    "DONE": chunked(DONE),
    "LAST": LAST_CHUNK,
}


PACKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
}
"""The encodings of a header `Pack`, which also encodes the body."""


def _write_chat(text: str, usage: Any, fields: Json, *, stream: bool) -> Script:
    if not stream:
        return json_reply(completion(text, usage=usage) | fields)
    chunks = text_chunks([text]) if usage is None else stream_chunks([text], usage)
    return sse_reply([one | fields for one in chunks])


def _write_message(text: str, usage: Any, fields: Json, *, stream: bool) -> Script:
    if not stream:
        return json_reply(messages.make_message(text, usage=usage) | fields)
    return sse_reply(messages.frames(messages.make_events(text, usage=usage)), done=False)


def _write_response(text: str, usage: Any, fields: Json, *, stream: bool) -> Script:
    whole = responses.make_response(text) | {"usage": usage} | fields
    if not stream:
        return json_reply(whole)
    *events, last = responses.make_events(text)
    return sse_reply(responses.frames([*events, last | {"response": whole}]), done=False)


def _write_embeddings(_: str, usage: Any, fields: Json, *, stream: bool) -> Script:
    del stream
    return json_reply(embeddings.embeddings(usage=usage, **fields))


def _write_text(text: str, usage: Any, fields: Json, *, stream: bool) -> Script:
    if stream:
        return sse_reply(texts.text_events(text, usage=usage))
    return json_reply(texts.text_completion(text, usage=usage) | fields)


REPLIES: Final[dict[str, tuple[Callable[..., Script], Json]]] = {
    CHAT: (_write_chat, completion()["usage"]),
    MESSAGES: (_write_message, messages.USAGE),
    RESPONSES: (_write_response, responses.make_usage(responses.USED)),
    embeddings.EMBEDDINGS: (_write_embeddings, embeddings.USAGE),
    texts.COMPLETIONS: (_write_text, texts.USAGE),
}
"""How a provider of each path replies, and what it counts unless the transcript says otherwise."""


def conform(exchange: Exchange, fields: Json) -> Script:
    """Reply as the path and the request ask for, but for these fields."""
    if exchange.target not in REPLIES:
        return json_reply(fields)
    write, usage = REPLIES[exchange.target]
    told: Json = {"text": "Hello, world!", "usage": usage, **fields}
    text, usage = told.pop("text"), told.pop("usage")
    return write(text, usage, told, stream=exchange.json.get("stream") is True)


def read_script(line: str) -> Callable[[Exchange], Script]:
    """Read what a provider says; a status or fields alone are a whole reply."""
    (kind, first), *rest = read_tokens(line)
    if kind == "json" and isinstance(first, dict):
        assert not rest
        return lambda exchange: conform(exchange, first)
    if kind == "word" and first.isdecimal():
        return lambda _: _read_reply(int(first), rest)
    return lambda _: [_read_step(kind, value) for kind, value in [(kind, first), *rest]]


def _read_reply(status: int, tokens: list[tuple[str, Any]]) -> Script:
    pairs = [value.partition(":") for kind, value in tokens if kind == "header"]
    headers = {name: told.strip() for name, _, told in pairs}
    bodies = [value for kind, value in tokens if kind == "json"]
    ends = [_read_step(kind, value) for kind, value in tokens if kind == "word"]
    if not bodies:
        return [*error_reply(status, headers=headers), *ends]
    body = bodies[0].encode("latin-1") if isinstance(bodies[0], str) else dumps(bodies[0])
    content_type = headers.pop("Content-Type", "application/json")
    if (packed := headers.pop("Pack", None)) is not None:
        headers["Content-Encoding"] = packed
        body = PACKERS[packed](body)
    return [http(body, status, content_type=content_type or None, headers=headers), *ends]


def _read_step(kind: str, value: Any) -> Step:
    """Read an event (JSON), raw bytes (a text), or a word."""
    if kind == "word":
        return ENDS.get(value) or PIECES[value]
    if isinstance(value, str):
        return value.encode("latin-1")
    named = "type" in value and value["type"] != "error" and "." not in value["type"]
    return chunked(messages.frame(value) if named else sse(value))


def read_variants(command: Command) -> Iterator[tuple[str, Command]]:
    """Give the requests of a line by name: one on each surface, whole or as a stream."""
    names = command.words[0].split(",")
    for number, name in enumerate(names):
        surface = name.removesuffix("+")
        words = command.words[1:]
        if surface in SURFACES:
            words = [word.replace("%", surface) for word in words]
        models = [word.split(",") for word in words]
        words = [surface, *(one[min(number, len(one) - 1)] for one in models)]
        for form in ("", "stream") if name.endswith("+") else ("",):
            label = " ".join([surface] * (len(names) > 1) + [form] * bool(form))
            body = {**(command.body or {}), "stream": True} if form else command.body
            yield label, Command(words, command.account, command.headers, body, command.picks)

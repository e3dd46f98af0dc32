"""Reading a chat upstream: its JSON reply, and the chunks of its stream."""

from __future__ import annotations

import re
from typing import Final

from gateway.dialects.chat.repair import ChunkRepair
from gateway.dialects.chat.usage import find_chunk_usage
from gateway.dialects.records import Event, Json, ReplyContext
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_object, get_text, maybe_loads
from gateway.dialects.wire.stream import read_object
from gateway.dialects.wire.upstream_errors import make_failure
from gateway.dialects.wire.usage import read_openai_usage
from gateway.errors import UpstreamError
from gateway.prices import name_tier
from gateway.usage import Expected, Reported, merge_reports

_HEAD: Final = ("id", "object", "created", "model")
_DONE: Final = b"[DONE]"
_DONE_LINE: Final = b"data: [DONE]"
_FINISH: Final = re.compile(rb'"finish_reason"\s*:\s*"')
"""Matches a finish reason only: inside a text its quotes would be escaped."""


def read_completion(text: bytes) -> Json:
    """Parse a chat completion. Raises UpstreamError if it is something else, or an error in a 200."""
    reply = maybe_loads(text)
    if type(reply) is dict:
        _check_error(reply)
        choices = reply.get("choices")
        for choice in choices if type(choices) is list else ():
            if type(choice) is dict:
                return reply
    what = "JSON" if reply is None else "a chat completion"
    raise UpstreamError(f"The upstream's reply is not {what}.")


def _check_error(body: Json, name: str = "") -> None:
    """Raise UpstreamError for an error, in any envelope, where a reply or a chunk should be."""
    if name == "error" or body.get("error") or body.get("object") == "error":
        raise make_failure(body)


def check_finish(finish: object) -> None:
    """Raise UpstreamError for a choice that ended with `error`, as at OpenRouter and Mistral."""
    if finish == "error":
        raise UpstreamError("The upstream ended its reply with an error.")


def read_choice(reply: Json) -> tuple[Json, Json]:
    """Return the first choice of a reply, and its message. Raises UpstreamError if it has none."""
    choice = next((one for one in reply["choices"] if isinstance(one, dict)), None)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise UpstreamError("The upstream's reply has no message in it.")
    return choice, message


def read_fragment(call: Json) -> tuple[int, str, str, str]:
    """Return the position, the id, the name and the arguments in a fragment of a call, as far as told."""
    function = get_object(call, "function")
    arguments = read_arguments(function.get("arguments"))
    return call["index"], get_text(call, "id"), get_text(function, "name"), arguments


def read_arguments(given: object) -> str:
    """Read arguments, which some upstreams (Ollama) send as an object."""
    if isinstance(given, str):
        return given
    return dumps_lenient(given).decode("utf-8", "replace") if given else ""


class ChatReader:
    """A `Reader` of chunks. It ends with `[DONE]`."""

    __slots__ = ("_first", "_n", "_tier", "ended", "repair", "usage")

    counted: Final = True
    keeps_comments: Final = True

    def __init__(self, context: ReplyContext) -> None:
        self.usage: Json | None = None
        self.ended = False
        self.repair = ChunkRepair()
        self._n = context.request.n
        self._first: Json | None = None
        self._tier = ""

    @property
    def begun(self) -> bool:
        return bool(self.repair.started)

    @property
    def finished(self) -> bool:
        return len(self.repair.finished) >= max(self._n, len(self.repair.started))

    def read(self, event: Event) -> list[Json]:
        """Read the chunks that should stand for an event; one without choices brings none."""
        chunk = self.read_chunk(event)
        if chunk is None or not isinstance(chunk.get("choices"), list) or not chunk["choices"]:
            return []
        return self.repair.repair(chunk) or [chunk]

    def read_chunk(self, event: Event) -> Json | None:
        """Parse an event as it is; None for one that says nothing."""
        if event.data is None or not event.data.strip():
            return None
        if event.data.strip() == _DONE:
            self.ended = True
            return None
        chunk = read_object(event)
        _check_error(chunk, event.name)
        self._first = self._first or chunk
        if told := find_chunk_usage(chunk):
            self.usage = merge_reports(self.usage, told)
        self._tier = name_tier(chunk.get("service_tier")) or self._tier
        return chunk

    def read_end(self, end: bytes, usage: Json | None) -> None:
        """Read the end of a chunk too large to hold: the finish reason, and the usage in it."""
        if usage is not None:
            self.usage = merge_reports(self.usage, usage)
        if self._n == 1 and _FINISH.search(end):
            self.repair.started.add(0)
            self.repair.finished.add(0)

    def close(self) -> list[Json]:
        """Return a last chunk with the finish reasons that are missing: `[DONE]` says it is done."""
        choices: list[Json] = [
            {"index": index, "delta": {}, "logprobs": None, "finish_reason": reason}
            for index, reason in self.repair.finish()
        ]
        if not choices:
            return []
        assert self._first is not None
        head: Json = {key: self._first[key] for key in _HEAD if key in self._first}
        return [{**head, "choices": choices}]

    def is_end(self, rest: bytes) -> bool:
        """`[DONE]` counts with its line: some upstreams keep the connection open behind it."""
        return rest.startswith(_DONE_LINE) and b"\n" in rest[: len(_DONE_LINE) + 4]

    def read_report(self, expected: Expected) -> Reported:
        return read_openai_usage(self.usage, self._tier, expected)

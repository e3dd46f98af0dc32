"""Two translations in a row, for pairs of dialects without a direct one.

A request is translated to the pivot's dialect, then to the upstream's. A reply takes the same way back. In
streams, the bytes that the inner translation writes are fed to the outer one. The tokens are those that the
upstream reported, or an estimate from the output of the inner translation.

The second translation knows only the pivot's fields, so its refusals are renamed to the caller's. To
find the refused part of a conversation, ever smaller parts are translated again. Refusals are rare, and
each step halves the rest, so this takes about as long as the request itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, get_args

from gateway.base.errors import BadRequest
from gateway.dialects.exchanges import Translation
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.fields import dump_request
from gateway.dialects.wire.pipelines import EventWriter
from gateway.dialects.wire.records import (
    CompletionRequest,
    Json,
    ReplyContext,
    ReplyUsage,
    Taken,
    Target,
)
from gateway.dialects.wire.stream import TranslatedStream

CONVERSATION: Final = "messages"
"""The pivot's field of the conversation."""
_FIRST: Final = re.compile(r"\w+")
_HELD: Final = ("content", "output")
"""Members of an item, or of a part, that have parts."""


def rename(
    error: BadRequest, body: Json, outer: Translation, ask: Callable[[Json], object]
) -> BadRequest:
    """Rewrite a refusal with the caller's field names; `outer` translated the caller's request.

    `ask` translates a body for the upstream and raises BadRequest.
    """
    found = _FIRST.match(error.param or "")
    if found is None:
        return error
    names = outer.names.get(found[0], (found[0],))
    own = next((one for one in names if one.partition(".")[0] in body), names[0])
    name = own

    def refuses(part: object) -> bool:
        """Return whether a part of the field alone is refused for the same reason."""
        try:
            ask({own: part})
        except BadRequest as other:
            return _give_reason(other) == _give_reason(error)
        return False

    if found[0] == CONVERSATION != error.param:
        for step in _find(body.get(own), refuses):
            name += f".{step}" if isinstance(step, str) else outer.item_name.format(step)
    message = error.message.replace(f"'{error.param}'", f"'{name}'")
    return BadRequest(message, param=name, code=error.code, detail_code=error.detail_code)


def _give_reason(error: BadRequest) -> str:
    return error.message.replace(f"'{error.param}'", "")


def _find(value: object, refuses: Callable[[object], bool]) -> list[str | int]:
    """Return the path to the smallest part of a value that is refused by itself."""
    if not value:
        return []
    if type(value) is list:
        start, stop = 0, len(value)
        while stop - start > 1:
            middle = (start + stop) // 2
            start, stop = (start, middle) if refuses(value[start:middle]) else (middle, stop)
        if refuses([value[start]]):
            return [start, *_find(value[start], lambda part: refuses([part]))]
    elif type(value) is dict:
        lists = (key for key in _HELD if type(value.get(key)) is list)
        key = next((one for one in lists if not refuses({**value, one: []})), None)
        if key is not None:
            return [key, *_find(value[key], lambda part: refuses({**value, key: part}))]
    return []


PIVOT_TAKES: Final = frozenset(get_args(Taken)) - {"cache_control"}
"""The pivot takes all of chat's optional fields; the second translation may refuse them."""


def compose(
    outer: Translation, inner: Translation, pivot: tuple[Caller, EventUpstream]
) -> Translation:
    """Join a caller's dialect over the pivot's (`outer`) and that over an upstream's (`inner`)."""
    caller, upstream = pivot

    def translate_request(request: CompletionRequest, target: Target) -> Json:
        # The first translation writes an effort; the second writes it in the form of the upstream's model.
        reasoning = target.reasoning if target.reasoning == "none" else "effort"
        outer_target = replace(
            target, reasoning=reasoning, takes=PIVOT_TAKES, leading_system=False, is_pivot=True
        )

        def ask_upstream(asked: Json) -> Json:
            return inner.translate_request(caller.parse_request(dump_request(asked)), target)

        def ask(body: Json) -> Json:
            return ask_upstream(outer.translate_request(replace(request, body=body), outer_target))

        # A refusal of the first translation has the caller's names; only the second's are renamed.
        asked = outer.translate_request(request, outer_target)
        try:
            return ask_upstream(asked)
        except BadRequest as error:
            raise rename(error, request.body, outer, ask) from error

    def translate_reply(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
        said = inner.translate_reply(reply, _ask_plainly(context), usage)
        return outer.translate_reply(
            said, context, replace(usage, reported=upstream.find_usage(said))
        )

    def open_writer(context: ReplyContext) -> EventWriter:
        stream = TranslatedStream(
            context, upstream.open_reader(context), outer.open_writer(context)
        )
        return _ComposedWriter(inner.open_writer(_ask_plainly(context)), stream)

    return Translation(translate_request, translate_reply, open_writer)


def _ask_plainly(context: ReplyContext) -> ReplyContext:
    """Return the context of a pivot caller that asks for nothing special but the usage."""
    request = replace(context.request, body={}, wants_usage=True)
    return replace(context, request=request, is_pivot=True)


class _ComposedWriter(EventWriter):
    """An `EventWriter` whose bytes go through a further stream."""

    __slots__ = ("_stream", "_writer")

    def __init__(self, writer: EventWriter, stream: TranslatedStream) -> None:
        super().__init__()
        self._writer = writer
        self._stream = stream

    @property
    def delivered(self) -> bool:
        return self._writer.delivered

    @property
    def position(self) -> Json | None:
        return self._stream.position

    def open(self, usage: ReplyUsage) -> None:
        self._pass_on(self._writer.open, usage)

    def write(self, event: Json) -> None:
        self._pass_on(self._writer.write, event)

    def flush(self) -> None:
        self._pass_on(self._writer.flush)

    def close(self, usage: ReplyUsage) -> None:
        self._pass_on(self._writer.close, usage)
        self._feed(self._writer.take_last())

    def take_last(self) -> bytes:
        return self._stream.take_last()

    def _pass_on(self, write: Callable[..., None], *what: Json | ReplyUsage) -> None:
        """Feed the inner writer's events to the outer stream."""
        try:
            write(*what)
        finally:  # output counts even if the caller cannot get it
            self.text_bytes = self._writer.text_bytes
        self._feed(self._writer.take())

    def _feed(self, data: bytes) -> None:
        self.out.append(self._stream.feed(data))
        # Content that the outer translation cannot write is undeliverable, too.
        if self._stream.failure is not None:
            raise self._stream.failure

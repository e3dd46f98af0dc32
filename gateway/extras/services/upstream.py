"""Upstreams of OpenAI's services beside conversations, and streams whose last event completes a reply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import partial
from typing import Final

from gateway.base.money import Tokens
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.base import Upstream
from gateway.dialects.wire.billed import check_fields, check_tools
from gateway.dialects.wire.failures import check_error
from gateway.dialects.wire.jsonbytes import edit_model, get_object, hide_bill
from gateway.dialects.wire.passing import PassingStream
from gateway.dialects.wire.pipelines import EventReader
from gateway.dialects.wire.records import Json, ReplyContext, Target

join_large: Final = partial(Exchange, max_elements=None)
"""Makes an `Exchange` whose replies have large parts that are not parsed, so only their bytes are limited."""


class ServiceUpstream(Upstream):
    """The part of an `Upstream` of OpenAI's other services that most of them share.

    A reply that can be parsed is whole. It has no output tokens, and passes except for the model's name.
    """

    check_error = staticmethod(check_error)

    @abstractmethod
    def demonstrate(self, body: Json) -> Iterator[bytes]: ...

    def ask(self, body: Json, target: Target) -> Json:
        check_fields(body, target, self.multiplied)
        check_tools(body, target)
        return {**body, "model": target.upstream_model}

    def find_usage(self, reply: Json, /) -> Json | None:
        """Find the usage, which in Cohere's replies is under `meta`."""
        meta = get_object(reply, "meta")
        held = (get_object(meta, "billed_units"), get_object(meta, "tokens"))
        return {**held[0], **held[1], **get_object(reply, "usage")} or None

    def is_whole(self, reply: Json) -> bool:  # noqa: ARG002 - a reply that is cut is no JSON
        return True

    def has_content(self, reply: Json) -> bool:  # noqa: ARG002 - its content is not counted in tokens
        return False

    def count_text(self, reply: Json) -> int:  # noqa: ARG002 - there is none
        return 0

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002
        if type(reply.get("model")) is str or hide_bill(reply, text) is not reply:
            return edit_model(text, reply, context.request.model)
        return text


class LastEventStream(PassingStream):
    """The part of a passing `Pipeline` whose last event completes the reply, such as an image.

    The blank line after that event waits for the charge, so that no client reads the event before it.
    """

    __slots__ = ("_unsent",)

    def __init__(self, context: ReplyContext, reader: EventReader) -> None:
        super().__init__(context, reader)
        self._unsent = b""

    @property
    def mid_event(self) -> bool:
        return bool(self._unsent) or super().mid_event

    def feed(self, data: bytes) -> bytes:
        out = self._unsent + super().feed(data)
        self._unsent = out[-2:] if self._reader.finished else b""
        return out[: len(out) - len(self._unsent)]

    def end(self) -> bytes:
        out = self._unsent + super().end()
        self._unsent = b""
        if not self.complete:
            return out
        self._last = out[-2:]
        return out[:-2]

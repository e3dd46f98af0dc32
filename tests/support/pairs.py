"""All pairs of caller and provider: real SDKs on one side, a scripted provider on the other.

Both sides use `Told`, so one test serves every pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import anthropic
import openai
import pytest

from tests.support import messages, responses
from tests.support.chat import Used
from tests.support.content import Content, ToolCall, of_completion, of_message, of_response
from tests.support.formats import CALLERS
from tests.support.replies import (
    DONE,
    chunk,
    completion,
    dumps,
    json_reply,
    sse,
    sse_reply,
    text_chunks,
)
from tests.support.sdks import Clients
from tests.support.upstream import Script

Json = dict[str, Any]
STOP_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "refusal",
}


INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why a response is incomplete, for chat's finish reasons."""


class Provider(Protocol):
    """How a provider of one dialect sends some content."""

    dialect: str
    kind: str
    """The kind of its models in the configuration."""

    def reply(self, told: Content) -> Script: ...

    def events(self, told: Content) -> list[bytes]:
        """Make its stream, with the terminal event."""

    def error_event(self, message: str) -> bytes: ...

    def stream(self, told: Content) -> Script:
        return sse_reply(self.events(told), done=False)


class ChatProvider(Provider):
    dialect = "chat"
    kind = "plain"

    def reply(self, told: Content) -> Script:
        message: Json = {"role": "assistant", "content": told.text or None, "refusal": None}
        if told.thinking:
            message["reasoning_content"] = told.thinking
        if told.calls:
            message["tool_calls"] = [_write_call(call) for call in told.calls]
        value = completion(usage=self._usage(told))
        value["choices"][0] |= {"message": message, "finish_reason": told.finish}
        return json_reply(value)

    def events(self, told: Content) -> list[bytes]:
        first, last = text_chunks([], finish=told.finish)
        chunks = [first]
        chunks += [chunk({"reasoning_content": part}) for part in messages.halve(told.thinking)]
        chunks += [chunk({"content": part}) for part in messages.halve(told.text)]
        for index, call in enumerate(told.calls):
            whole = _write_call(call)
            arguments = whole["function"].pop("arguments")
            begin = {"index": index, **whole, "function": whole["function"] | {"arguments": ""}}
            chunks.append(chunk({"tool_calls": [begin]}))
            chunks += [
                chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
                for part in messages.halve(arguments)
            ]
        chunks += [last, chunk(None, usage=self._usage(told))]
        return [*map(sse, chunks), DONE]

    def error_event(self, message: str) -> bytes:
        return sse({"error": {"message": message, "type": "server_error", "code": None}})

    def _usage(self, told: Content) -> Json:
        assert told.used is not None
        return make_chat_usage(told.used)


class MessagesProvider(Provider):
    dialect = "messages"
    kind = "messages"

    def reply(self, told: Content) -> Script:
        return json_reply(messages.make_message(**self._parts(told)))

    def events(self, told: Content) -> list[bytes]:
        return messages.frames(messages.make_events(**self._parts(told)))

    def error_event(self, message: str) -> bytes:
        error = {"type": "overloaded_error", "message": message}
        return messages.frame({"type": "error", "error": error})

    def _parts(self, told: Content) -> Json:
        assert told.used is not None
        blocks = [messages.thinking(told.thinking)] if told.thinking else []
        blocks += [messages.text(told.text)] if told.text else []
        blocks += [messages.call(call.id, call.name, call.arguments) for call in told.calls]
        return {
            "content": blocks,
            "usage": messages.make_usage(told.used),
            "stop": STOP_REASONS[told.finish or "stop"],
        }


class ResponsesProvider(Provider):
    dialect = "responses"
    kind = "responses"

    def reply(self, told: Content) -> Script:
        return json_reply(responses.make_response(**self._parts(told)))

    def events(self, told: Content) -> list[bytes]:
        return responses.frames(responses.make_events(**self._parts(told)))

    def error_event(self, message: str) -> bytes:
        error = {"code": "server_error", "message": message}
        reply = responses.make_response([], used=None, status="failed", error=error)
        return responses.frame({"type": "response.failed", "sequence_number": 9, "response": reply})

    def _parts(self, told: Content) -> Json:
        items = [responses.reasoning(told.thinking)] if told.thinking else []
        items += [responses.text(told.text)] if told.text else []
        items += [
            responses.call(call.id, call.name, call.arguments, f"fc_{call.id}")
            for call in told.calls
        ]
        return {
            "output": items,
            "used": told.used,
            "incomplete": INCOMPLETE.get(told.finish or "stop"),
        }


def make_chat_usage(used: Used) -> Json:
    return {
        "prompt_tokens": used.prompt,
        "completion_tokens": used.completion,
        "total_tokens": used.prompt + used.completion,
        "prompt_tokens_details": {"cached_tokens": used.cached, "cache_write_tokens": used.written},
    }


def _write_call(call: ToolCall) -> Json:
    function = {"name": call.name, "arguments": dumps(call.arguments).decode()}
    return {"id": call.id, "type": "function", "function": function}


@dataclass(frozen=True, slots=True)
class Caller:
    """How a caller of one dialect asks through its SDK, and what it reads."""

    dialect: str
    error: type[Exception] | tuple[type[Exception], ...]
    """The exception by which its SDK reports a failure in a stream."""
    find: Callable[[Clients], Any]
    """The part of the SDK that is asked."""
    read: Callable[[Json], Content]
    end: Callable[[Any, list[Any]], Any]
    """Takes the whole reply from a helper's stream that has ended, and its events."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The dialect's own names of the fields of a plain chat body."""
    helped: Mapping[str, Any] = field(default_factory=dict)
    """The fields that the stream helper needs."""

    def write(self, body: Json) -> Json:
        return {self.names.get(name, name): value for name, value in body.items()}

    async def send(self, clients: Clients, body: Json, *, stream: bool) -> Any:
        """Return the SDK's whole reply, that of a stream by the stream helper."""
        if not stream:
            return await self.find(clients).create(**self.write(body))
        async with self.find(clients).stream(**self.write(body), **self.helped) as events:
            return self.end(events, [event async for event in events])

    async def complete(self, clients: Clients, body: Json) -> Content:
        whole = await self.send(clients, body, stream=False)
        return self.read(whole.model_dump(warnings=False))

    async def stream(self, clients: Clients, body: Json) -> Content:
        """Ask through the stream helper."""
        whole = await self.send(clients, body, stream=True)
        return self.read(whole.model_dump(warnings=False))

    async def iterate(self, clients: Clients, body: Json) -> int:
        """Ask with `stream=True` and return the number of events."""
        stream = await self.find(clients).create(**self.write(body), stream=True)
        events = [event async for event in stream]
        if self is RESPONSES_CALLER:
            _find_response(stream, events)
            assert [event.sequence_number for event in events] == list(range(len(events)))
        return len(events)


class Failed(Exception):
    """A Responses stream ended with `response.failed`, or without an end."""


def _find_response(_: object, events: list[Any]) -> Any:
    """Return the last event's response. Raises Failed for one that failed: the SDK only yields it."""
    last = events[-1] if events else None
    if last is not None and last.type == "response.failed":
        raise Failed(last.response.error.message)
    if last is None or last.type not in {"response.completed", "response.incomplete"}:
        raise Failed("the stream has no end")
    return last.response


CHAT_CALLER: Final = Caller(
    "chat",
    openai.APIError,
    lambda clients: clients.chat.chat.completions,
    of_completion,
    # The helper's final completion raises if the reply was cut or filtered.
    lambda stream, _: stream.current_completion_snapshot,
    helped={"stream_options": {"include_usage": True}},
)
MESSAGES_CALLER: Final = Caller(
    "messages",
    anthropic.APIStatusError,
    lambda clients: clients.messages.messages,
    of_message,
    lambda stream, _: stream.current_message_snapshot,
)
RESPONSES_CALLER: Final = Caller(
    "responses",
    (openai.APIError, Failed),
    lambda clients: clients.chat.responses,
    of_response,
    _find_response,
    names={"messages": "input", "max_tokens": "max_output_tokens"},
)
CHAT_PROVIDER: Final = ChatProvider()
MESSAGES_PROVIDER: Final = MessagesProvider()
RESPONSES_PROVIDER: Final = ResponsesProvider()
PAIRS: Final[list[tuple[Caller, Provider]]] = [
    (caller, provider)
    for caller in (CHAT_CALLER, MESSAGES_CALLER, RESPONSES_CALLER)
    for provider in (CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER)
    if {caller.dialect, provider.dialect} <= CALLERS.keys()
]
IDS: Final = [f"{caller.dialect} over {provider.dialect}" for caller, provider in PAIRS]
each_pair: Final = pytest.mark.parametrize(("caller", "provider"), PAIRS, ids=IDS)

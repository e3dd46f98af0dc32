"""All pairs of caller and provider: real SDKs on one side, a scripted provider on the other.

Both sides use `Told`, so one test serves every pair.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any, Final, Protocol

import anthropic
import openai
import pytest
from openai.types import CompletionUsage
from openai.types.chat import ChatCompletion, ParsedChatCompletion

from tests.support import messages, responses
from tests.support.chat import Used
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
from tests.support.stage import Stage
from tests.support.told import FINISH, Told, ToolCall, read_usage
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

    def reply(self, told: Told) -> Script: ...

    def events(self, told: Told) -> list[bytes]:
        """Make its stream, with the terminal event."""

    def error_event(self, message: str) -> bytes: ...

    def stream(self, told: Told) -> Script:
        return sse_reply(self.events(told), done=False)


class ChatProvider(Provider):
    dialect = "chat"
    kind = "plain"

    def reply(self, told: Told) -> Script:
        message: Json = {"role": "assistant", "content": told.text or None, "refusal": None}
        if told.thinking:
            message["reasoning_content"] = told.thinking
        if told.calls:
            message["tool_calls"] = [_write_call(call) for call in told.calls]
        value = completion(usage=self._usage(told))
        value["choices"][0] |= {"message": message, "finish_reason": told.finish}
        return json_reply(value)

    def events(self, told: Told) -> list[bytes]:
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

    def _usage(self, told: Told) -> Json:
        assert told.used is not None
        return make_chat_usage(told.used)


class MessagesProvider(Provider):
    dialect = "messages"
    kind = "messages"

    def reply(self, told: Told) -> Script:
        return json_reply(messages.make_message(**self._parts(told)))

    def events(self, told: Told) -> list[bytes]:
        return messages.frames(messages.make_events(**self._parts(told)))

    def error_event(self, message: str) -> bytes:
        error = {"type": "overloaded_error", "message": message}
        return messages.frame({"type": "error", "error": error})

    def _parts(self, told: Told) -> Json:
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

    def reply(self, told: Told) -> Script:
        return json_reply(responses.make_response(**self._parts(told)))

    def events(self, told: Told) -> list[bytes]:
        return responses.frames(responses.make_events(**self._parts(told)))

    def error_event(self, message: str) -> bytes:
        error = {"code": "server_error", "message": message}
        reply = responses.make_response([], used=None, status="failed", error=error)
        return responses.frame({"type": "response.failed", "sequence_number": 9, "response": reply})

    def _parts(self, told: Told) -> Json:
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


class Clients:
    """The real SDKs, changed only in base address and key; created on first use."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    @cached_property
    def chat(self) -> openai.AsyncOpenAI:
        stage = self._stage
        return openai.AsyncOpenAI(base_url=stage.gateway.base_url, api_key=stage.key, max_retries=0)

    @cached_property
    def messages(self) -> anthropic.AsyncAnthropic:
        stage = self._stage
        return anthropic.AsyncAnthropic(
            base_url=stage.gateway.root_url, api_key=stage.key, max_retries=0
        )

    async def close(self) -> None:
        for client in vars(self).values():
            if isinstance(client, openai.AsyncOpenAI | anthropic.AsyncAnthropic):
                await client.close()


class Caller(Protocol):
    """How a caller of one dialect asks through its SDK, and what it reads."""

    dialect: str
    error: type[Exception] | tuple[type[Exception], ...]
    """The exception by which its SDK reports a failure in a stream."""

    async def complete(self, clients: Clients, body: Json) -> Told: ...

    async def stream(self, clients: Clients, body: Json) -> Told:
        """Ask through the stream helper."""

    async def iterate(self, clients: Clients, body: Json) -> int:
        """Ask with `stream=True` and return the number of events."""


class ChatCaller(Caller):
    dialect = "chat"
    error = openai.APIError

    async def complete(self, clients: Clients, body: Json) -> Told:
        return of_completion(await clients.chat.chat.completions.create(**body))

    async def stream(self, clients: Clients, body: Json) -> Told:
        body = body | {"stream_options": {"include_usage": True}}
        async with clients.chat.chat.completions.stream(**body) as stream:
            async for _ in stream:
                pass
            # The helper's final completion raises if the reply was cut or filtered.
            return of_completion(stream.current_completion_snapshot)

    async def iterate(self, clients: Clients, body: Json) -> int:
        stream = await clients.chat.chat.completions.create(**body, stream=True)
        return len([one async for one in stream])


class MessagesCaller(Caller):
    dialect = "messages"
    error = anthropic.APIStatusError

    async def complete(self, clients: Clients, body: Json) -> Told:
        return of_message(await clients.messages.messages.create(**body))

    async def stream(self, clients: Clients, body: Json) -> Told:
        async with clients.messages.messages.stream(**body) as stream:
            return of_message(await stream.get_final_message())

    async def iterate(self, clients: Clients, body: Json) -> int:
        stream = await clients.messages.messages.create(**body, stream=True)
        return len([one async for one in stream])


class Failed(Exception):
    """A Responses stream ended with `response.failed`, or without an end."""


class ResponsesCaller(Caller):
    dialect = "responses"
    error = (openai.APIError, Failed)

    async def complete(self, clients: Clients, body: Json) -> Told:
        return of_response(await clients.chat.responses.create(**_as_response(body)))

    async def stream(self, clients: Clients, body: Json) -> Told:
        async with clients.chat.responses.stream(**_as_response(body)) as stream:
            events = [event async for event in stream]
        return of_response(_find_end(events).response)

    async def iterate(self, clients: Clients, body: Json) -> int:
        stream = await clients.chat.responses.create(**_as_response(body), stream=True)
        events = [event async for event in stream]
        _find_end(events)
        assert [event.sequence_number for event in events] == list(range(len(events)))
        return len(events)


def _find_end(events: list[Any]) -> Any:
    """Return the last event of a stream. Raises Failed for one that failed: the SDK only yields it."""
    last = events[-1] if events else None
    if last is not None and last.type == "response.failed":
        raise Failed(last.response.error.message)
    if last is None or last.type not in {"response.completed", "response.incomplete"}:
        raise Failed("the stream has no end")
    return last


def _as_response(body: Json) -> Json:
    """Write a plain chat body as one of the Responses API."""
    names = {"messages": "input", "max_tokens": "max_output_tokens"}
    return {names.get(name, name): value for name, value in body.items()}


def of_response(whole: Any) -> Told:
    """Read a response: the SDK's own, or one that its stream helper has parsed."""
    calls = [one for one in whole.output if one.type == "function_call"]
    thoughts = [one for one in whole.output if one.type == "reasoning"]
    reason = whole.incomplete_details and whole.incomplete_details.reason
    finish = {value: key for key, value in INCOMPLETE.items()}.get(
        reason, "tool_calls" if calls else "stop"
    )
    usage = whole.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens
    details = usage.input_tokens_details
    written = getattr(details, "cache_write_tokens", None) or 0
    return Told(
        text=whole.output_text,
        thinking="".join(
            part.text for one in thoughts for part in [*one.summary, *(one.content or [])]
        ),
        calls=[ToolCall(one.call_id, one.name, json.loads(one.arguments)) for one in calls],
        finish=finish,
        used=Used(usage.input_tokens, usage.output_tokens, details.cached_tokens, written),
    )


def of_completion(whole: ChatCompletion | ParsedChatCompletion[None]) -> Told:
    choice = whole.choices[0]
    calls = [
        ToolCall(call.id, call.function.name, json.loads(call.function.arguments))
        for call in choice.message.tool_calls or []
        if call.type == "function"
    ]
    thinking = (choice.message.model_extra or {}).get("reasoning_content") or ""
    used = None if whole.usage is None else of_chat_usage(whole.usage)
    return Told(choice.message.content or "", thinking, calls, choice.finish_reason, used)


def of_chat_usage(usage: CompletionUsage) -> Used:
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    details = usage.prompt_tokens_details
    cached = details.cached_tokens if details else None
    written = details.cache_write_tokens if details else None
    return Used(usage.prompt_tokens, usage.completion_tokens, cached or 0, written or 0)


def of_message(message: anthropic.types.Message) -> Told:
    blocks = message.content
    return Told(
        text="".join(block.text for block in blocks if block.type == "text"),
        thinking="".join(block.thinking for block in blocks if block.type == "thinking"),
        calls=[
            ToolCall(block.id, block.name, dict(block.input))
            for block in blocks
            if block.type == "tool_use"
        ],
        finish=FINISH[message.stop_reason or ""],
        used=read_usage(message.usage.model_dump()),
    )


CHAT_CALLER: Final = ChatCaller()
MESSAGES_CALLER: Final = MessagesCaller()
RESPONSES_CALLER: Final = ResponsesCaller()
CHAT_PROVIDER: Final = ChatProvider()
MESSAGES_PROVIDER: Final = MessagesProvider()
RESPONSES_PROVIDER: Final = ResponsesProvider()
PAIRS: Final[list[tuple[Caller, Provider]]] = [
    (caller, provider)
    for caller in (CHAT_CALLER, MESSAGES_CALLER, RESPONSES_CALLER)
    for provider in (CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER)
]
IDS: Final = [f"{caller.dialect} over {provider.dialect}" for caller, provider in PAIRS]
each_pair: Final = pytest.mark.parametrize(("caller", "provider"), PAIRS, ids=IDS)

"""Both sides of the chat dialect: checking callers' requests, asking upstreams, reading JSON replies.

OpenAI's other services use a similar request, so the parts shared with them are here, too.

Before money is held, only fields that are priced or limited by the schema are checked. All others pass,
known or not. Texts and codes are OpenAI's own where known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.base.errors import BadRequest
from gateway.base.money import Tokens
from gateway.base.usage import Expected, Reported
from gateway.dialects.chat.content import carries, count_choices_text
from gateway.dialects.chat.history import write_history
from gateway.dialects.chat.repair import ID_PREFIX, maybe_repair_reply
from gateway.dialects.chat.stream import DONE, ChatReader, ChatStream
from gateway.dialects.chat.tools import write_tools
from gateway.dialects.wire import fields, known
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.billed import check_fields, check_tools
from gateway.dialects.wire.failures import check_error
from gateway.dialects.wire.jsonbytes import dumps_lenient, hide_bill, maybe_splice
from gateway.dialects.wire.names import Names, check_spelling
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import (
    CompletionRequest,
    Json,
    MaxTokensField,
    ReplyContext,
    Target,
)
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.usage import find_chunk_usage, read_openai_usage

ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_MAY_LACK_CONTENT: Final = frozenset({"assistant", "function", "tool"})
_TEXT_PARTS: Final = frozenset({"text", "refusal", "thinking", "reasoning", "reference"})
"""Parts whose bytes bound their tokens. Any other part counts as a file, of whatever kind it is."""
_COUNTED: Final = frozenset({"n", "max_completion_tokens", "max_tokens"})
"""The fields of `COUNTED` that the dialect reads itself."""
_OF_MESSAGES: Final = ("anthropic_version", "system")
"""Members that only requests of the messages API have."""
_MESSAGES_BLOCKS: Final = frozenset({"redacted_thinking", "tool_result", "tool_use"})
"""Blocks that only turns of the messages API have."""
_PLAIN: Final = frozenset(
    {"role", "content", "name", "tool_call_id", "reasoning_content", "refusal"}
)
"""Members of a message that have no files, or are checked. Nearly all messages have no others."""
_URL: Final = re.compile(r"[a-z]{1,9}:", re.IGNORECASE)
_PLAIN_MEMBERS: Final = 2
"""Members of a plain message (`role` and `content`) and of most parts: with two, there are no others."""
_MESSAGE: Final = Names(
    {"audio", "content", "extra_content", "function_call", "name", "reasoning"}
    | {"reasoning_content", "reasoning_details", "refusal", "role", "tool_call_id", "tool_calls"},
    known.MARK_NAMES,
)
_PART: Final = Names(
    {"audio_url", "document_url", "file", "file_id", "image_file", "image_url"}
    | {"input_audio", "text", "type", "video_url"},
    known.MARK_NAMES,
)
_PART_NAMES: Final = frozenset({"cache_control", "text", "type"})
_PICTURE_NAMES: Final = frozenset({"detail", "url"})


class ChatCaller(Caller):
    """A `Caller` of the chat completions API."""

    name = "chat"
    path = "/chat/completions"
    conversation_field = "messages"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = self.read_body(data)
        for name in _OF_MESSAGES:
            if body.get(name):
                raise _refuse_messages(name)
        options = body.get("stream_options") or {}
        # A provider may obey either limit, and the hold has to cover the larger.
        most = max(body.get("max_completion_tokens") or 0, body.get("max_tokens") or 0)
        n, limit = known.count_output(body, body.get("n") or 1, most, _COUNTED)
        request = CompletionRequest(
            body,
            body["model"],
            body.get("stream") is True,
            options.get("include_usage") is True,
            n=n,
            max_tokens=limit,
        )
        _check_messages(body["messages"], request)
        if not known.ORDINARY.issuperset(body):
            known.add_others(request, body, known.ORDINARY)
        return request

    def read_body(self, data: bytes) -> Json:
        """Read the body as chat; a subclass may read other forms of it, too. Raises BadRequest."""
        return fields.read_body(data, FIELDS, ("model", "messages"))


def _refuse_messages(name: str) -> BadRequest:
    return fields.unsupported(
        name, " is of Anthropic's Messages API: to send such a request, use POST /v1/messages."
    )


def _check_messages(messages: object, request: CompletionRequest) -> None:
    if messages == []:
        raise fields.empty("array", "messages")
    if type(messages) is not list:
        raise fields.wrong_type("messages", "an array of objects", messages)
    # Conversations have thousands of messages, so these checks make no `Field` of each.
    for index, message in enumerate(messages):  # names are made only for errors
        if type(message) is not dict:
            raise fields.wrong_type(f"messages[{index}]", "an object", message)
        role, content = message.get("role"), message.get("content")
        if type(role) is not str or role not in ROLES:
            fields.check_word(f"messages[{index}].role", role, ROLES)
        if content is None and role not in _MAY_LACK_CONTENT:
            raise fields.missing(f"messages[{index}].content")
        if (
            len(message) > _PLAIN_MEMBERS or content is None
        ) and not message.keys() <= _MESSAGE.plain:
            _MESSAGE.check(f"messages[{index}]", message)
        if content is not None and type(content) is not str:
            _check_content(f"messages[{index}].content", content, request, role)
        if not _PLAIN.issuperset(message):
            _check_calls(f"messages[{index}].tool_calls", message.get("tool_calls"))
            # Others are, for example, an earlier reply's `audio` by its id.
            known.add_others(request, message, _PLAIN)


def _check_calls(where: str, calls: object) -> None:
    if calls is not None and type(calls) is not list:
        raise fields.wrong_type(where, "an array of objects", calls)
    for index, call in enumerate(calls or ()):
        if type(call) is not dict:
            raise fields.wrong_type(f"{where}[{index}]", "an object", call)


def _check_content(where: str, content: object, request: CompletionRequest, role: object) -> None:
    if type(content) is not list:
        raise fields.wrong_type(where, "a string or an array of content parts", content)
    # Editors write an empty array beside calls, and tools that found nothing have one.
    if not content and role not in _MAY_LACK_CONTENT:
        raise fields.empty("array", where)
    for index, part in enumerate(content):
        kind = fields.maybe_kind(part)
        if kind is None:
            raise fields.refuse_part(f"{where}[{index}]", part)
        if len(part) > _PLAIN_MEMBERS or kind not in part:
            _PART.check(f"{where}[{index}]", part)
            if kind not in _PART.known:
                check_spelling(f"{where}[{index}]", part, kind)
            # Some providers read members beside the text, too.
            known.add_others(request, part, _PART_NAMES)
        if kind in _MESSAGES_BLOCKS:
            raise _refuse_messages(f"{where}[{index}]")
        if kind not in _TEXT_PARTS:
            _add_file(f"{where}[{index}]", kind, part, request)


def _add_file(where: str, kind: str, part: Json, request: CompletionRequest) -> None:
    """Count the file of a part. Raises BadRequest for a file named by its id."""
    held = part.get(kind)
    file = held if isinstance(held, dict) else {"url": held}
    known.FILE_NAMES.check(f"{where}.{kind}", file)
    if part.get("file_id") is not None:
        raise fields.unsupported_file(f"{where}.file_id", "'file_data'")
    if file.get("file_id") is not None:
        raise fields.unsupported_file(f"{where}.{kind}.file_id", "'file_data'")
    match kind:
        case "image_url":
            request.add_url("picture", file.get("url"), where)
            known.add_others(request, file, _PICTURE_NAMES)
        case "audio_url":
            request.add_url("audio", file.get("url"), where)
        case _ if "audio" in kind:
            request.add_file("audio", file.get("data"), where)
        case "file":
            data = file.get("file_data")  # a data URL, a link, or base64 alone
            is_url = not isinstance(data, str) or _URL.match(data)
            (request.add_url if is_url else request.add_file)("document", data, where)
        case _:
            request.add_url("document", file.get("url"), where)


def _check_stop(name: str, value: object) -> None:
    if not isinstance(value, str):
        fields.check_strings(name, value, "a string or an array of strings")


def _check_stream_options(name: str, value: object) -> None:
    if not isinstance(value, dict):
        raise fields.wrong_type(name, "an object", value)
    wanted = value.get("include_usage")
    if wanted is not None and not isinstance(wanted, bool):
        raise fields.wrong_type(f"{name}.include_usage", "a boolean", wanted)


CHECKS: Final[Mapping[str, fields.Check]] = {
    "model": fields.check_string,
    "stream": fields.check_boolean,
    "stream_options": _check_stream_options,
    "max_tokens": fields.check_integer(0, fields.MAX_TOKENS_BOUND),
    "max_completion_tokens": fields.check_integer(0, fields.MAX_TOKENS_BOUND),
    "n": fields.check_integer(1, known.MAX_CHOICES),
    "temperature": fields.check_number(0, 2),
    "top_p": fields.check_number(0, 1),
    "stop": _check_stop,
}
FIELDS: Final = known.make_fields({**known.COUNTED, **CHECKS})


def has_choice(reply: Json) -> bool:
    """Return whether a reply has a choice that can be read."""
    choices = reply.get("choices")
    return type(choices) is list and dict in map(type, choices)


def is_finished(reply: Json) -> bool:
    """Return whether all choices of a reply have their finish reason."""
    choices = (one for one in reply["choices"] if type(one) is dict)
    return all(one.get("finish_reason") for one in choices)


class ChatUpstream(EventUpstream):
    """An `Upstream` with an OpenAI-compatible API."""

    name = "chat"
    path = "/chat/completions"
    reply_name = "a chat completion"
    check_error = staticmethod(check_error)
    check_reply = staticmethod(has_choice)
    is_whole = staticmethod(is_finished)
    find_usage = staticmethod(find_chunk_usage)

    def ask(self, body: Json, target: Target) -> Json:
        check_fields(body, target)
        if body.get("tools"):
            check_tools(body, target)
            body = write_tools(body)
        body = {**body, "model": target.upstream_model}
        if target.max_tokens_field == "max_completion_tokens":
            # OpenAI's newer models refuse `max_tokens`, and Mistral the other name.
            body = _rename_limit(body, "max_tokens", "max_completion_tokens")
        elif target.history == "mistral":
            body = _rename_limit(body, "max_completion_tokens", "max_tokens")
        if "messages" in body:
            body["messages"] = write_history(body["messages"], target, body.get("tools"))
        ask_usage(body, target)
        return body

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return read_openai_usage(find_chunk_usage(reply), reply.get("service_tier"), expected)

    def has_content(self, reply: Json) -> bool:
        return any(carries(choice, "message") for choice in reply["choices"])

    def count_text(self, reply: Json) -> int:
        return count_choices_text(reply["choices"], "message")

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        """Edit model and id, repair what breaks the schema, and add `tokens` if there is no usage."""
        shown = hide_bill(reply, text)
        repaired = maybe_repair_reply(shown, tokens, context) or (None if shown is reply else shown)
        wanted, model = repaired or reply, reply.get("model")
        identity, ours = wanted["id"], context.request.model
        identity = identity if identity.startswith(ID_PREFIX) else ID_PREFIX + identity
        out: bytes | None = None
        if repaired is None and type(model) is str:
            out = maybe_splice(text, "model", model, ours)
            if out and identity != reply["id"]:
                out = maybe_splice(out, "id", reply["id"], identity)
        return out or dumps_lenient({**wanted, "id": identity, "model": ours})

    def replay_reply(self, text: bytes, reply: Json) -> bytes:  # noqa: ARG002
        head = {key: value for key, value in reply.items() if key not in {"choices", "usage"}}
        chunks: list[Json] = []
        for index, choice in enumerate(reply["choices"]):
            if isinstance(choice, dict):
                delta = choice.get("message")
                rest = {key: value for key, value in choice.items() if key != "message"}
                item = {"index": index, "finish_reason": None, **rest, "delta": delta}
                chunks.append({**head, "choices": [item]})
        chunks.append({**head, "choices": [], "usage": reply.get("usage")})
        # A reply that is cut short must not look whole as a stream.
        return b"".join(map(render_data, chunks)) + (DONE if self.is_whole(reply) else b"")

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return ChatStream(context)

    def open_reader(self, context: ReplyContext) -> ChatReader:
        return ChatReader(context)


def _rename_limit(body: Json, refused: MaxTokensField, taken: MaxTokensField) -> Json:
    """Write the limit of output by the name that a provider takes; if both are there, the one of that name."""
    if refused not in body:
        return body
    limit = body[refused] if body.get(taken) is None else body[taken]
    return {**{name: body[name] for name in body if name != refused}, taken: limit}


def ask_usage(body: Json, target: Target) -> None:
    """Ask in a request for the usage of a stream, or for none if the upstream would refuse that."""
    if not target.ask_usage:
        body.pop("stream_options", None)
    elif body.get("stream"):
        body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}

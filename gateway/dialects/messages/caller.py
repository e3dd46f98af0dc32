"""Messages callers (Anthropic's API): their requests, errors and list of models, and typed access.

Before money is held, only fields that are priced or limited by the schema are checked. All others pass,
known or not.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson

from gateway.base.errors import BadRequest, GatewayError
from gateway.base.usage import UNBOUNDED
from gateway.dialects.wire import fields, known
from gateway.dialects.wire.base import Caller, ListedModel, RateLimit
from gateway.dialects.wire.fields import Field
from gateway.dialects.wire.jsonbytes import get_object, get_text
from gateway.dialects.wire.kinds import TOO_LONG, tell_too_long
from gateway.dialects.wire.names import Names
from gateway.dialects.wire.records import CompletionRequest, Json, Query

DEFAULT_PAGE: Final = 20
"""Models of a page if the caller does not say how many: the default of Anthropic's API, as its clients count
on it."""
MAX_PAGE: Final = 1000
"""Models of the largest page that a caller may ask for: the maximum of Anthropic's API."""


def _read_limit(values: Sequence[str] | None) -> int:
    if not values:
        return DEFAULT_PAGE
    if not re.fullmatch("[0-9]{1,4}", values[0]) or not 1 <= int(values[0]) <= MAX_PAGE:
        raise BadRequest(f"limit: expected a number from 1 to {MAX_PAGE}.", param="limit")
    return int(values[0])


def _find(models: Sequence[ListedModel], name: str, model_id: str) -> int:
    for index, model in enumerate(models):
        if model.id == model_id:
            return index
    raise BadRequest(f"{name}: there is no such model in the list.", param=name)


ROLES: Final = frozenset({"user", "assistant", "system"})
_PLAIN_MEMBERS: Final = 2
"""Members of a message, and of a plain block of text."""
_FILE_BLOCKS: Final = {"image": "picture", "document": "document"}
"""Kinds of files, by the type of block."""
_MESSAGE: Final = Names(("content", "role"), known.MARK_NAMES)
_BLOCK: Final = Names(
    {"citations", "data", "id", "input", "is_error", "name", "signature", "text", "thinking"}
    | {"tool_use_id", "type"},
    {
        **known.MARK_NAMES,
        **dict.fromkeys(("audio", "input_audio"), known.FILE_NAMES),
        "source": Names({"content", "type", *known.FILE_NAMES.known}),
    },
)
_TYPED: Final = Names(("type",))
_OWN: Final = {
    **dict.fromkeys(("mcp_tool_use", "server_tool_use", "tool_use"), ("input",)),
    **dict.fromkeys(("document", "image", "search_result"), ("source",)),
    **dict.fromkeys(("web_fetch_result", "web_search_result"), ("url",)),
}
"""Members that are no files despite their names, or that are checked, by the type of block."""
_RUN_TOOLS: Final = (
    *("advisor", "bash_code_execution", "code_execution", "mcp", "text_editor_code_execution"),
    *("tool_search", "web_fetch", "web_search"),
)
_TEXT_BLOCKS: Final = frozenset(
    {"text", "thinking", "redacted_thinking", "compaction", "fallback", "search_result", "tool_use"}
    | {"server_tool_use", "mcp_tool_use", "mcp_tool_listing", "tool_addition", "tool_removal"}
    | {"tool_result", "tool_reference", "web_search_result", "web_fetch_result"}
    | {f"{name}_tool_result" for name in _RUN_TOOLS}
)
"""Blocks whose bytes bound their tokens, but for the blocks in their `content`. Any other block counts as
a document, of whatever kind it is."""
_WORD: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""A possible name of a type or a field. Anything else is content, which errors must not quote."""
UNSET: Final = -1
"""The value of `top_k` or `top_p` that means unset in Anthropic's first documentation. LangChain for
JavaScript up to version 0.3 sends it for both, and n8n for `top_k`."""


class MessagesCaller(Caller):
    """A `Caller` of the messages API."""

    __slots__ = ()

    name = "messages"
    path = "/messages"
    marker = "anthropic-version"
    keep_alive = b'event: ping\ndata: {"type": "ping"}\n\n'
    required: Sequence[str] = ("model", "messages", "max_tokens")

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, self.required)
        n, most = known.count_output(body, 1, body.get("max_tokens") or 0, _COUNTED)
        stream = body.get("stream") is True
        request = CompletionRequest(body, body["model"], stream, True, n, most)
        _check_messages(body["messages"], request)
        if body.get("system"):
            _check_content("system", body["system"], request)
        if not known.ORDINARY.issuperset(body):
            known.add_others(request, body, known.ORDINARY)
            if body.get("thread") and get_text(get_object(body, "thread"), "type") != "create":
                request.more_tokens = UNBOUNDED  # the provider adds the earlier messages
        return request

    def render_error(self, error: GatewayError, request_id: str) -> bytes:
        message = tell_too_long(error.message) if error.code == TOO_LONG else error.message
        inner: dict[str, object] = {"type": error.messages_type, "message": message}
        if isinstance(error, BadRequest) and error.detail_code is not None:
            inner["details"] = {"error_code": error.detail_code}
        return orjson.dumps({"type": "error", "error": inner, "request_id": request_id})

    def render_error_event(
        self,
        error: GatewayError,
        request_id: str,
        position: Json | None,
        headers: Mapping[str, str],
    ) -> bytes:
        event = super().render_error_event(error, request_id, position, headers)
        return b"event: error\n" + event

    def reply_headers(self, request_id: str) -> dict[str, str]:
        return {"x-request-id": request_id, "request-id": request_id}

    def limit_headers(self, limits: Sequence[RateLimit], now_ms: int) -> dict[str, str]:
        """Return OpenAI's headers, and Anthropic's, which have RFC 3339 times."""
        headers = super().limit_headers(limits, now_ms)
        for one in limits:
            reset = datetime.fromtimestamp(now_ms / 1000 + one.reset_seconds, UTC)
            prefix = f"anthropic-ratelimit-{one.name}"
            headers[f"{prefix}-limit"] = str(one.limit)
            headers[f"{prefix}-remaining"] = str(one.remaining)
            headers[f"{prefix}-reset"] = f"{reset:%Y-%m-%dT%H:%M:%SZ}"
        return headers

    def list_models(self, models: Sequence[ListedModel], query: Query) -> Json:
        """Write a page: `limit` models after `after_id`, or right before `before_id`.

        Raises BadRequest for a limit out of range or an id that is not in the list.
        """
        limit = _read_limit(query.get("limit"))
        wanted = [*query.get("lifecycle", ()), *query.get("lifecycle[]", ())]
        if wanted and "active" not in wanted:
            models = ()  # all served models are active
        after, before = query.get("after_id"), query.get("before_id")
        if after:
            models = models[_find(models, "after_id", after[0]) + 1 :]
        if before:
            models = models[: _find(models, "before_id", before[0])]
        page = models[-limit:] if before and not after else models[:limit]
        return {
            "data": [self.show_model(model) for model in page],
            "has_more": len(models) > len(page),
            "first_id": page[0].id if page else None,
            "last_id": page[-1].id if page else None,
        }

    def show_model(self, model: ListedModel) -> Json:
        """Write Anthropic's model object, with null for unknown members."""
        created = datetime.fromtimestamp(model.created, UTC)
        return {
            "type": "model",
            "id": model.id,
            "display_name": model.id,
            "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "lifecycle": "active",
            "capabilities": None,
            "max_input_tokens": model.max_input_tokens,
            "max_tokens": model.max_output_tokens,
            "line": None,
            "deprecated_at": None,
            "retires_at": None,
        }


def _check_messages(messages: list[object], request: CompletionRequest) -> None:
    if not messages:
        raise BadRequest("messages: at least one message is required.", param="messages")
    for index, message in enumerate(messages):  # names are made only for errors
        if type(message) is not dict:
            raise fields.wrong_type(f"messages.{index}", "an object", message)
        role, content = message.get("role"), message.get("content")
        if type(role) is not str or role not in ROLES:
            name = f"messages.{index}.role"
            if role is None:
                raise fields.missing(name)
            raise BadRequest(f"{name}: expected 'user', 'assistant' or 'system'.", param=name)
        # A system message may change the effort alone.
        if content is None and not (role == "system" and get_object(message, "output_config")):
            raise fields.missing(f"messages.{index}.content")
        if len(message) > _PLAIN_MEMBERS or content is None:
            _MESSAGE.check(f"messages.{index}", message)
            known.add_others(request, message)
        if content is not None and type(content) is not str:
            _check_content(f"messages.{index}.content", content, request)


def _check_content(where: str, content: object, request: CompletionRequest) -> None:
    if type(content) is str:
        return
    if type(content) is not list:
        raise fields.wrong_type(where, "a string or an array of content blocks", content)
    for index, block in enumerate(content):
        kind = fields.maybe_kind(block)
        if kind is None:
            raise fields.refuse_part(f"{where}.{index}", block)
        if kind != "text" or len(block) > _PLAIN_MEMBERS:
            _BLOCK.check(f"{where}.{index}", block, ".{}")
            known.add_others(request, block, _OWN.get(kind, ()))
        if kind not in _TEXT_BLOCKS:
            _add_block(f"{where}.{index}", kind, block, request)
        elif "content" in block:
            _check_inner(f"{where}.{index}.content", kind, block["content"], request)


def _check_inner(where: str, kind: str, inner: object, request: CompletionRequest) -> None:
    """Check the blocks within a block. Blocks of unknown kinds may have any shape."""
    if kind != "tool_result":
        _TYPED.check(where, inner, ".{}")
        while type(inner) is dict and (named := get_text(inner, "type")) not in _FILE_BLOCKS:
            known.add_others(request, inner, _OWN.get(named, ()))
            inner, where = inner.get("content"), f"{where}.content"  # what a tool fetched
        items = inner if isinstance(inner, list) else [inner]
        inner = [one for one in items if isinstance(one, dict) and "type" in one]
    if inner is not None:
        _check_content(where, inner, request)


def _add_block(where: str, kind: str, block: Json, request: CompletionRequest) -> None:
    """Count a block that is, or may be, a file."""
    if kind == "container_upload":
        raise _refuse_file(where)
    if kind in _FILE_BLOCKS:
        _add_file(where, kind, block.get("source"), request)
    elif "audio" in kind:  # Anthropic has no such block, but other vendors of this API do
        held = get_object(block, "source") or get_object(block, kind)
        request.add_file("audio", held.get("data"), where)
    else:
        request.add_file("document", None, where)
        _check_inner(f"{where}.content", kind, block.get("content"), request)


def _add_file(where: str, kind: str, source: Any, request: CompletionRequest) -> None:
    match source:
        case {"type": "file"} | {"file_id": _}:
            raise _refuse_file(f"{where}.source")
        case {"type": "base64"}:
            is_picture = kind == "image" and get_text(source, "media_type").startswith("image/")
            request.add_file("picture" if is_picture else "document", source.get("data"), where)
        case {"type": "content", "content": list(inner)}:
            _check_content(f"{where}.source.content", inner, request)
        case {"type": "text"} | {"type": "content", "content": str()}:
            pass  # text like any other
        case _:
            request.add_file(_FILE_BLOCKS[kind], None, where)
    known.add_others(request, source)


def _refuse_file(name: str) -> BadRequest:
    return BadRequest(
        f"{name}: files of the operator's own account cannot be named; send the content itself.",
        param=name,
    )


_CHECKS: Final[Mapping[str, fields.Check]] = {
    "model": fields.check_string,
    "messages": fields.check_array,
    "max_tokens": fields.check_integer(0, fields.MAX_TOKENS_BOUND),
    "stream": fields.check_boolean,
    "stop_sequences": fields.check_strings,
    "temperature": fields.check_number(0, 1),
    "top_p": fields.check_number(UNSET, 1),
    "top_k": fields.check_integer(UNSET, fields.MAX_TOKENS_BOUND),
    "tools": fields.check_array,
    "tool_choice": fields.check_object,
    "thinking": fields.check_object,
    "output_config": fields.check_object,
    "metadata": fields.check_object,
}
_COUNTED: Final = frozenset({"max_tokens"})
"""The fields of `COUNTED` that the dialect reads itself."""
FIELDS: Final = known.make_fields({**known.COUNTED, **_CHECKS}, item=".{}")


class MessagesField(Field):
    """A field as Anthropic's own errors name it: `messages.0.content`."""

    __slots__ = ()

    @property
    def mark(self) -> Json:
        """The block's or tool's mark for the upstream's prompt cache; empty if the upstream takes none."""
        return {}

    def name_item(self, outer: str, index: int) -> str:
        return f"{outer}.{index}"

    def wrong_type(self, expected: str) -> BadRequest:
        return self.refuse(f"must be {expected}.")

    def refuse(self, reason: str) -> BadRequest:
        return BadRequest(f"{self.name}: {reason}", param=self.name)

    def refuse_field(self, what: str = "this field") -> BadRequest:
        return self.refuse(f"{what} cannot be carried over to this model's provider.")

    def refuse_type(self, what: str, kind: object) -> BadRequest:
        """Return the error for a type without a counterpart. It quotes the type only if that is a word."""
        is_word = isinstance(kind, str) and _WORD.fullmatch(kind)
        return self.refuse_field(f"{what} of type '{kind}'" if is_word else f"{what} of this type")

    def check_known(self, known: Container[str]) -> None:
        """Refuse unknown fields: a field dropped silently might matter."""
        for name, value in self.read_object().items():
            if name not in known and not is_default(value):
                raise self[name if _WORD.fullmatch(name) else "(a field)"].refuse_field()


class MarkedField(MessagesField):
    """A `MessagesField` for upstreams that take marks for their prompt cache."""

    __slots__ = ()

    @property
    def mark(self) -> Json:
        given = self.get("cache_control")
        return {} if given is None else {"cache_control": given}


def is_default(value: Any) -> bool:
    """Return whether a field of this value has no effect: null, or empty."""
    return value is None or value in ([], {})

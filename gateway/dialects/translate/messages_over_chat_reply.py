"""A chat completion, or a stream of one, as a message: its blocks, its ending and its usage.

Blocks have contiguous indexes and never overlap: `FirstChoiceWriter` orders them. Text and reasoning end when
other content begins.

`message_delta`, which has the stop reason and the whole usage, is sent only after the upstream's stream has
ended: usage may come with the finish reason, after it, or in every chunk, and the caller gets the usage
that is charged.

Strict readers of Anthropic's schema require all keys, so members that chat lacks are null.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, Literal

from gateway.base.errors import UndeliverableReply
from gateway.base.money import Tokens
from gateway.base.usage import read_count
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish, read_choice
from gateway.dialects.chat.writer import move_source
from gateway.dialects.messages.history import read_arguments, read_input, wrap_arguments
from gateway.dialects.messages.stream import DELTAS, STOP, BlockKind
from gateway.dialects.translate.first_choice import (
    Call,
    FirstChoiceWriter,
    Kind,
    read_call,
    read_contents,
)
from gateway.dialects.wire.call_ids import read_long_names
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object, get_text
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage
from gateway.dialects.wire.sse import render_event

_CUT: Final = "length"
_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "model_length": "model_context_window_exceeded",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""Stop reasons by finish reason; an unknown one counts as an ordinary end."""
MAX_CITED_CHARS: Final = 150
"""Characters of a `cited_text` (Anthropic's documentation of web search)."""


def translate_reply(reply: Json, context: ReplyContext, usage: ReplyUsage) -> Json:
    """Write a message from a chat completion."""
    choice, message = read_choice(reply, context)
    content = _read_blocks(message, choice.get("finish_reason"), context)
    stop = _map_stop(
        choice,
        context,
        called_tools=any(block["type"] == "tool_use" for block in content),
        refusal=get_text(message, "refusal"),
    )
    return _make_message(context, content, stop, _make_usage(usage))


def _read_blocks(message: Json, finish: object, context: ReplyContext) -> list[Json]:
    """Write the content blocks in the order the model made them."""
    contents, state = read_contents(message), StateCollector(context.provider_tag)
    if contents.media:
        raise _refuse_media()
    state.add(message)
    signature = state.take()
    blocks: list[Json] = []
    if contents.reasoning or signature:
        blocks.append(_make_thinking(contents.reasoning, signature or state.take_any()))
    if text := contents.text + contents.refusal:
        blocks.append(_make_text(text, _make_citations(contents.sources, contents.text)))
    names = read_long_names(context.request.body.get("tools"))
    for call in contents.calls:
        identity, name, given = read_call(call)
        arguments = _read_arguments(given, cut=finish == _CUT)
        blocks.append(_make_tool_use(identity, names.get(name, name), arguments))
    return blocks


def _read_arguments(given: str, *, cut: bool) -> Json:
    """Read the arguments as an object; no arguments are an empty object.

    If the token limit cut off a call, its arguments cannot be read and stay empty. The stop reason tells the
    caller why, and the rest of the reply, which is charged, is delivered.
    """
    if not given.strip():
        return {}
    read = read_arguments(given)
    return {} if read is None and cut else wrap_arguments(given if read is None else read)


def _make_citations(sources: list[Json], text: str, start: int = 0) -> list[Json]:
    """Write the citations of a text block that begins at `start` of the whole content."""
    return [_make_citation(move_source(source, -start), text) for source in sources]


def _make_citation(source: Json, text: str) -> Json:
    begin, end = source["start_index"], source["end_index"]
    return {
        "type": "web_search_result_location",
        "cited_text": text[begin : min(end, begin + MAX_CITED_CHARS)],
        "encrypted_index": "",  # only the vendor could encrypt its index
        "title": source["title"],
        "url": source["url"],
    }


def _refuse_media() -> UndeliverableReply:
    return UndeliverableReply("The model made an image or audio, which a message cannot hold.")


def _map_stop(choice: Json, context: ReplyContext, *, called_tools: bool, refusal: str) -> Json:
    """Map a choice's ending. Raises UpstreamError for a choice that ended in an error."""
    check_finish(choice.get("finish_reason"))
    reason = _REASONS.get(get_text(choice, "finish_reason"), "end_turn")
    if refusal:
        return _make_stop("refusal", explanation=refusal)
    if reason == "end_turn" and called_tools:
        return _make_stop("tool_use")
    # vLLM tells which of the caller's sequences ended the reply; OpenAI does not.
    told, asked = get_text(choice, "stop_reason"), get_list(context.request.body, "stop_sequences")
    if reason == "end_turn" and told and told in asked:
        return _make_stop("stop_sequence", told)
    return _make_stop(reason)


def _make_stop(reason: str | None, sequence: str | None = None, explanation: str = "") -> Json:
    """Write why a message ended, or nulls while it has not; `explanation` is that of a refusal."""
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return {
        "stop_reason": reason,
        "stop_sequence": sequence,
        "stop_details": details if explanation else None,
        "container": None,
    }


def _make_message(context: ReplyContext, content: list[Json], stop: Json, usage: Json) -> Json:
    return {
        "id": f"msg_{context.request_id}",
        "type": "message",
        "role": "assistant",
        "model": context.request.model,
        "content": content,
        **stop,
        "usage": usage,
    }


def _make_text(text: str, citations: Sequence[Json] = ()) -> Json:
    # Anthropic's schema allows null citations, but Anthropic omits them, and Vercel's AI SDK refuses null.
    return {"type": "text", "text": text, **({"citations": citations} if citations else {})}


def _make_thinking(thinking: str, signature: str = "") -> Json:
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def _make_tool_use(identity: str, name: str, arguments: Json) -> Json:
    return {
        "type": "tool_use",
        "id": identity,
        "name": name,
        "input": arguments,
        "caller": {"type": "direct"},
    }


def _make_usage(usage: ReplyUsage) -> Json:
    """Write a message's usage as it is charged."""
    creation = {
        "ephemeral_5m_input_tokens": usage.tokens.cache_write,
        "ephemeral_1h_input_tokens": usage.tokens.cache_write_1h,
    }
    return {
        **_make_delta_usage(usage),
        "cache_creation": creation,
        "inference_geo": None,
        "service_tier": None,
    }


def _make_delta_usage(usage: ReplyUsage) -> Json:
    """Write the cumulative usage of a message_delta event, which has fewer keys."""
    tokens = usage.tokens
    details = get_object(usage.reported or {}, "completion_tokens_details")
    thinking = read_count(details.get("reasoning_tokens"))
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write + tokens.cache_write_1h,
        "cache_read_input_tokens": tokens.cached_input,
        "output_tokens": tokens.output,
        "output_tokens_details": None if thinking is None else {"thinking_tokens": thinking},
        "server_tool_use": None,
    }


class MessageWriter(FirstChoiceWriter):
    """Writes messages events. Raises UndeliverableReply for calls that cannot be told apart."""

    __slots__ = ("_input", "_kind", "_last", "_names", "_refusal", "_texts")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._last: Json = {}
        """The choice as it came with its finish reason."""
        self._kind: BlockKind | None = None
        """The kind of the block that is open."""
        self._names: dict[str, str] | None = None
        """The caller's long names of tools, by the short ones."""
        self._texts: list[str] = []
        """The fragments of the text block that is open, which its citations quote."""
        self._input: Literal["", "object", "other"] = ""
        """The kind of the open call's arguments, known from their beginning; "" if nothing has come."""
        self._refusal = ""

    def open(self, usage: ReplyUsage) -> None:
        if usage.reported is None:  # clients show how full the context is while the reply comes
            usage = replace(usage, tokens=Tokens(self._context.expected.input_tokens))
        message = _make_message(self._context, [], _make_stop(None), _make_usage(usage))
        self._emit({"type": "message_start", "message": message})

    def close(self, usage: ReplyUsage) -> None:
        called, refusal = bool(self._calls), self._refusal
        stop = _map_stop(self._last, self._context, called_tools=called, refusal=refusal)
        told = _make_delta_usage(usage)
        self._emit({"type": "message_delta", "delta": stop, "usage": told})

    def take_last(self) -> bytes:
        return STOP

    def _finish(self, choice: Json) -> None:
        self._last = choice

    def _close_last(self) -> None:
        if self._calls:  # without calls, agents take a last block of thinking for the answer
            self._add_state()
        self._close_block()

    def _write_text(self, kind: Kind, text: str) -> None:
        if kind == "refusal":
            self._refusal += text
        ours: BlockKind = "thinking" if kind == "reasoning" else "text"
        if self._kind != ours:
            if ours == "text":  # sealed reasoning led to the text, so it comes before the text
                self._add_state()
            self._open_block(ours, _make_text("") if ours == "text" else _make_thinking(""))
        if ours == "text":
            self._count_buffered(text)
            self._texts.append(text)
        self._emit_delta(ours, text)

    def _add_sources(self, sources: list[Json]) -> None:
        """Add sources of the text. They wait for the end of a block, as they quote from it."""
        self._sources += sources

    def _write_media(self, media: object) -> None:  # noqa: ARG002 - messages have no place for media
        raise _refuse_media()

    def _add_state(self) -> None:
        """Send the state that the upstream wants back with the open thinking block, else by itself."""
        if self._kind != "thinking" and (signature := self._state.take()):
            self._open_block("thinking", _make_thinking(""))
            self._close_block(signature)

    def _open_call(self, call: Call) -> None:
        self._add_state()
        if self._names is None:  # read late: most replies call nothing, and requests may be large
            self._names = read_long_names(self._context.request.body.get("tools"))
        name = self._names.get(call.name, call.name)
        self._open_block("tool_use", _make_tool_use(call.identity, name, {}))
        self._input = ""

    def _write_arguments(self, call: Call, text: str) -> None:  # noqa: ARG002 - there is one open
        """Write arguments. If they do not begin as an object, they are held back until they are whole."""
        if not self._input:
            # A call without arguments may send spaces, which no SDK reads as JSON.
            text = text.lstrip()
            if text:
                self._input = "object" if text.startswith("{") else "other"
        if self._input == "object":
            self._emit_delta("tool_use", text)

    def _close_call(self, call: Call) -> None:
        if self._input == "other":  # arguments that are no object are put into one
            wrapped = dumps_lenient(read_input(call.arguments.lstrip()))
            self._emit_delta("tool_use", wrapped.decode("utf-8", "replace"))
        self._close_block()

    def _open_block(self, kind: BlockKind, start: Json) -> None:
        self._close_block()
        self._kind = kind
        self._next_index += 1
        self._emit_block("start", content_block=start)

    def _close_block(self, signature: str = "") -> None:
        """Close the block that is open, if one is; `signature`: the seals of thinking, if known."""
        kind, self._kind = self._kind, None
        if kind is None:
            return
        if kind == "text":  # citations quote from the whole block
            self._cite()
        # SDKs drop thinking without a signature, so it gets at least a seal of nothing.
        if kind == "thinking" and (signed := signature or self._state.take_any()):
            self._emit_block("delta", delta={"type": "signature_delta", "signature": signed})
        self._emit_block("stop")

    def _cite(self) -> None:
        text = "".join(self._texts)
        for citation in _make_citations(self._sources, text, self._content_chars):
            self._emit_block("delta", delta={"type": "citations_delta", "citation": citation})
        self._sources.clear()
        self._texts.clear()
        self._content_chars += len(text)

    def _emit_delta(self, kind: BlockKind, text: str) -> None:
        name, key = DELTAS[kind]
        self._emit_block("delta", delta={"type": name, key: text})

    def _emit_block(self, stage: str, **held: Json) -> None:
        """Write an event of the block that is open."""
        self._emit({"type": f"content_block_{stage}", "index": self._next_index - 1, **held})

    def _emit(self, event: Json) -> None:
        self.out.append(render_event(event))

"""One chat stream from a chat upstream to a chat caller: edits, repair and meter. No I/O.

The endings, from here: `complete` after `[DONE]` (or a clean end with every choice finished),
`failure` after an error event or what is no stream, neither after a cut. `relay` decides what the
caller is told and what is charged.
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.chat_repair import ChunkRepair
from gateway.dialects.jsonbytes import dumps_lenient, loads_lenient, maybe_splice
from gateway.dialects.passing import PassingStream
from gateway.dialects.template import (
    PROBE,
    PROBE_BYTES,
    maybe_cut,
    maybe_probe,
    read_tool,
)
from gateway.dialects.upstream_errors import read_error
from gateway.errors import UpstreamError
from gateway.money import Tokens
from gateway.sse import parse_event
from gateway.usage import estimate_tokens, read_chat_usage

DONE: Final = b"data: [DONE]\n\n"
ID_PREFIX: Final = "chatcmpl-"

_UNSAID: Final = "The upstream ended its stream with an error."


class ChatStream(PassingStream):
    """A `Pipeline`: the upstream's bytes in, conforming events out."""

    __slots__ = ("_id", "_repair", "_usage")

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        self._id = ""
        self._repair = ChunkRepair()
        self._usage: dict[str, Any] | None = None

    @property
    def finished(self) -> bool:
        return len(self._repair.finished) >= max(self._context.request.n, len(self._repair.started))

    def finish(self) -> bytes:
        return DONE

    def measure(self) -> tuple[Tokens, bool]:
        limits = self._context.limits
        delivered = estimate_tokens(self._delivered_bytes)
        reported = read_chat_usage(self._usage, limits)
        if reported is None:
            return Tokens(input=self._context.input_estimate, output=delivered), True
        if not self.complete and delivered > reported.output:
            return (
                Tokens(
                    reported.input, reported.cached_input, reported.cache_write, output=delivered
                ),
                True,
            )
        return reported, False

    def _lacks_nothing(self) -> bool:
        return bool(self._repair.started) and self.finished

    def _continue_tool(self, tool: tuple[int, int]) -> None:
        self._repair.continue_tool(*tool)

    def _look_at_rest(self, rest: bytes) -> None:
        """`[DONE]` counts with its line; no blank line need follow (reliability.md row 36)."""
        if rest.startswith(b"data: [DONE]") and b"\n" in rest[:16]:
            self._close()

    def _pass_block(self, block: bytes) -> bytes:
        event = parse_event(block)
        comments = b"".join(comment + b"\n\n" for comment in event.comments)
        if event.data is None:
            return comments
        payload = event.data.strip()
        if payload == b"[DONE]":
            self._close()
            return comments
        try:
            chunk = loads_lenient(payload)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            self.failure = UpstreamError("The upstream sent a stream event that is not JSON.")
            return comments
        if event.name == "error" or chunk.get("error") or chunk.get("object") == "error":
            self.failure = UpstreamError(read_error(chunk).message or _UNSAID)
            return comments
        if not event.canonical or b"\n" in event.data or b"\r" in event.data:
            block = b"data: " + dumps_lenient(chunk) + b"\n\n"
        return comments + self._convert_chunk(block, chunk)

    def _close(self) -> None:
        if self._repair.started:
            self.complete = True
        else:
            self.failure = UpstreamError("The upstream's stream ended before it began.")

    def _convert_chunk(self, block: bytes, chunk: dict[str, Any]) -> bytes:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            if not isinstance(usage, dict) or not self._context.request.wants_usage:
                return b""
            chunk = chunk if choices == [] else {**chunk, "choices": []}
            choices = []
        if not self._id:
            self._id = self._make_id(chunk.get("id"))
        self._begun = True
        self._text_bytes += _count_chunk_text(choices)
        seen = self._settled_choices()
        chunks = self._repair.repair(chunk)
        if self._lessons and self._settled_choices() == seen and (not chunks or len(chunks) == 1):
            self._take_lesson(block, chunk)
        return self._render(block, chunk, chunks)

    def _settled_choices(self) -> tuple[int, int]:
        """A template may only be learned from a chunk that moves no choice to another station."""
        return len(self._repair.started), len(self._repair.finished)

    def _render(
        self, block: bytes, chunk: dict[str, Any], chunks: list[dict[str, Any]] | None
    ) -> bytes:
        """The bytes for the caller: `block` with the edits made, or the repaired chunks."""
        if chunks is None and isinstance(identity := chunk.get("id"), str) and identity:
            out: bytes | None = block
            model = chunk.get("model")
            if isinstance(model, str):
                out = maybe_splice(block, "model", model, self._context.request.model)
            out = out and maybe_splice(out, "id", identity, self._id)
            if out:
                return out
        return b"".join(
            b"data: " + dumps_lenient(self._edit(chunk)) + b"\n\n" for chunk in chunks or [chunk]
        )

    def _edit(self, chunk: dict[str, Any]) -> dict[str, Any]:
        edited = {"id": self._id, **chunk} if "id" not in chunk else {**chunk, "id": self._id}
        if "model" in edited:
            edited["model"] = self._context.request.model
        return edited

    def _take_lesson(self, block: bytes, chunk: dict[str, Any]) -> None:
        probe = maybe_probe(chunk)
        if probe is None or chunk.get("usage") is not None:
            return  # a usage has to be read each time
        self._lessons -= 1
        probed, key, text = probe
        if _count_chunk_text(probed["choices"]) != len(PROBE):
            return  # there is more to count than what is in the hole
        tool = read_tool(chunk)
        if key == "arguments" and tool is None:
            return  # which call the next fragment belongs to is not said in it
        cut = maybe_cut(block, probed, key, text)
        if cut is None:
            return
        head, behind = cut
        converted = self._render(
            head + PROBE_BYTES + behind,
            probed,
            self._repair.repair(probed),
        )
        self._learn(head, behind, converted, tool)

    def _make_id(self, upstream_id: object) -> str:
        """The id all chunks get: the upstream's, in the spec's shape (2.5)."""
        if not isinstance(upstream_id, str) or not upstream_id:
            return ID_PREFIX + self._context.request_id
        return upstream_id if upstream_id.startswith(ID_PREFIX) else ID_PREFIX + upstream_id


def _count_chunk_text(choices: list[Any]) -> int:
    """UTF-8 bytes of text, reasoning and arguments in a chunk's choices."""
    total = 0
    for choice in choices:
        delta = choice.get("delta") if isinstance(choice, dict) else None
        if isinstance(delta, dict):
            total += count_message_text(delta)
    return total


def count_message_text(message: dict[str, Any]) -> int:
    """UTF-8 bytes that a delta or a message brings: content, refusal, reasoning, arguments."""
    texts = [message.get("content"), message.get("refusal")]
    texts.append(message.get("reasoning_content") or message.get("reasoning"))
    calls = message.get("tool_calls")
    functions = [message.get("function_call")]
    if isinstance(calls, list):
        functions += [call.get("function") for call in calls if isinstance(call, dict)]
    texts += [item.get("arguments") for item in functions if isinstance(item, dict)]
    return sum(
        len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str)
    )

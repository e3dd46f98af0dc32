"""The content of a chat stream, read independently of the gateway."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class ToolCall:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass(slots=True)
class ChoiceContent:
    text: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: dict[int, ToolCall] = field(default_factory=dict)
    finish_reason: str | None = None

    @property
    def output(self) -> str:
        """Return everything that counts as output if no tokens were reported."""
        arguments = "".join(call.arguments for call in self.tool_calls.values())
        return self.text + self.reasoning + self.refusal + arguments


@dataclass(slots=True)
class StreamContent:
    """The content of a stream. `usage` is prompt, completion and total tokens."""

    choices: dict[int, ChoiceContent] = field(default_factory=dict)
    usage: tuple[int, int, int] | None = None
    cached_tokens: int = 0
    written_tokens: int = 0
    """Tokens written to a cache; they are part of the prompt, like cached ones."""

    @property
    def text(self) -> str:
        return self.choices[0].text if 0 in self.choices else ""


def accumulate(chunks: Iterable[dict[str, Any]]) -> StreamContent:
    """Add up the chunks; fragments of a tool call without an index go by their position."""
    said = StreamContent()
    for chunk in chunks:
        for choice in chunk["choices"]:
            _add(said.choices.setdefault(choice["index"], ChoiceContent()), choice)
        if (usage := chunk.get("usage")) is not None:
            said.usage = _usage(usage)
            details = usage.get("prompt_tokens_details") or {}
            said.cached_tokens = details.get("cached_tokens") or 0
            said.written_tokens = details.get("cache_write_tokens") or 0
    return said


def _usage(usage: dict[str, Any]) -> tuple[int, int, int]:
    """Return the usage; output that a provider leaves out of completion_tokens is added."""
    prompt, total = usage["prompt_tokens"], usage["total_tokens"]
    return prompt, max(usage["completion_tokens"], total - prompt), total


def _add(said: ChoiceContent, choice: dict[str, Any]) -> None:
    delta = choice["delta"]
    text, thinking = _read_content(delta.get("content"))
    said.text += text
    said.reasoning += delta.get("reasoning_content") or delta.get("reasoning") or thinking
    said.refusal += delta.get("refusal") or ""
    said.finish_reason = choice.get("finish_reason") or said.finish_reason
    for position, fragment in enumerate(delta.get("tool_calls") or []):
        call = said.tool_calls.setdefault(fragment.get("index", position), ToolCall())
        call.id = call.id or fragment.get("id") or ""
        function = fragment.get("function") or {}
        call.name = call.name or function.get("name") or ""
        call.arguments += function.get("arguments") or ""


def _read_content(content: str | list[dict[str, Any]] | None) -> tuple[str, str]:
    """Read text and thinking of a content, which Mistral may send as an array of parts."""
    if content is None or isinstance(content, str):
        return content or "", ""
    text = "".join(part.get("text", "") for part in content)
    thinking = "".join(_read_content(part.get("thinking"))[0] for part in content)
    return text, thinking

"""A stream that passes but for edits, whichever its dialect: whole events, templates, endings. No I/O.

Events that fit a template pass without a look inside; every other one is the dialect's to pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.framing import Framer
from gateway.dialects.template import Template, maybe_learn
from gateway.errors import GatewayError
from gateway.sse import find_event_end

LESSONS: Final = 8
"""Templates learned in a row without one matching, after which an unruly stream is just parsed."""
_MAX_TEMPLATES: Final = 4


class PassingStream(ABC):
    """The part of a `Pipeline` that does not depend on what an event says."""

    __slots__ = (
        "_begun",
        "_context",
        "_framer",
        "_lessons",
        "_templates",
        "_text_bytes",
        "complete",
        "failure",
    )

    def __init__(self, context: ReplyContext) -> None:
        self.complete = False
        self.failure: GatewayError | None = None
        self._context = context
        self._framer = Framer()
        self._begun = False
        self._templates: list[Template] = []
        self._lessons = LESSONS
        self._text_bytes = 0

    @property
    def begun(self) -> bool:
        return self._begun or self._framer.oversized_bytes > 0

    @property
    def mid_event(self) -> bool:
        return self._framer.mid_event

    @property
    def delivered(self) -> bool:
        return self._delivered_bytes > 0

    @property
    def _delivered_bytes(self) -> int:
        return self._text_bytes + self._framer.oversized_bytes

    def feed(self, data: bytes) -> bytes:
        passed, buffer = self._framer.push(data)
        if not buffer:
            return passed
        out = [passed] if passed else []
        position = self._scan(buffer, out)
        if position < len(buffer) and not self.complete and self.failure is None:
            out.append(self._framer.keep(buffer[position:]))
        return b"".join(out)

    def end(self) -> bytes:
        last = self._framer.take_last()
        out = b""
        if last and not self.complete and self.failure is None:
            out = self._pass_block(last)
        if self.failure is None and not self.mid_event and self._lacks_nothing():
            self.complete = True
        return out

    @abstractmethod
    def _pass_block(self, block: bytes) -> bytes:
        """One whole event that fits no template."""

    @abstractmethod
    def _lacks_nothing(self) -> bool:
        """Whether a clean end without the terminal event is as good as one with it."""

    def _continue_tool(self, tool: tuple[int, int]) -> None:  # noqa: B027 - not all have to know
        """Arguments of a call passed by a template."""

    def _look_at_rest(self, rest: bytes) -> None:  # noqa: B027 - likewise
        """What is left is not a whole event."""

    def _scan(self, buffer: bytes, out: list[bytes]) -> int:
        """Pass the whole events of `buffer`; the index of the first byte not used."""
        position, size = 0, len(buffer)
        while position < size:
            matched = self._match(buffer, position, out)
            if matched > position:
                self._lessons = LESSONS
                position = matched
                continue
            end = find_event_end(buffer, position)
            if end < 0:
                self._look_at_rest(buffer[position:])
                break
            out.append(self._pass_block(buffer[position:end]))
            position = end
            if self.complete or self.failure is not None:
                break
        return position

    def _match(self, buffer: bytes, position: int, out: list[bytes]) -> int:
        """Pass a run of events from `position` on that fit a template; the index behind them."""
        for template in self._templates:
            after, text_bytes = template.pass_run(buffer, position, out)
            if after > position:
                self._text_bytes += text_bytes
                if template.tool is not None:
                    self._continue_tool(template.tool)
                return after
        return position

    def _learn(
        self, head: bytes, behind: bytes, converted: bytes, tool: tuple[int, int] | None = None
    ) -> None:
        """Keep the template of an event cut at its text, given what became of it with the probe."""
        template = maybe_learn(head, behind, converted, tool)
        if template is not None:
            self._templates = [template, *self._templates[: _MAX_TEMPLATES - 1]]

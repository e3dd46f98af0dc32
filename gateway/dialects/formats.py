"""The tables of the formats that callers and providers speak: the core's, an extra's, and all together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from gateway.dialects.chat.dialect import ChatCaller, ChatUpstream
from gateway.dialects.exchanges import Exchange, Translation
from gateway.dialects.messages.caller import MessagesCaller
from gateway.dialects.messages.upstream import MessagesUpstream
from gateway.dialects.translate import chat_over_messages_reply as over_messages_reply
from gateway.dialects.translate import chat_over_messages_request as over_messages_request
from gateway.dialects.translate import messages_over_chat_reply as message_reply
from gateway.dialects.translate import messages_over_chat_request as message_request
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.records import DEMO

Translations = Mapping[tuple[str, str], Translation]
"""Keys are the names of the caller's dialect and the upstream's."""
Compose = Callable[[Translation, Translation, tuple[Caller, EventUpstream]], Translation]
"""Joins the translation from a caller's dialect to the pivot's and that from there to an upstream's, given
the pivot's own caller and upstream."""
Exchanges = Mapping[str, Mapping[str, Exchange]]
"""Keys are the name of the caller's dialect, then a provider's `dialect`."""

PIVOT: Final = "chat"
"""The dialect through which pairs without a direct translation are joined."""


@dataclass(frozen=True, kw_only=True)
class Formats:
    """The formats of callers and providers: the core's share, an extra's, or all of them together."""

    callers: Mapping[str, Caller] = field(default_factory=dict)
    """Keys are the names of the dialects."""
    upstreams: Mapping[str, EventUpstream] = field(default_factory=dict)
    """Keys are a provider's `dialect`."""
    translations: Translations = field(default_factory=dict)
    services: Sequence[Exchange] = ()
    """The exchanges of models without conversations, for providers with OpenAI's paths."""
    compose: Compose | None = None
    """Makes the translation of a pair that has no direct one; None leaves such pairs out."""
    unserved: Mapping[str, str] = field(default_factory=dict)
    """Paths that are not served, and what to use instead; `...` stands for all paths below."""

    def __or__(self, other: Formats) -> Formats:
        """Combine two shares. The other's entries replace those with equal keys, except for `compose`."""
        return Formats(
            callers={**self.callers, **other.callers},
            upstreams={**self.upstreams, **other.upstreams},
            translations={**self.translations, **other.translations},
            services=(*self.services, *other.services),
            compose=self.compose or other.compose,
            unserved={**self.unserved, **other.unserved},
        )

    @cached_property
    def every_caller(self) -> Sequence[Caller]:
        """The callers of all dialects and services, each with its path."""
        return (*self.callers.values(), *(one.caller for one in self.services))

    @cached_property
    def exchanges(self) -> Exchanges:
        """All pairs of a caller and an upstream that can serve it."""
        exchanges: dict[str, dict[str, Exchange]] = {name: {} for name in self.callers}
        for name, caller in self.callers.items():
            for provider, upstream in self.upstreams.items():
                if caller.name == upstream.name:
                    exchanges[name][provider] = Exchange(caller, upstream)
                elif translation := self._find_translation(caller.name, upstream.name):
                    exchanges[name][provider] = Exchange(caller, upstream, translation)
        return exchanges

    def _find_translation(self, caller: str, upstream: str) -> Translation | None:
        if found := self.translations.get((caller, upstream)):
            return found
        outer = self.translations.get((caller, PIVOT))
        inner = self.translations.get((PIVOT, upstream))
        if not (self.compose and outer and inner):
            return None
        return self.compose(outer, inner, (self.callers[PIVOT], self.upstreams[PIVOT]))


_TRANSLATIONS: Final[Translations] = {
    ("chat", "messages"): Translation(
        over_messages_request.translate_request,
        over_messages_reply.translate_reply,
        over_messages_reply.ChunkWriter,
    ),
    ("messages", "chat"): Translation(
        message_request.translate_request,
        message_reply.translate_reply,
        message_reply.MessageWriter,
        names=message_request.NAMES,
        item_name=".{}",
    ),
}

FORMATS: Final = Formats(
    # On shared paths the first caller answers requests that have no `marker`.
    callers={"chat": ChatCaller(), "messages": MessagesCaller()},
    upstreams={"chat": ChatUpstream(), "messages": MessagesUpstream(), DEMO: ChatUpstream()},
    translations=_TRANSLATIONS,
)
"""The core's share."""

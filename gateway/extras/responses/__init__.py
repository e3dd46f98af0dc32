"""The Responses dialect (OpenAI's), without the responses that OpenAI stores: `recall` keeps those.

`/v1/responses` is served over providers of every dialect, and providers with `dialect = "responses"` serve
callers of every dialect. Without it neither is there. Pairs with Messages are composed with chat in between.

formats   what it adds to the tables of dialects and translations
counts    where tokens are counted: its path
caller    what callers send, and the errors they get
checks    the checks of a request's items and parts
upstream  how providers are asked, and their JSON replies
stream    replies and events read: usage, the text to estimate it from, and the stream that passes
templates  its events cut at their texts and their numbers
mending  places  what a passing stream lacks for SDKs, and which item an event belongs to
replay    a reply as a stream
history   what only its provider can read, and tools that have no price
compaction  a summary in place of a conversation, for upstreams that make none themselves
over_chat_request  over_chat_conversation  over_chat_parts  over_chat_tools  over_chat_reply
          over_chat_stream  over chat upstreams
chat_request  chat_conversation  chat_reply  chat_stream  chat callers over its upstreams
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.dialects.wire.records import Dialect
from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    from gateway.extras.responses.formats import FORMATS

    return FORMATS


def _add_to_count_tokens() -> object:
    from gateway.extras.responses.counts import COUNTER

    return COUNTER


EXTRA = Extra(
    adds={"count_tokens": _add_to_count_tokens},
    dialects={
        "responses": Dialect("OpenAI's newer one", is_openai_like=True, others="openai_responses")
    },
    find_formats=_find_formats,
)

"""The Responses dialect (OpenAI's), without storing responses, which the extra `recall` adds.

`/v1/responses` is served over providers of every dialect, and providers with `dialect = "responses"` serve
callers of every dialect. Without this extra there is neither. Pairs with Messages are composed (`pairs`).

counts    the path that counts tokens
caller    what callers send, and the errors they get
checks    the checks of a request's items and parts
upstream  how providers are asked, and their JSON replies
stream    replies and events read: usage, the text to estimate it from, and the stream that passes
templates  templates of events: see `dialects.wire.templates`
mending  places  adds the events and ids that SDKs need, and finds the item that an event belongs to
replay    a reply as a stream
history   earlier items that only their provider can read, and tools that have no price
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

_WHOLE = "send the whole conversation as POST /v1/responses"


def _find_formats() -> Formats:
    from gateway.dialects.exchanges import Translation
    from gateway.dialects.formats import Formats
    from gateway.extras.responses import (
        chat_reply,
        chat_request,
        chat_stream,
        over_chat_reply,
        over_chat_request,
        over_chat_stream,
    )
    from gateway.extras.responses.caller import ResponsesCaller
    from gateway.extras.responses.upstream import ResponsesUpstream

    return Formats(
        callers={"responses": ResponsesCaller()},
        upstreams={"responses": ResponsesUpstream()},
        translations={
            ("chat", "responses"): Translation(
                chat_request.translate_request, chat_reply.translate_reply, chat_stream.ChunkWriter
            ),
            ("responses", "chat"): Translation(
                over_chat_request.translate_request,
                over_chat_reply.translate_reply,
                over_chat_stream.open_writer,
                over_chat_request.NAMES,
            ),
        },
        unserved={
            "/v1/responses/...": _WHOLE,
            "/v1/assistants": _WHOLE,
            "/v1/conversations": _WHOLE,
            "/v1/threads": _WHOLE,
        },
    )


def _add_to_count_tokens() -> object:
    from gateway.extras.responses.counts import COUNTER

    return COUNTER


EXTRA = Extra(
    needs=("pairs", "tool_schemas"),
    adds_to={"count_tokens": _add_to_count_tokens},
    dialects={
        "responses": Dialect("OpenAI's newer one", is_openai_like=True, others="openai_responses")
    },
    find_formats=_find_formats,
)

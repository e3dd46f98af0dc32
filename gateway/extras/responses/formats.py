"""The extra's rows in the tables of dialects and translations."""

from __future__ import annotations

from typing import Final

from gateway.dialects.formats import Formats
from gateway.dialects.translate.composed import Translation
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

_WHOLE: Final = "send the whole conversation as POST /v1/responses"
FORMATS: Final = Formats(
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

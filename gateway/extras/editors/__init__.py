"""Requests in the forms of other APIs at `/v1/chat/completions`, where Cursor sends them, read as chat.

Without it such requests are refused, with the path where they belong.

caller  the caller of chat that also reads bodies of the Responses API
customs custom tools that are declared flat, over chat providers
blocks  blocks and tools of Anthropic's Messages API, written as chat
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.dialects.wire.records import DEMO
    from gateway.extras.editors.caller import EditorCaller
    from gateway.extras.editors.customs import EditorUpstream

    upstream = EditorUpstream()
    return Formats(callers={"chat": EditorCaller()}, upstreams={"chat": upstream, DEMO: upstream})


EXTRA = Extra(needs=("responses",), find_formats=_find_formats)

"""Requests in the forms of other APIs at `/v1/chat/completions`, where Cursor sends them, read as chat.

Without it such requests are refused, with the path where they belong.

caller  the caller of chat that also reads bodies of the Responses API
blocks  blocks and tools of Anthropic's Messages API, written as chat
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.extras.editors.caller import EditorCaller

    return Formats(callers={"chat": EditorCaller()})


EXTRA = Extra(needs=("responses",), find_formats=_find_formats)

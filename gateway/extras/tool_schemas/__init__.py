"""Schemas of tools that OpenAI and Anthropic refuse, such as those of MCP servers whose root is a union.

Translations write them with one plain object as root, and with `items` in arrays. Without this extra a request
with such a tool is refused by its provider.

roots  the plain object that stands for a root, and translations that get tools with such roots
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    from dataclasses import replace

    from gateway.dialects.formats import FORMATS, Formats
    from gateway.extras.tool_schemas.roots import shape_tools

    return Formats(
        translations={
            pair: replace(one, translate_request=shape_tools(one.translate_request))
            for pair, one in FORMATS.translations.items()
        }
    )


EXTRA = Extra(find_formats=_find_formats)

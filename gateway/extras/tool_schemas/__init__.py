"""Schemas of tools and of structured output, in the forms that vendors take, where a request is translated.

OpenAI and Anthropic refuse many schemas that the other one takes, and roots of tools that are unions, such as
those of MCP servers. Without this extra translations pass schemas on as they came, for the provider to refuse, and
no structured output of a chat provider is strict.

translations  the core's translations, with adapted schemas
roots         the plain object that stands for a root of another kind
forms         keywords and names that vendors take, and whether a schema can be strict
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra

if TYPE_CHECKING:
    from gateway.dialects.formats import Formats


def _find_formats() -> Formats:
    from gateway.dialects.formats import Formats
    from gateway.extras.tool_schemas.translations import adapt_translations

    return Formats(translations=adapt_translations())


EXTRA = Extra(find_formats=_find_formats)

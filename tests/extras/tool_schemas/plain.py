"""Functions of the extra as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import copy

from gateway.dialects.wire.records import Json
from gateway.extras.tool_schemas.forms import adapt_schema


def adapt_as_the_sdk(schema: Json) -> bool:
    """Return whether a schema is adapted as Anthropic's SDK does, once, and left as it was."""
    from anthropic import transform_schema  # which takes as long as fifty tests

    before, adapted = copy.deepcopy(schema), adapt_schema(schema)
    assert adapted == transform_schema(copy.deepcopy(schema))
    return schema == before and adapt_schema(adapted) == adapted

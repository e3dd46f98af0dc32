"""Arguments of a call, as other dialects have them, as the input of a tool, which is an object."""

from __future__ import annotations

from typing import Final

import orjson

from gateway.dialects.records import Json
from gateway.dialects.wire.jsonbytes import maybe_loads

WRAPPED_KEY: Final = "arguments"
"""The key of arguments that are no object, in the object that a tool's input has to be."""


def read_input(arguments: str) -> Json:
    """Read arguments as an object; none at all is an empty one."""
    if not arguments.strip():
        return {}
    read = read_arguments(arguments)
    try:  # half a character, or an integer beyond 64 bits, could not be written again
        orjson.dumps(read)
    except TypeError:
        read = None
    return wrap_arguments(arguments if read is None else read)


def read_arguments(text: str) -> object:
    """Read arguments as JSON; return None if the text is not JSON."""
    return maybe_loads(text.encode("utf-8", "surrogatepass"))


def wrap_arguments(given: object) -> Json:
    """Put arguments that are no object into one: a model wrote them, so nobody can mend them."""
    return given if isinstance(given, dict) else {WRAPPED_KEY: given}

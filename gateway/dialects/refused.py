"""The caller's name of what a later translation refuses, which knows the pivot's fields alone.

What is within the conversation is found by asking again for less and less of it. A refusal is rare,
and each step halves what is left, so that this takes about as long as the request itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gateway.dialects.base import Translation
from gateway.dialects.records import Json
from gateway.errors import BadRequest

CONVERSATION: Final = "messages"
"""The pivot's field of the conversation."""
_FIRST: Final = re.compile(r"\w+")
_HELD: Final = ("content", "output")
"""Members of an item, or of a part of it, that have parts."""


def rename(
    error: BadRequest, body: Json, outer: Translation, ask: Callable[[Json], object]
) -> BadRequest:
    """Make the same refusal in the words of the caller, whose request `outer` translated.

    `ask` translates a body for the upstream and raises BadRequest.
    """
    found = _FIRST.match(error.param or "")
    if found is None:
        return error
    names = outer.names.get(found[0], (found[0],))
    name = next((one for one in names if one.partition(".")[0] in body), names[0])
    if found[0] == CONVERSATION != error.param:
        for step in _find(body.get(name), partial(_refuses, ask, error, name)):
            name += f".{step}" if isinstance(step, str) else outer.item_name.format(step)
    message = error.message.replace(f"'{error.param}'", f"'{name}'")
    return BadRequest(message, param=name, code=error.code, detail_code=error.detail_code)


def _refuses(ask: Callable[[Json], object], error: BadRequest, name: str, part: Any) -> bool:
    """Return whether a part of a field is refused for the same reason, wherever it is."""
    try:
        ask({name: part})
    except BadRequest as other:
        return _give_reason(other) == _give_reason(error)
    return False


def _give_reason(error: BadRequest) -> str:
    return error.message.replace(f"'{error.param}'", "")


def _find(value: Any, refuses: Callable[[Any], bool]) -> list[str | int]:
    """Return the path to the least part of a value that is refused alone."""
    if not value:
        return []
    if type(value) is list:
        start, stop = 0, len(value)
        while stop - start > 1:
            middle = (start + stop) // 2
            start, stop = (start, middle) if refuses(value[start:middle]) else (middle, stop)
        if refuses([value[start]]):
            return [start, *_find(value[start], lambda part: refuses([part]))]
    elif type(value) is dict:
        lists = (key for key in _HELD if type(value.get(key)) is list)
        key = next((one for one in lists if not refuses({**value, one: []})), None)
        if key is not None:
            return [key, *_find(value[key], lambda part: refuses({**value, key: part}))]
    return []

"""Short forms of messages, parts, calls and tools, which the requests in `requests/*.txt` are full of.

`{"<user>": "Hi"}` stands for `{"role": "user", "content": "Hi"}`. Where a form leaves several values open they
stand in a list: `{"<call>": ["c1", "f", "{}"]}`. What has other members is written in full.
"""

from __future__ import annotations

from typing import Any, Final

FORMS: Final[dict[str, dict[str, Any]]] = {
    **{role: {"role": role, "content": 0} for role in ("user", "assistant", "system", "developer")},
    "text": {"type": "text", "text": 0},
    "image": {"type": "image_url", "image_url": 0},
    "call": {"id": 0, "type": "function", "function": {"name": 1, "arguments": 2}},
    "calls": {"role": "assistant", "content": None, "tool_calls": 0},
    "result": {"role": "tool", "tool_call_id": 0, "content": 1},
    "function": {"type": "function", "function": {"name": 0, "parameters": 1}},
    "bare_function": {"type": "function", "function": {"name": 0}},
    "tool_use": {"type": "tool_use", "id": 0, "name": 1, "input": 2},
    "tool_result": {"type": "tool_result", "tool_use_id": 0, "content": 1},
    "bare_tool": {"name": 0, "input_schema": {"type": "object", "properties": {}}},
    "tool": {"name": 0, "input_schema": 1},
    "image_block": {"type": "image", "source": 0},
    "base64": {"type": "base64", "media_type": 0, "data": 1},
    "message": {"type": "message", "role": 0, "content": 1},
    "input_text": {"type": "input_text", "text": 0},
    "function_call": {"type": "function_call", "call_id": 0, "name": 1, "arguments": 2},
    "function_call_output": {"type": "function_call_output", "call_id": 0, "output": 1},
}
"""The value of each form, by its name: a number is the place of a value that the form leaves open."""


def find_open(form: Any, value: Any) -> dict[int, Any] | None:
    """Return the values that the form leaves open, by their places, or None if the value has another form."""
    if isinstance(form, int):
        return {form: value}
    if not isinstance(form, dict):
        return {} if form == value else None
    if not isinstance(value, dict) or form.keys() != value.keys():
        return None
    found: dict[int, Any] = {}
    for name, held in form.items():
        more = find_open(held, value[name])
        if more is None:
            return None
        found |= more
    return found


def fill_in(form: Any, values: list[Any]) -> Any:
    if isinstance(form, int):
        return values[form]
    return (
        {k: fill_in(held, values) for k, held in form.items()} if isinstance(form, dict) else form
    )


SINGLE: Final = {
    f"<{name}>"
    for name, form in FORMS.items()
    if find_open(form, fill_in(form, [0, 1, 2])) == {0: 0}
}
"""The forms that leave one value open, which stands without a list."""


def shorten(value: Any) -> Any:
    """Replace whatever has a short form by it."""
    if isinstance(value, list):
        return [shorten(one) for one in value]
    if not isinstance(value, dict):
        return value
    for name, form in FORMS.items():
        found = find_open(form, value)
        if found is not None:
            values = [shorten(found[place]) for place in sorted(found)]
            return {f"<{name}>": values if len(values) > 1 else values[0]}
    return {name: shorten(held) for name, held in value.items()}


def expand(value: Any) -> Any:
    """Replace each short form by what it stands for."""
    if isinstance(value, list):
        return [expand(one) for one in value]
    if not isinstance(value, dict):
        return value
    named = {name: expand(held) for name, held in value.items()}
    name = next(iter(named), "")
    form = FORMS.get(name[1:-1]) if name.startswith("<") else None
    if form is None:
        return named
    return fill_in(form, [named[name]] if name in SINGLE else named[name])

"""Requests as they are written for providers of another dialect: `written.txt` has both sides.

    == chat over messages
    # Instructions become the system.
    @ {"leading_system": true}                          the route's part, where it has one
    {"messages": [{"role": "system", "content": "S"}]}  the caller's fields
    > {"system": "S"}                                   what differs from the least request

A field that the least request has and this has not stands behind `-`. Each request is accepted by the
types of the provider's SDK. To write them anew, after a look at what that would change:

    WRITE_WRITTEN=1 python -m pytest tests/dialects/test_written.py && git diff
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from gateway.dialects.exchanges import CALLERS, EXCHANGES
from gateway.dialects.records import CompletionRequest, Target
from tests.dialects.chat_over_messages import kit as over_messages
from tests.dialects.chat_over_responses import kit as over_responses
from tests.dialects.test_refused import LEAST, TARGETS
from tests.support.rows import told_together

Json = dict[str, Any]
PATH: Final = Path(__file__).with_name("written.txt")
SECTIONS: Final = PATH.read_text(encoding="utf-8").split("== ")[1:]
ROW: Final = re.compile(r"(?m)^(?:@ (.*)\n)?(\{.*\n(?:[ }\]].*\n)*)> (.*\n(?:[ }\]].*\n)*)")
"""The target, the fields, and what is written, on one line or, as `lay_out` breaks them, on several."""
WIDTH: Final = 130


def read_target(provider: str, text: str) -> Target:
    fields: Json = orjson.loads(text or "{}")
    sets = {name: frozenset(value) for name, value in fields.items() if isinstance(value, list)}
    return replace(TARGETS[provider], **{**fields, **sets})


def translate(caller: str, provider: str, fields: Json, target: Target) -> Json:
    body = {"model": "m", **LEAST[caller], **fields}
    stream = body.get("stream") is True
    if caller == "chat":
        request = CALLERS[caller].parse_request(orjson.dumps(body))
    else:
        limit = body.get("max_output_tokens", body.get("max_tokens"))
        request = CompletionRequest(body, "m", stream, True, 1, limit, 0, 0)
    translation = EXCHANGES[caller][provider].translation
    assert translation is not None
    return translation.translate_request(request, target)


def check(provider: str, made: Json) -> None:
    match provider:
        case "chat":
            CALLERS["chat"].parse_request(orjson.dumps(made))
        case "messages":
            # The API has not had them for new models, but takes them for others.
            sampled = {"temperature", "top_p"}
            over_messages.check_request({key: made[key] for key in made if key not in sampled})
        case _:
            over_responses.check_request(made)


def lay_out(value: Any, indent: str = "") -> str:
    """Write JSON on one line if it fits, else each member of an object or list on its own."""
    text = json.dumps(value, ensure_ascii=False)
    if len(indent + text) <= WIDTH or not value or not isinstance(value, dict | list):
        return text
    first, last = "{}" if isinstance(value, dict) else "[]"
    inner = indent if len(value) == 1 else f"{indent}  "
    if isinstance(value, dict):
        lines = [f"{json.dumps(name)}: {lay_out(one, inner)}" for name, one in value.items()]
    else:
        lines = [lay_out(one, inner) for one in value]
    if len(value) == 1:
        return f"{first}{lines[0]}{last}"
    return "\n".join([first, ",\n".join(f"{inner}{line}" for line in lines), indent + last])


def write(section: str, target_text: str, line: str) -> str:
    caller, _, provider = section.partition(" over ")
    target = read_target(provider, target_text)
    made = translate(caller, provider, orjson.loads(line), target)
    check(provider, made)
    least = translate(caller, provider, {}, target)
    changed = {name: value for name, value in made.items() if least.get(name, least) != value}
    gone = [name for name in least if name not in made]
    return lay_out(changed | ({"-": gone} if gone else {})) + "\n"


@pytest.mark.parametrize("text", SECTIONS, ids=[one.partition("\n")[0] for one in SECTIONS])
def test_a_request_is_written_as_the_provider_takes_it(text: str) -> None:
    section = text.partition("\n")[0]
    if "WRITE_WRITTEN" in os.environ:
        new = ROW.sub(
            lambda row: row[0].removesuffix(row[3]) + write(section, row[1], row[2]), text
        )
        PATH.write_text(PATH.read_text(encoding="utf-8").replace(text, new), encoding="utf-8")
        text = new
    rows = ROW.findall(text)
    assert len(rows) == text.count("\n> ")
    with told_together() as row:
        for target, line, written in rows:
            with row(f"{target} {line}"):
                assert orjson.loads(write(section, target, line)) == orjson.loads(written)

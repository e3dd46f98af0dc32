"""Requests of all callers: `requests/*.txt` have their fields, and what becomes of them.

    == chat over messages                    the caller's dialect, and the provider's
    # Instructions become the system.
    @ {"leading_system": true}               the route's part, where it has one
    {"messages": [{"role": "system", …}]}    the caller's fields
    > {"system": "S"}                        what the provider is sent beyond the least request
    $ {"tool_calls": {"web_search": 1}}      what of it changes the bill, if anything does
    {"n": 2}
    ! n [unsupported_value]: Unsupported …   or the field that is to blame, its code, and the words; the field
                                             is left out where the words quote it first
    + web_search                             the name in `allow` that opens it, where there is one

What fits stands on the request's line. Requests one below the other have what follows in common, and the `@` before them. Below the name of one dialect, or of a service, stands what its callers cannot send to any provider, and
what the gateway reads in a request:

    {"max_tokens": 5, "n": 3}
    = {"n": 3, "max_tokens": 5}

A field that the least request has and this has not stands behind `-`. `<A*9>` stands for nine letters A,
`<alpha>` for a provider's tag, `{"<seal>": …, "by": "alpha"}` for what was sealed for it, behind the id of a
call if there is an `id`. `{"<user>": "Hi"}` and its like are in `shorthand.py`. Requests of another dialect are accepted by the types of the provider's SDK. To
write everything anew, after a look at what that would change:

    WRITE_REQUESTS=1 python -m pytest tests/dialects/test_requests.py && git diff
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

from gateway.base.errors import BadRequest
from gateway.base.money import Price
from gateway.base.prices import NOTHING_SPECIAL, BillOptions, PriceList, PriceRule
from gateway.config.settings import ALLOWED
from gateway.dialects.exchanges import Exchange
from gateway.dialects.formats import FORMATS
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.records import CompletionRequest, Payload, Target
from gateway.dialects.wire.seals import seal, seal_id, tag_provider
from tests.dialects.rules import check_messages_request, check_responses_request
from tests.dialects.shorthand import expand, shorten
from tests.support.formats import COUNTERS, EXCHANGES, SERVICES, find_texts
from tests.support.layout import WIDTH, lay_out
from tests.support.rows import told_together

Json = dict[str, Any]
PATHS: Final = [
    *sorted(Path(__file__).with_name("requests").glob("*.txt")),
    *find_texts("requests/*.txt"),
]
MORE: Final = r".*\n(?: .*\n)*"
"""A value on one line or, as `lay_out` breaks it, on several."""
ROW: Final = re.compile(rf"(?m)^(?:@ (.*)\n)?((?:\{{{MORE})+)((?:[!+=>$] {MORE})*)")
"""The target, the fields of one request or several, and what becomes of each."""
FIELDS: Final = re.compile(rf"(?m)^\{{{MORE}")
OUTCOME: Final = re.compile(rf"([!+=>$]) ({MORE})")
DECODER: Final = json.JSONDecoder()
MAX_WORDS: Final = 300
"""Characters of a refusal, whatever the caller sent."""
SAID: Final = [{"role": "user", "content": "Hi"}]
LEAST: Final[dict[str, Json]] = {
    "chat": {"messages": SAID},
    "messages": {"messages": SAID, "max_tokens": 9},
    "responses": {"input": "Hi"},
    "counting": {"messages": SAID},
    "editors": {"messages": SAID},
    "embeddings": {"input": "Hi"},
    "completions": {"prompt": "Hi"},
    "images": {"prompt": "Hi"},
    "rerank": {"query": "Hi", "documents": ["Ho"]},
}
PAIRS: Final = {
    **EXCHANGES,
    "chat": {
        name: replace(one, caller=FORMATS.callers["chat"])
        for name, one in EXCHANGES["chat"].items()
    },
    "editors": EXCHANGES["chat"],
}
"""The exchanges by the caller's dialect: chat as the core reads it, and as an extra does for editors."""
OTHERS: Final = {
    **SERVICES,
    **{
        one.frame.get("object", ".counting").partition(".")[2].replace("_", " "): one.exchange
        for one in COUNTERS.values()
    },
}
"""Exchanges that have no conversation, or only count it, by the name of their section."""
COUNTED: Final = ("counting", "input tokens")
"""Sections that need the extra which counts tokens."""
SECTIONS: Final = [
    pytest.param(path, text, id=text.splitlines()[0])
    for path in PATHS
    for text in path.read_text(encoding="utf-8").split("== ")[1:]
    if COUNTERS or not text.startswith(COUNTED)
]
TARGETS: Final = {
    "messages": Target("theirs", max_output_tokens=5000),
    "responses": Target("theirs", reasoning="effort"),
}
TAGS: Final = {
    f"<{name}>": tag_provider(name, f"https://{name}.example/v1") for name in ("alpha", "beta")
}


def fill(value: Any) -> Any:
    """Replace what a file has a short form for."""
    match value:
        case str():
            for name, tag in TAGS.items():
                value = value.replace(name, tag)
            return re.sub(r"<(.)\*(\d+)>", lambda found: found[1] * int(found[2]), value)
        case {"<seal>": state, "by": name, **rest}:
            sealed = seal(fill(state), TAGS[f"<{name}>"])
            return seal_id(str(rest["id"]), sealed) if rest else sealed
        case dict():
            return {name: fill(held) for name, held in value.items()}
        case list():
            return [fill(held) for held in value]
        case _:
            return value


def read_target(provider: str, text: str) -> Target:
    fields: Json = fill(orjson.loads(text or "{}"))
    sets: Json = {
        name: frozenset(value) for name, value in fields.items() if isinstance(value, list)
    }
    if prices := fields.pop("prices", None):
        one, rules = Price(1, 1, 1, 1), prices.pop("rules", [])
        ruled = [PriceRule(one, **rule) for rule in rules]
        sets["prices"] = PriceList(replace(one, **prices), (*ruled,))
    return replace(TARGETS.get(provider, Target("theirs")), **{**fields, **sets})


def find_exchange(section: str) -> Exchange:
    caller, _, provider = section.partition(" over ")
    return OTHERS.get(caller) or PAIRS[caller][provider or caller]


def parse(section: str, fields: Json) -> CompletionRequest:
    dialect, _, provider = section.partition(" over ")
    least = LEAST.get(dialect, LEAST["responses"])
    body = {"model": "m", **least, **fields}
    if provider in ("", dialect) or dialect in ("chat", "editors"):
        caller: Caller = find_exchange(section).caller
        request = caller.parse_request(orjson.dumps(body))
        assert request.body == body or dialect == "editors"
        return request
    # What a translation refuses, the caller's own dialect may refuse before.
    limit = body.get("max_output_tokens", body.get("max_tokens"))
    return CompletionRequest(body, "m", body.get("stream") is True, True, 1, limit, 0, 0)


def send(section: str, fields: Json, target: Target) -> tuple[Json, Payload]:
    """Return the provider's request, checked by the types of its SDK."""
    payload = find_exchange(section).write_request(parse(section, fields), target)
    made: Json = orjson.loads(payload.data)
    caller, _, provider = section.partition(" over ")
    if caller == provider == "chat":  # in the caller's order
        assert [name for name in made if name in fields] == [
            name for name in fields if name in made
        ]
    match provider:
        case "chat":
            FORMATS.callers["chat"].parse_request(orjson.dumps(made))
        case "messages" if caller != provider:
            # The API has not had them for new models, but takes them for others.
            sampled = {"temperature", "top_k", "top_p"}
            check_messages_request({key: made[key] for key in made if key not in sampled})
        case "responses" if caller != provider:
            check_responses_request(made)
    return made, payload


def differ(made: Json, least: Json) -> Json:
    changed = {name: value for name, value in made.items() if least.get(name, least) != value}
    gone = [name for name in least if name not in made]
    return changed | ({"-": gone} if gone else {})


def name_fields(record: object, usual: object) -> Json:
    """Return the fields of a record that are not the usual ones."""
    one, other = (orjson.loads(orjson.dumps(each, default=dict)) for each in (record, usual))
    return {name: one[name] for name in one if one[name] != other[name]}


def tell_asked(payload: Payload) -> Json:
    """Return what changes the bill, or a reply: that the provider chooses the tier is nothing special."""
    told = name_fields(payload.options, BillOptions())
    if "terms" in told:
        told["terms"] = {name: value for name, value in told["terms"].items() if value}
    if payload.options.any_tier == NOTHING_SPECIAL.any_tier:
        del told["any_tier"]
    return told | ({"effort_sent": True} if payload.effort_sent else {})


def play(section: str, target_text: str, line: str) -> str:
    """Send a request; return what becomes of it."""
    fields, target = (
        fill(expand(orjson.loads(line))),
        read_target(section.partition(" over ")[2], target_text),
    )
    try:
        return write(section, fields, target) if " over " in section else read(section, fields)
    except BadRequest as refused:
        error = refused
    assert str(error.param) in error.message
    assert len(error.message) < MAX_WORDS
    code = f"[{error.code}]" if error.code else ""
    if code and (named := re.search("'([^']*)'", error.message)) and named[1] == error.param:
        return f"! {code} {error.message}\n"
    return f"! {error.param}{' ' * bool(code)}{code}: {error.message}\n"


def read(section: str, fields: Json) -> str:
    told = name_fields(parse(section, fields), CompletionRequest({}, "m"))
    del told["body"]
    return f"= {lay_out(told, 2)}\n"


def write(section: str, fields: Json, target: Target) -> str:
    made, payload = send(section, fields, target)
    written = differ(made, send(section, {}, target)[0])
    told = "as it came" if written == fields else lay_out(shorten(written), 2)
    for name, tag in TAGS.items():
        told = told.replace(tag, name)
    asked = tell_asked(payload)
    return f"> {told}\n" + (f"$ {lay_out(asked, 2)}\n" if asked else "")


def open_up(section: str, target_text: str, line: str, name: str) -> str:
    """Send what was refused where the model allows it."""
    assert name in ALLOWED
    target = read_target(section.partition(" over ")[2], target_text)
    send(section, fill(expand(orjson.loads(line))), replace(target, allow=frozenset({name})))
    return f"+ {name}\n"


def unfold(text: str) -> str:
    """Put the outcomes of a request on lines of their own, where they stand behind it."""
    lines = []
    for line in text.splitlines():
        try:
            end = DECODER.raw_decode(line)[1] if line.startswith("{") else len(line)
        except json.JSONDecodeError:  # the first of several lines
            end = len(line)
        lines += [line[:end], *re.split(r" (?=\$ \{|\+ \w+$)", line[end + 1 :] or "\n")]
    return "".join(f"{line}\n" for line in lines if line != "\n")


def fold(request: str, outcomes: str) -> str:
    """Put the outcomes of a request behind it, if all of it fits on a line."""
    whole = request + outcomes
    line = " ".join(whole.splitlines())
    return f"{line}\n" if len(line) <= WIDTH and "\n " not in whole else whole


def read_outcomes(text: str) -> list[tuple[str, object]]:
    """Return each outcome with its mark; the order of an object's members means nothing."""
    return [
        (mark, expand(orjson.loads(value)) if value.startswith("{") else value)
        for mark, value in OUTCOME.findall(text)
    ]


@pytest.mark.parametrize(("path", "text"), SECTIONS)
def test_a_request_becomes_what_its_file_says(path: Path, text: str) -> None:
    section, raw, text = text.partition("\n")[0], text, unfold(text)
    new, at, played = "", 0, 0
    with told_together() as row:
        for found in ROW.finditer(text):
            target, lines, then = found.groups()
            new, at = new + text[at : found.start()], found.end()
            runs: list[tuple[str, list[str]]] = []
            for line in FIELDS.findall(lines):
                played += 1
                with row(f"{target or ''} {line}"):
                    now = play(section, target or "", line)
                    if name := re.search(r"(?m)^\+ (.*)\n", then):
                        now += open_up(section, target or "", line, name[1])
                    same = read_outcomes(then) == read_outcomes(now)
                    now = then if same else now
                    if not runs or runs[-1][0] != now:
                        runs.append((now, []))
                    runs[-1][1].append(line)
                    assert "WRITE_REQUESTS" in os.environ or same
            head = f"@ {target}\n" if target else ""
            for now, ones in runs:
                new += head + "".join(ones[:-1]) + fold(ones[-1], now)
    assert played == len(re.findall(r"(?m)^\{", text))
    if "WRITE_REQUESTS" in os.environ:
        whole = path.read_text(encoding="utf-8")
        path.write_text(whole.replace(raw, new + text[at:]), encoding="utf-8")

"""Every name that a caller's table knows has one spelling, at every path."""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import Final

import orjson
import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.billed import BILLED
from gateway.dialects.wire.fields import Fields
from gateway.dialects.wire.names import fold
from gateway.dialects.wire.records import Target
from tests.dialects.test_requests import LEAST as BODIES
from tests.support.formats import COUNTERS, EVERY_CALLER, EXCHANGES, SERVICES
from tests.support.rows import each_row


def find_fields(caller: Caller) -> Fields:
    """Find the table in the module of a caller's class, or of the class that it derives from."""
    modules = (vars(import_module(one.__module__)) for one in type(caller).__mro__)
    found: Fields = next(one["FIELDS"] for one in modules if "FIELDS" in one)
    return found


FIELDS: Final = {one.name: find_fields(one) for one in EVERY_CALLER}
LEAST: Final = {"transcripts": {}, **BODIES}


def spell(name: str) -> set[str]:
    """Return the name in upper case, as camelCase, with `-`, and as Unicode folds it."""
    head, *rest = name.split("_")
    return {
        name.upper(),
        head + "".join(one.capitalize() for one in rest),
        name.replace("_", "-"),
        name.replace("s", "\u017f").replace("k", "\u212a"),
    }


def refuse(caller: Caller, name: str, value: object) -> BadRequest:
    least = LEAST.get(caller.name, {"input": "Hi"})
    with pytest.raises(BadRequest) as refused:
        caller.parse_request(orjson.dumps({"model": "m", **least, name: value}))
    return refused.value


@each_row("caller", [*EVERY_CALLER, *(one.exchange.caller for one in COUNTERS.values())])
def test_only_the_exact_spelling_of_a_known_name_passes(caller: Caller) -> None:
    known = FIELDS[caller.name].known
    assert known >= {*BILLED, *list_multiplied(caller.name), *LEAST.get(caller.name, ()), "model"}
    for name in known:
        for written in spell(name) - known:
            for value in ("x", None):
                error = refuse(caller, written, value)
                assert (error.param, error.code) == (written, "unsupported_parameter")
                assert fold(error.message.rpartition("Write '")[2][:-2]) == fold(name)


def test_names_that_differ_in_more_pass() -> None:
    body = {"model": "m", **LEAST["chat"], "userId": 1, "topKey": 1, "modelx": 1, "": 1, "-": None}
    assert EXCHANGES["chat"]["chat"].caller.parse_request(orjson.dumps(body)).body == body


def test_an_error_shows_the_beginning_of_a_long_name() -> None:
    error = refuse(EVERY_CALLER[0], "m_" + "_" * 3000 + "odel", 1)
    assert len(error.message) < 300


def list_multiplied(service: str) -> Collection[str]:
    return SERVICES[service].upstream.multiplied if service in SERVICES else ()


@each_row("service", SERVICES)
def test_services_refuse_each_field_that_makes_more_of_them(service: str) -> None:
    exchange = SERVICES[service]
    for name in list_multiplied(service):
        known = FIELDS[service]
        if known.checks.get(name) is not None or name in known.inner:
            continue  # counted, where it can be: `requests/*.txt`
        body = {"model": "m", **LEAST.get(service, {"input": "Hi"}), name: "2"}
        request = exchange.caller.parse_request(orjson.dumps(body))
        target = Target("theirs", unit="character" if service == "speech" else "token")
        with pytest.raises(BadRequest) as refused:
            exchange.write_request(request, target)
        assert refused.value.param == name

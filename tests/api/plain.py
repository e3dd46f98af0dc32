"""Functions of the API as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

from gateway.api import admission, front, keys, lifecycle
from gateway.api.front import render_error
from gateway.api.lifecycle import Lifecycle, Phase
from gateway.api.wire import choose_caller
from gateway.base import errors
from gateway.base.errors import BadRequest, Lack
from gateway.base.prices import FREE_OF_CHARGE, NOTHING_SPECIAL
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, Payload
from gateway.extension import tell_next_step
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.budget_records import Allowance, Budget, make_spending
from gateway.ledger.key_records import KeyTerms
from tests.support.records import make_call

ON = ("qwen3-8b", "gpt-4o", "gpt-4o-mini")
OFF = "gpt-5.5"


def find_code(code: str | None) -> str:
    return front.find_code(BadRequest("M", code=code))


def choose_dialect(head: bytes) -> str:
    return choose_caller(head).name


def make_life(steps: str) -> Lifecycle:
    life = Lifecycle()
    for step in steps.split():
        life.advance(Phase[step])
    return life


def go_on(steps: str) -> str:
    return make_life(steps).phase.name


def leave(steps: str, *, drains: bool, finished: bool) -> str:
    """Let the caller leave after these steps; `finished` is its reply."""
    life = make_life(steps)
    leaving = life.leave(drains=drains, finished=finished)
    assert life.caller_gone
    return leaving.name


def find_problem(name: str, allowed: list[str]) -> str:
    """Look for a model where some are on and `gpt-5.5` is off; each has an alias with `old-`."""
    models = {id_: SimpleNamespace(id=id_, aliases=(f"old-{id_}",)) for id_ in (*ON, OFF)}
    config = SimpleNamespace(models=models)
    routes = SimpleNamespace(models=dict.fromkeys(ON))
    key = Key("k", Account(1, "a", False, 5), KeyTerms(tuple(allowed) or None), Line("k"))
    gateway = cast("Any", SimpleNamespace(config=config, routes=routes))
    return admission.find_problem(gateway, key, name)


def find_ending(error: str) -> str:
    """Find the ending that an error is."""
    if error == "CallerLeft":
        return lifecycle.find_ending(lifecycle.CallerLeft()).name
    kind: type[errors.GatewayError] = getattr(errors, error)
    return lifecycle.find_ending(kind() if kind is errors.LedgerUnavailable else kind("M")).name


def tell_wait(seconds: float) -> list[str]:
    """Return the headers that tell a wait: whole seconds, and milliseconds."""
    response = render_error(make_call(), errors.Overloaded("x", retry_after_seconds=seconds))
    return [response.headers[name] for name in ("Retry-After", "retry-after-ms")]


def refuse_funds(lack: Lack) -> list[object]:
    """Return status, code and words of a refusal of a key with a cap and a budget."""
    budget = Budget(1, 1, "team", Allowance(10**9, "month"), make_spending("month", 0, 2 * 10**9))
    terms = KeyTerms(cap_nano=2 * 10**9)
    key = Key("k", Account(1, "a", False, -(10**7)), terms, Line("k", 3 * 10**9), budget=budget)
    billing, server = SimpleNamespace(currency="EUR"), SimpleNamespace(public_url=None)
    config = cast("Any", SimpleNamespace(billing=billing, server=server))
    refusal = keys.refuse_funds(lack, key, budget, config)
    words = refusal.message
    for way in ("top_up", "raise_cap"):  # an extra may tell another one
        words = words.replace(tell_next_step(way), way.upper())
    return [refusal.status, refusal.code, words]


def expect_usage(says: dict[str, Any], has: dict[str, Any]) -> list[int]:
    """Return what a request of 40 bytes is expected to use, and the limits of what is plausible.

    `says`: fields of the request. `has`: fields of its model, which else reads 5,000 tokens and writes 400.
    """
    request = replace(CompletionRequest({}, "m", False, False, 1, None, 0, 0), **says)
    model = Model("m", "o", (), 400, 5000, None, 0, FREE_OF_CHARGE, frozenset())
    payload = Payload(b"x" * 40, NOTHING_SPECIAL)
    expected = admission.expect_usage(request, payload, replace(model, **has))
    limits = expected.limits
    return [expected.input_tokens, limits.input, limits.output, limits.estimated_output]

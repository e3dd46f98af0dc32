"""`price check` and `price propose`: compare gateway.toml with a price list of the operator's."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from gateway.cli import arguments as read
from gateway.cli.arguments import render_table
from gateway.cli.command import Command
from gateway.cli.verbs import arg, verb
from gateway.ledger.records import NotFound
from gateway.money import describe_amount
from gateway.price_lists.comparison import (
    Comparison,
    Difference,
    compare,
    describe_difference,
    propose,
)
from gateway.price_lists.lists import open_list
from gateway.process import ExitCode

_TITLES: Final = ("MODEL", "KEY", "ROUTE", "IN THE LIST")
_LIST_CURRENCY: Final = "USD"


_FILE: Final = arg("file", "FILE", read.new_file, "the price list that you downloaded")


@verb(
    "price check",
    "price check data.json",
    "price check model_prices_and_context_window.json --json",
    _FILE,
)
def price_check(command: Command, file: Path) -> int:
    """Compare the prices with a list: the JSON of genai-prices, or LiteLLM's map.

    Exits 1 if one drifts, or if the list has none of them.
    """
    compared = _compare(command, file)
    drifting = [one for one in compared if one.state == "drifts"]
    rows = [
        (one.model.id, one.key, _name_route(one), said)
        for one in compared
        for said in _describe_state(one)
    ]
    command.show([_describe(one) for one in compared], render_table(_TITLES, rows))
    found = sum(one.state in {"agrees", "drifts"} for one in compared)
    command.say(
        f"Compared: {found} of {len(compared)}. Drifting: {len(drifting)}."
        + (" `price propose FILE` prints TOML to paste." if drifting else "")
        + ("" if found else " Nothing was compared: the list has no price of these routes.")
    )
    return ExitCode.FAILED if drifting or not found else ExitCode.OK


@verb("price propose", "price propose data.json", _FILE)
def price_propose(command: Command, file: Path) -> None:
    """Print prices of a list as TOML to paste, with the old ones in comments. Changes nothing."""
    compared = _compare(command, file)
    toml = propose(compared, _today())
    command.show({"toml": toml, "models": [_describe(one) for one in compared]}, toml)
    command.say("Nothing was changed. Read each line before you paste it.")


def _compare(command: Command, path: Path) -> list[Comparison]:
    """Raises NotFound, or PriceListError."""
    try:
        listed = open_list(path, _today())
    except FileNotFoundError as error:
        raise NotFound(
            f"{path}: there is no such file; download a price list and name it"
        ) from error
    if command.currency != _LIST_CURRENCY:
        command.say(
            f"Warning: the list is in {_LIST_CURRENCY}, gateway.toml in {command.currency}; the"
            " numbers are compared as they are."
        )
    return compare(command.config, listed)


def _today() -> date:
    return datetime.now(UTC).date()


def _name_route(one: Comparison) -> str:
    return f"{one.route.provider}/{one.route.upstream_model}"


def _describe_state(one: Comparison) -> list[str]:
    """Describe a comparison in lines: each difference, or the state, and what is to be known."""
    lines = [describe_difference(difference) for difference in one.differences] or [one.state]
    return [*lines, *one.notes]


def _describe(one: Comparison) -> dict[str, object]:
    return {
        "model": one.model.id,
        "key": one.key,
        "route": _name_route(one),
        "state": one.state,
        "listed": one.listed or None,
        "differences": [_describe_amounts(difference) for difference in one.differences],
        "notes": list(one.notes),
    }


def _describe_amounts(one: Difference) -> dict[str, object]:
    return {
        "name": one.name,
        **describe_amount("old", one.old_nano),
        **describe_amount("new", one.new_nano),
    }

"""`price check` and `price propose`: compare gateway.toml with a price list of the operator's."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Final

from gateway.cli.command import Command
from gateway.cli.output import Column, render_table
from gateway.exit_codes import ExitCode
from gateway.ledger import NotFound
from gateway.money import describe_amount
from gateway.price_lists.comparison import (
    Comparison,
    Difference,
    compare,
    describe_difference,
    propose,
)
from gateway.price_lists.lists import open_list

_COLUMNS: Final = (Column("MODEL"), Column("KEY"), Column("ROUTE"), Column("IN THE LIST"))
_LIST_CURRENCY: Final = "USD"


def price_check(command: Command) -> int:
    compared = _compare(command)
    drifting = [one for one in compared if one.state == "drifts"]
    rows = [
        (one.model.id, one.key, _name_route(one), said)
        for one in compared
        for said in _describe_state(one)
    ]
    command.show([_describe(one) for one in compared], render_table(_COLUMNS, rows))
    found = sum(one.state in {"agrees", "drifts"} for one in compared)
    command.say(
        f"Compared: {found} of {len(compared)}. Drifting: {len(drifting)}."
        + (" `price propose FILE` prints TOML to paste." if drifting else "")
    )
    return ExitCode.FAILED if drifting else ExitCode.OK


def price_propose(command: Command) -> None:
    compared = _compare(command)
    toml = propose(compared, _today())
    command.show({"toml": toml, "models": [_describe(one) for one in compared]}, toml)
    command.say("Nothing was changed. Read each line before you paste it.")


def _compare(command: Command) -> list[Comparison]:
    """Raises NotFound, or PriceListError."""
    path = command.options.file
    try:
        file = open_list(path, _today())
    except FileNotFoundError as error:
        raise NotFound(
            f"{path}: there is no such file; download a price list and name it"
        ) from error
    if command.currency != _LIST_CURRENCY:
        command.say(
            f"Warning: the list is in {_LIST_CURRENCY}, gateway.toml in {command.currency}; the"
            " numbers are compared as they are."
        )
    return compare(command.config, file)


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

"""The commands `price check` and `price propose`. Nothing is downloaded or applied."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from gateway.admin.fields import Fields
from gateway.base.process import ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import render_table
from gateway.cli.verbs import arg, verb
from gateway.extras.price_lists.compare import Comparison, Difference, compare
from gateway.extras.price_lists.lists import open_list
from gateway.extras.price_lists.propose import describe_difference, propose

_TITLES: Final = ("MODEL", "KEY", "ROUTE", "IN THE LIST")
_LIST_CURRENCY: Final = "USD"
_FILE: Final = arg("file", read.new_file, "the price list that you downloaded")


@verb(
    "price check",
    examples=("price check data.json", "price check model_prices_and_context_window.json --json"),
    arguments=(_FILE,),
)
def price_check(command: Command, file: Path) -> int:
    """Compare the prices with a list: the JSON of genai-prices, or LiteLLM's map.

    Exits 1 if one drifts, or if the list has none of them.
    """
    compared = _open(command, file)
    drifting = [one for one in compared if one.state == "drifts"]
    rows = [
        (one.model.id, one.key, str(one.route), line)
        for one in compared
        for line in _describe_state(one)
    ]
    command.show([_COMPARISON.describe(one) for one in compared], render_table(_TITLES, rows))
    found = sum(one.state in {"agrees", "drifts"} for one in compared)
    command.say(
        f"Compared: {found} of {len(compared)}. Drifting: {len(drifting)}."
        + (" `price propose FILE` prints TOML to paste." if drifting else "")
        + ("" if found else " Nothing was compared: the list has no price of these routes.")
    )
    return ExitCode.FAILED if drifting or not found else ExitCode.OK


@verb("price propose", examples=("price propose data.json",), arguments=(_FILE,))
def price_propose(command: Command, file: Path) -> None:
    """Print prices of a list as TOML to paste, with the old ones in comments. Changes nothing."""
    compared = _open(command, file)
    toml = propose(compared, _today())
    models = [_COMPARISON.describe(one) for one in compared]
    command.show({"toml": toml, "models": models}, toml)
    command.say("Nothing was changed. Read each line before you paste it.")


def _open(command: Command, path: Path) -> list[Comparison]:
    """Compare the models with the list of a file; raises as `open_list` does."""
    listed = open_list(path, _today())
    if command.currency != _LIST_CURRENCY:
        command.say(
            f"Warning: the list is in {_LIST_CURRENCY}, gateway.toml in {command.currency}; the"
            " numbers are compared as they are."
        )
    return compare(command.config, listed)


def _today() -> date:
    return datetime.now(UTC).date()


def _describe_state(one: Comparison) -> list[str]:
    """Describe a comparison in lines: its differences, or else its state, then its notes."""
    lines = [describe_difference(difference) for difference in one.differences] or [one.state]
    return [*lines, *one.notes]


_DIFFERENCE: Final = Fields[Difference]("name", "old_nano", "new_nano")
_COMPARISON: Final = Fields[Comparison](
    *(("model", "model.id"), "key", ("route", lambda one: str(one.route)), "state"),
    ("listed", lambda one: one.listed or None),
    ("differences", lambda one: [_DIFFERENCE.describe(each) for each in one.differences]),
    ("notes", lambda one: list(one.notes)),
)

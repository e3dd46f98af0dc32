"""The latest rows of something, as a command shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from gateway.admin.fields import Fields
from gateway.cli.command import Command

Row = TypeVar("Row")


def show_latest(
    command: Command, what: str, rows: Sequence[Row], fields: Fields[Row], limit: int
) -> None:
    """Write as many rows as `--limit` allows, and say so if there are more."""
    shown = rows[:limit]
    command.show_list(shown, fields)
    if len(rows) > len(shown):
        these = (
            f"These are the latest {limit} {what}s" if limit > 1 else f"This is the latest {what}"
        )
        command.say(f"{these}; --limit N shows more.")

"""A gateway's own name, logo and colour, on all pages of the console and on pages of payment.

Without it the console is called "Gateway" and is green, and `[console]` has no `name`, `logo` and `accent`.

    settings   the settings, which stand in the table [console]; the file of the logo: its kind and size
    colours    shades of the accent that can be read in the light and in the dark theme
    console    the page with the name, its style sheet and its logo
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gateway.extension import Extra, Started, Table

if TYPE_CHECKING:
    from gateway.api.state import Gateway
    from gateway.config.records import ReadTable


def _find_settings() -> type:
    from gateway.extras.brand.settings import Brand

    return Brand


def _check_values(table: ReadTable) -> Mapping[str, object]:
    from gateway.extras.brand.settings import check_values

    return check_values(table)


def _start(gateway: Gateway) -> Started:
    from gateway.extras.brand.console import start

    return start(gateway)


def _add_to_console() -> object:
    from gateway.extras.brand.console import ADDITION

    return ADDITION


def _add_to_cards() -> object:
    from gateway.extras.brand.settings import find_name
    from gateway.extras.cards.settings import Seller

    return Seller(find_name)


EXTRA = Extra(
    needs=("console",),
    tables={"brand": Table(_find_settings, check_values=_check_values, in_table="console")},
    start=_start,
    adds_to={"console": _add_to_console, "cards": _add_to_cards},
)

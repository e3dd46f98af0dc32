"""What other extras add to the console: routes, pages, forms. Each names it in its `Extra.adds`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from gateway.extension import find_added


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What an extra adds. Its routes are made by the decorators of `routes`, as it is imported."""

    scripts: Path
    """The folder of its scripts, which are served beside the console's."""
    pages: Sequence[str] = ()
    """Pages for operators: the function `codes` of the script `codes.js` shows `/console/codes`, "Codes" in the menu."""
    credit: Mapping[str, str] = field(default_factory=dict)
    """Scripts whose `creditForm` adds to the balance on the page Billing, and what one can do there."""


@cache
def find_additions() -> tuple[Addition, ...]:
    """Return what extras add, and make their routes."""
    return tuple(one for one in find_added("console") if isinstance(one, Addition))

"""What other extras add to the console: routes, pages, forms, credentials. Each names it in its `Extra.adds`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gateway.extension import find_added

if TYPE_CHECKING:
    from gateway.api.state import Call
    from gateway.extras.console.state import ConsoleState


ScriptRole = Literal["operator", "accounts", "read"]


@dataclass(frozen=True, slots=True)
class Script:
    """A script that sends requests."""

    id: str
    actor: str
    """Its name in events; no account's name can be like that."""
    role: ScriptRole


@dataclass(frozen=True, slots=True)
class Credential:
    """Bearer credentials by which scripts are known."""

    prefix: str
    """Their beginning."""
    find: Callable[[str, Call, ConsoleState], Awaitable[Script]]
    """Finds whose it is. Raises ConsoleError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition:
    """What an extra adds. Its routes are made by the decorators of `routes`, as it is imported."""

    scripts: Path
    """The folder of its scripts, which are served beside the console's."""
    pages: Sequence[str] = ()
    """Pages for operators: the function `codes` of the script `codes.js` shows `/console/codes`, "Codes" in the menu."""
    credit: Mapping[str, str] = field(default_factory=dict)
    """Scripts whose `creditForm` adds to the balance on the page Billing, and what one can do there."""
    credential: Credential | None = None


@cache
def find_additions() -> tuple[Addition, ...]:
    """Return what extras add, and make their routes."""
    return tuple(one for one in find_added("console") if isinstance(one, Addition))


@cache
def find_credentials() -> tuple[Credential, ...]:
    """Return the bearer credentials that extras know."""
    return tuple(one.credential for one in find_additions() if one.credential is not None)

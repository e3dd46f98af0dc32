"""The verbs that switch models and providers off and on."""

from __future__ import annotations

from typing import Final

from gateway.cli.command import Command
from gateway.cli.verbs import arg, verb
from gateway.extras.switches.book import list_switches, switch_off, switch_on
from gateway.extras.switches.records import SWITCH, Kind

_NOTE: Final = arg("--note", "TEXT", "why, for other operators")


@verb(
    "model off",
    examples=('model off gpt-5.5 --note "answers nonsense, ticket 812"',),
    arguments=(arg("name", "NAME", "the model's name in gateway.toml"), _NOTE),
)
def model_off(command: Command, name: str, note: str | None) -> None:
    """Switch a model off at once, until it is switched on again.

    Callers get the error of an unknown model. Calls in flight end normally, and gateway.toml stays as it is.
    """
    _switch_off(command, "model", name, note)


@verb(
    "model on",
    examples=("model on gpt-5.5",),
    arguments=(arg("name", "NAME", "a model that is switched off"),),
)
def model_on(command: Command, name: str) -> None:
    """Switch a model on again."""
    _switch_on(command, "model", name)


@verb(
    "provider off",
    examples=('provider off openai --note "their incident of today"',),
    arguments=(arg("name", "NAME", "the provider's name in gateway.toml"), _NOTE),
)
def provider_off(command: Command, name: str, note: str | None) -> None:
    """Switch a provider off at once, until it is switched on again.

    Calls go to the other routes of its models; models without one are off. Calls in flight end normally, and
    gateway.toml stays as it is.
    """
    _switch_off(command, "provider", name, note)


@verb(
    "provider on",
    examples=("provider on openai",),
    arguments=(arg("name", "NAME", "a provider that is switched off"),),
)
def provider_on(command: Command, name: str) -> None:
    """Switch a provider on again."""
    _switch_on(command, "provider", name)


@verb("switches", examples=("switches", "switches --json"))
def switches(command: Command) -> None:
    found = list_switches(command.open_books(), command.config)
    if found or command.as_json:
        command.show_list(found, SWITCH)
    else:
        command.say("Nothing is switched off.")


def _switch_off(command: Command, kind: Kind, name: str, note: str | None) -> None:
    books = command.open_books()
    changed = switch_off(books, command.config, kind, name, note or "")
    _show(command, kind, name, "is off." if changed else "was off already.", changed=changed)


def _switch_on(command: Command, kind: Kind, name: str) -> None:
    changed = switch_on(command.open_books(), command.config, kind, name)
    words = "is switched on again." if changed else "was not switched off."
    _show(command, kind, name, words, changed=changed)


def _show(command: Command, kind: Kind, name: str, words: str, *, changed: bool) -> None:
    books = command.open_books()
    if changed:
        books.wait_in_force()
    found = list_switches(books, command.config)
    switch = next((one for one in found if (one.kind, one.name) == (kind, name)), None)
    command.show({"kind": kind, "name": name, "off": switch and SWITCH.describe(switch)})
    command.say(f"{kind.capitalize()} {name} {words}")

"""`check`: summarise the configuration, warn of its prices, and look at its providers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from gateway.base.process import ExitCode
from gateway.cli.arguments import render_table
from gateway.cli.command import Command
from gateway.cli.summary import describe_config, page_config
from gateway.cli.verbs import flag, verb
from gateway.config.doubts import list_warnings, warn_of_literals, warn_of_no_model
from gateway.config.load import load_config
from gateway.config.records import Config, Server
from gateway.extension import find_extras
from gateway.ledger.opening import check_ledger
from gateway.ledger.records import LedgerError

if TYPE_CHECKING:
    from gateway.upstream.model_list import Finding

ANY_HOST: Final = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - compared, not bound


@verb(
    "check",
    "check",
    "check --live",
    "check --json --config /etc/gateway.toml",
    flag(
        "--live",
        "also ask each provider for its list of models, and say what is wrong;"
        f" exits {ExitCode.FAILED} if one cannot be used",
    ),
    load=load_config,
)
def check(command: Command, *, live: bool) -> int:
    config = fetch_keys(command.config)
    findings = look(config) if live else []
    summary = describe_config(config)
    page = page_config(config, summary)
    if live:
        summary["live"] = [{**asdict(one), "usable": one.is_usable} for one in findings]
        page = f"{page}\n\n{page_findings(findings)}"
    command.show(summary, page)
    for warning in (
        *(f"Model {model} is off: {lack}." for model, lack in config.lacking.items()),
        *warn_of_no_model(command.config),
        *(f"Warning: {one}" for one in list_warnings(command.config)),
        *warn_of_exposure(command.config.server),
    ):
        command.say(warning)
    if readable := warn_of_literals(command.config.path, command.config.literals):
        command.say(f"Warning: {readable}")
    unusable = [
        one.name
        for one in config.providers.values()
        if one.lacking != command.config.providers[one.name].lacking
    ]
    unusable += [one.provider for one in findings if not one.is_usable]
    if unusable:
        command.say(f"Not usable as they are set: {', '.join(dict.fromkeys(unusable))}.")
    is_served, obstacle = look_at_start(command.config)
    if is_served:
        command.say(
            "This is by the environment of this shell. The gateway that serves now has the one of"
            " its start: `reload` and the console say which providers are off there."
        )
    # A problem that prevents `serve` from starting outweighs an unusable provider.
    if obstacle:
        command.say(f"`serve` cannot start: {obstacle}")
        return ExitCode.UNAVAILABLE
    return ExitCode.FAILED if unusable else ExitCode.OK


def fetch_keys(config: Config) -> Config:
    """Return the configuration with the keys that extras find while the gateway serves."""
    for extra in find_extras().values():
        if extra.fetch_keys is not None:
            config = extra.fetch_keys(config)
    return config


def warn_of_exposure(server: Server) -> Iterator[str]:
    """Yield a warning if the gateway listens on all addresses, and keys may travel in the clear."""
    if server.host in ANY_HOST and not (server.public_url or "").startswith("https://"):
        yield (
            f'Warning: with host = "{server.host}" everybody who can reach this machine can reach the'
            " gateway, by plain http, which shows keys and prompts on the way. Put a TLS proxy in front"
            " and set public_url under [server] to its https address."
        )


def look_at_start(config: Config) -> tuple[bool, str | None]:
    """Return whether a gateway serves now, and what would keep `serve` from starting.

    The address is not looked at while a gateway serves from the database, as that one has it.
    """
    try:
        is_served = check_ledger(config.storage.location)
    except LedgerError as error:
        return False, str(error)
    from gateway.server.listener import find_listen_problem  # with asyncio, for this command alone

    return is_served, None if is_served else find_listen_problem(config.server)


def look(config: Config) -> list[Finding]:
    """Ask each provider for its list of models."""
    import asyncio

    from gateway.upstream.model_list import look_at_all  # with all that it takes to ask

    return asyncio.run(look_at_all(config))


def page_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as text for people."""
    if not findings:
        return "No provider is on that could be asked."
    rows = [(one.provider, one.url, one.words) for one in findings]
    return render_table(("PROVIDER", "ASKED", "FOUND"), rows)

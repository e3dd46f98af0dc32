"""The verbs for the process: `serve`, `init` and `check`.

`check` says whether the configuration is valid, what of it may not be meant, and whether `serve` could start.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import gateway
from gateway.base.process import PROGRAM, ExitCode
from gateway.cli import arguments as read
from gateway.cli.command import Command, write_new
from gateway.cli.output import Json
from gateway.cli.verbs import DEFAULT_CONFIG, arg, verb
from gateway.config.load import list_warnings, load_config, load_defaults, warn_of_no_model
from gateway.config.records import Config, Server
from gateway.extension import find_advice, find_extras
from gateway.ledger.opening import check_ledger
from gateway.ledger.records import LedgerError


@verb("serve", examples=("serve", "serve --config /etc/gateway.toml"), json=False, load=load_config)
def serve(command: Command) -> int:
    # Here, as no other verb needs the web server.
    from gateway.server import run_server

    return run_server(command.config)


@verb(
    "init",
    examples=("init", "init /etc/gateway/gateway.toml"),
    arguments=(
        arg(
            "file", read.new_file, "the new file; must not exist (default: as --config)", nargs="?"
        ),
    ),
    load=load_defaults,
)
def init(command: Command, file: Path | None) -> None:
    target = file or command.config.path
    shipped = Path(gateway.__file__).with_name("gateway.toml").read_bytes()
    write_new("init", target, shipped)
    command.show({"file": str(target)})
    is_default = target.absolute() == Path(DEFAULT_CONFIG).absolute()
    program = PROGRAM if is_default else f"{PROGRAM} --config {shlex.quote(str(target))}"
    command.say(
        f"{target} is written. Its providers are on as soon as the environment variables that it"
        f" names are set, such as OPENAI_API_KEY. Next:\n"
        f"  {program} check    # says what is set\n"
        f"  {program}          # serves; the first start shows what opens its accounts"
    )


ANY_HOST: Final = frozenset({"0.0.0.0", "::", "*"})  # noqa: S104 - compared, not bound


@verb("check", examples=("check", "check --json --config /etc/gateway.toml"), load=load_config)
def check(command: Command) -> int:
    config, path = fetch_keys(command.config), str(command.config.path)
    words = f"{path} is valid. Models that are on: {len(config.active_models())}."
    return tell_check(command, config, {"config": path}, words)


def tell_check(
    command: Command, config: Config, members: Json, text: str, unusable: Iterable[str] = ()
) -> int:
    """Report on a configuration with all its keys, and return the exit code.

    `unusable` are providers of which it is known that they cannot be used.
    """
    command.show(members, text)
    for warning in (
        *(f"Model {model} is off: {lack}." for model, lack in config.lacking.items()),
        *warn_of_no_model(command.config),
        *(f"Warning: {one}" for one in list_warnings(command.config)),
        *warn_of_exposure(command.config.server),
    ):
        command.say(warning)
    if readable := find_advice().warn_of_literals(command.config.path, command.config.literals):
        command.say(f"Warning: {readable}")
    failed = [
        one.name
        for one in config.providers.values()
        if one.lacking != command.config.providers[one.name].lacking
    ]
    if failed := [*dict.fromkeys((*failed, *unusable))]:
        command.say(f"Not usable as they are set: {', '.join(failed)}.")
    is_served, obstacle = look_at_start(command.config)
    if is_served:
        command.say(
            "This is by the environment of this shell. The gateway that serves now has the one of"
            " its start: `reload` says which providers are off there."
        )
    # A problem that prevents `serve` from starting outweighs an unusable provider.
    if obstacle:
        command.say(f"`serve` cannot start: {obstacle}")
        return ExitCode.UNAVAILABLE
    return ExitCode.FAILED if failed else ExitCode.OK


def fetch_keys(config: Config) -> Config:
    """Return the configuration with the keys that extras find while the gateway serves."""
    for extra in find_extras().values():
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

"""The verbs for the process: `serve` and `reload`."""

from __future__ import annotations

from gateway.admin import reload as asking
from gateway.admin import views
from gateway.cli.command import Command
from gateway.cli.verbs import JSON, verb
from gateway.config import load_config, load_storage
from gateway.exit_codes import ExitCode
from gateway.ledger import find_server


@verb("serve", "serve", "serve --config /etc/gateway.toml", load=load_config)
def serve(command: Command) -> int:
    from gateway.server import run_server

    return run_server(command.config)


@verb(
    "reload",
    "reload",
    "reload --config /etc/gateway.toml --json",
    arguments=(JSON,),
    load=load_storage,
)
def reload(command: Command) -> int:
    location = command.config.storage.location
    with command.open_books() as books:  # first: it says so if the files belong to another user
        pid = find_server(location)
        if pid is None:
            command.say(
                f"No gateway serves from {location} on this machine. If [storage] has changed,"
                " restart the gateway: it goes on with the old one."
            )
            return ExitCode.UNAVAILABLE
        try:
            answer = asking.ask(books, pid)
        except PermissionError:
            command.say(f"The gateway (process {pid}) belongs to another user. Use sudo.")
            return ExitCode.UNAVAILABLE
    if answer is None:
        command.say(
            f"The gateway (process {pid}) was asked, but did not answer within"
            f" {asking.WAIT_SECONDS:.0f} s. Its log and the console's page Health say more."
        )
        return ExitCode.UNAVAILABLE
    command.show(views.describe(answer, "ok", "at_ms", "words"))
    command.say(answer.words if answer.ok else f"Refused, nothing changed: {answer.words}")
    return ExitCode.OK if answer.ok else ExitCode.CONFIG

"""The command `reload`."""

from __future__ import annotations

from functools import partial

from gateway.admin.fields import describe
from gateway.base.process import ExitCode
from gateway.cli.command import Command
from gateway.cli.verbs import verb
from gateway.config.load import load_table
from gateway.extras.reloads import asking
from gateway.ledger.opening import find_server


@verb(
    "reload",
    examples=("reload", "reload --config /etc/gateway.toml --json"),
    load=partial(load_table, name="storage"),
)
def reload(command: Command) -> int:
    location = command.config.storage.location
    books = command.open_books()  # first: it says so if the files belong to another user
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
            f" {asking.WAIT_SECONDS:.0f} s. Its log says more."
        )
        return ExitCode.UNAVAILABLE
    command.show(describe(answer, "ok", "at_ms", "words"))
    command.say(answer.words if answer.ok else f"Refused, nothing changed: {answer.words}")
    # The code that a start with the same file would have.
    return ExitCode.OK if answer.ok else ExitCode.CONFIG

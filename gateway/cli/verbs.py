"""The verbs for usage, audit and backup. A verb returns its exit code; None means OK."""

from __future__ import annotations

from functools import partial

from gateway.admin import accounts, views
from gateway.cli.check import describe_config, page_config, warn_of_exposure
from gateway.cli.command import Command
from gateway.cli.tables import INTERRUPTED, csv_usage, render, table_usage
from gateway.cli.unit import explain, find_addresses, find_installation, warn
from gateway.exit_codes import ExitCode
from gateway.server import make_service, make_socket, run_server


def serve(command: Command) -> int:
    return run_server(command.config)


def check(command: Command) -> None:
    command.show(describe_config(command.config), page_config(command.config))
    if not command.config.active_models():
        command.say(
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )
    if warning := warn_of_exposure(command.config.server):
        command.say(warning)


def audit(command: Command) -> int:
    with command.open_books() as books:
        report = books.audit()
    text = (
        f"accounts {report.accounts}, entries {report.entries}, "
        f"requests pending {report.pending}, interrupted {report.interrupted}"
    )
    if report.to_settle:
        text += "\n\n" + render(INTERRUPTED, report.to_settle, command.currency)
    command.show(views.describe_audit(report), text)
    if report.unsettled:
        command.say(
            f"Interrupted requests to settle: {report.unsettled}. Nothing was charged for them."
            " Settle each with `account correct --request ID`."
        )
    for problem in report.problems:
        command.say(problem)
    command.say("The books are in order." if report.ok else "The books do not add up.")
    return ExitCode.OK if report.ok else ExitCode.AUDIT_MISMATCH


def backup(command: Command) -> None:
    target = command.options.file
    with command.open_books() as books:
        size = accounts.back_up(books, target)
    command.show({"file": str(target), "bytes": size})
    command.say(f"{command.config.storage.path} is copied to {target}, {size} bytes.")


def unit(command: Command) -> None:
    place, server = find_installation(command.config), command.config.server
    if command.options.socket:
        command.output.print(make_socket(find_addresses(server)))
        return
    service = make_service(place, server)
    command.output.print(service)
    command.say(explain(place))
    if note := warn(service, place):
        command.say(note)


def usage(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        rows = accounts.usage(
            books,
            account=options.account,
            by=options.by,
            since_ms=options.since,
            until_ms=options.until,
        )
    table = csv_usage if options.csv else partial(table_usage, currency=command.currency)
    described = [{options.by: group, **views.describe_usage(sums)} for group, sums in rows]
    command.show(described, table(rows, options.by))

"""The verbs for the process, usage, audit, events and backup. A verb returns its exit code; None is OK."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gateway.admin import accounts, alerts, views
from gateway.admin import reload as asking
from gateway.cli.check import (
    describe_config,
    describe_findings,
    find_obstacle,
    list_conflicts,
    list_losses,
    look,
    page_config,
    page_findings,
    warn_of_exposure,
)
from gateway.cli.command import Command
from gateway.cli.tables import EVENTS, INTERRUPTED, csv_usage, render, table_usage
from gateway.cli.unit import explain, explain_container, find_addresses, find_installation, note
from gateway.exit_codes import ExitCode
from gateway.ledger import Books, DatabaseUrl, Refused, UsageGroup, find_server
from gateway.server import make_container, make_service, make_socket, run_server


def serve(command: Command) -> int:
    return run_server(command.config)


def check(command: Command) -> int:
    findings = look(command.config) if command.options.live else []
    summary, page = describe_config(command.config), page_config(command.config)
    if command.options.live:
        summary["live"] = describe_findings(findings)
        page = f"{page}\n\n{page_findings(findings)}"
    command.show(summary, page)
    if not command.config.active_models():
        command.say(
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )
    for warning in (*list_losses(command.config), *list_conflicts(command.config)):
        command.say(warning)
    if exposure := warn_of_exposure(command.config.server):
        command.say(exposure)
    unusable = [one.provider for one in findings if not one.is_usable]
    if unusable:
        command.say(f"Not usable as they are set: {', '.join(unusable)}.")
    if obstacle := find_obstacle(command.config):
        command.say(f"`serve` cannot start: {obstacle}")
        return ExitCode.UNAVAILABLE
    return ExitCode.FAILED if unusable else ExitCode.OK


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


def audit(command: Command) -> int:
    with command.open_books() as books:
        report = alerts.run_audit(books, command.config)
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


def events(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        found = books.events.read_page(options.search, None, options.limit + 1)
    since_ms = options.since or 0
    rows = [event for event in found if event.at_ms >= since_ms]
    command.show_latest("events", rows, views.describe_event, EVENTS)


def backup(command: Command) -> None:
    target, location = command.options.file, command.config.storage.location
    if isinstance(location, DatabaseUrl):
        raise Refused(
            f"{location} is not copied to a file: backups of a database of PostgreSQL are its own,"
            " pg_dump, or base backups with WAL archiving. `export` writes a ledger to a file"
        )
    with command.open_books() as books:
        size = accounts.back_up(books, target)
    command.show({"file": str(target), "bytes": size})
    command.say(f"{location} is copied to {target}, {size} bytes.")


def unit(command: Command) -> None:
    place, server = find_installation(command.config), command.config.server
    if command.options.socket:
        command.output.print(make_socket(find_addresses(server)))
        return
    if command.options.container:
        command.output.print(
            make_container(place.config, server, has_database=place.database is not None)
        )
        for line in explain_container(command.config):
            command.say(line)
        return
    service = make_service(place, server)
    command.output.print(service)
    command.say(explain(place))
    for line in note(service, place):
        command.say(line)


def usage(command: Command) -> None:
    options = command.options
    with command.open_books() as books:
        rows = accounts.usage_with_costs(
            books,
            account=options.account,
            by=options.by,
            since_ms=options.since,
            until_ms=options.until,
        )
        named = _name_groups(books, options.by, [group for group, *_ in rows])
    lines = [(names, sums, costs) for names, (_, sums, costs) in zip(named, rows, strict=True)]
    table = csv_usage if options.csv else partial(table_usage, currency=command.currency)
    described = [
        {**names, **views.describe_usage(sums), **views.describe_costs(costs)}
        for names, sums, costs in lines
    ]
    command.show(described, table(lines, options.by))


def _name_groups(books: Books, by: UsageGroup, groups: Sequence[str]) -> list[dict[str, str]]:
    """Return the columns that name each group: a key's account and name too."""
    if by != "key":
        return [{by: group} for group in groups]
    keys = {key.id: key for key in books.keys.read_all()}
    return [
        {by: group, "account": keys[group].account, "key_name": keys[group].terms.name}
        for group in groups
    ]

"""The verb `dashboard`."""

from __future__ import annotations

from pathlib import Path

from gateway.cli import arguments as read
from gateway.cli.command import Command, write_new
from gateway.cli.verbs import arg, verb
from gateway.config.load import load_defaults


@verb(
    "dashboard",
    examples=("dashboard grafana.json", "dashboard > grafana.json"),
    arguments=(
        arg("file", read.new_file, "the new file; must not exist (default: stdout)", nargs="?"),
    ),
    load=load_defaults,
)
def write_dashboard(command: Command, file: Path | None) -> None:
    # Here, as it needs the web server's modules, and `completion` imports all verbs.
    from gateway.extras.metrics.dashboard import make_dashboard

    made = make_dashboard()
    if file is None:
        command.output.print(made.decode())
        return
    write_new("dashboard", file, made)
    command.show({"file": str(file)})
    command.say(f"{file} is written. Import it in Grafana under Dashboards, New, Import.")

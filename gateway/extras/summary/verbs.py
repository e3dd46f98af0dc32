"""`check` with the summary and, with `--live`, how the providers answer."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from gateway.base.process import ExitCode
from gateway.cli.command import Command
from gateway.cli.output import render_table
from gateway.cli.process import fetch_keys, tell_check
from gateway.cli.verbs import flag, verb
from gateway.config.load import load_config
from gateway.extras.summary.pages import describe_config, page_config

if TYPE_CHECKING:
    from gateway.extras.summary.model_list import Finding


@verb(
    "check",
    examples=("check", "check --live", "check --json --config /etc/gateway.toml"),
    arguments=(
        flag(
            "--live",
            "also ask each provider for its list of models, and say what is wrong;"
            f" exits {ExitCode.FAILED} if one cannot be used",
        ),
    ),
    load=load_config,
)
def check(command: Command, *, live: bool) -> int:
    config = fetch_keys(command.config)
    summary = describe_config(config)
    page = page_config(config, summary)
    if not live:
        return tell_check(command, config, summary, page)
    from gateway.extras.summary.model_list import look_at_all  # with all that it takes to ask

    findings = asyncio.run(look_at_all(config))
    members = {**summary, "live": [{**asdict(one), "usable": one.is_usable} for one in findings]}
    unusable = [one.provider for one in findings if not one.is_usable]
    return tell_check(command, config, members, f"{page}\n\n{page_findings(findings)}", unusable)


def page_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as text for people."""
    if not findings:
        return "No provider is on that could be asked."
    rows = [(one.provider, one.url, one.words) for one in findings]
    return render_table(("PROVIDER", "ASKED", "FOUND"), rows)

"""README is held to the code: its configuration reference and its errors."""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import tomllib
from pathlib import Path
from typing import Final

import pytest

from gateway.api.lifecycle import ENDINGS, UNCOMMITTED, Ending, Phase
from gateway.config import SETTINGS, load_config
from gateway.config.reader import Missing
from gateway.dialects import DEMO, UPSTREAMS
from gateway.dialects.chat_over_messages import request as to_messages_request
from gateway.dialects.chat_over_responses import request as to_responses_request
from gateway.dialects.messages_over_chat import request as to_chat_request
from gateway.dialects.responses_over_chat import request as from_responses_request
from gateway.errors import GatewayError
from gateway.exit_codes import ExitCode
from tests import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def describe_settings() -> str:
    """The configuration reference as README must have it."""
    lines = ["| table | key | default | meaning |", "|---|---|---|---|"]
    for table, settings in SETTINGS.items():
        for key, setting in settings.items():
            default = "required" if setting.default is Missing.REQUIRED else _show(setting.default)
            lines.append(f"| `{table}` | `{key}` | {default} | {setting.doc} |")
    return "\n".join(lines)


def _show(default: object) -> str:
    if default is None:
        return "none"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{text}`"


def test_readme_lists_every_setting() -> None:
    """The reference between the marks is exactly what the code's table says."""
    match = re.search(r"<!-- configuration -->\n(.*?)\n?<!-- /configuration -->", README, re.DOTALL)
    assert match
    assert match[1] == describe_settings()


_ENDING_NAMES: Final = {
    frozenset({Ending.COMPLETE}): Ending.COMPLETE.value,
    frozenset({Ending.ABANDONED}): Ending.ABANDONED.value,
    frozenset({Ending.UNDELIVERABLE}): Ending.UNDELIVERABLE.value,
    frozenset(Ending) - {Ending.COMPLETE, Ending.ABANDONED, Ending.UNDELIVERABLE}: "a failure",
}
_PHASE_NAMES: Final = {
    frozenset({Phase.ADMITTED}): "before a provider has the request",
    frozenset({Phase.ADMITTED, Phase.SENT, Phase.ANSWERED}): "before the caller's first event",
    frozenset({Phase.SENT, Phase.ANSWERED, Phase.STREAMING}): "once a provider has it",
    frozenset({Phase.STREAMING}): "after the caller's first event",
    frozenset(Phase) - {Phase.ENDED}: "at any time",
}
_ANSWERS: Final = {frozenset({True}): "yes", frozenset({False}): "no"}
_CALLERS: Final = {frozenset({True}): "is gone", frozenset({False}): "is there"}


def describe_endings() -> str:
    """The table of endings as README must have it."""
    lines = [
        "| ending | the caller | when | delivered | charged | the caller gets |",
        "|---|---|---|---|---|---|",
    ]
    for endings, gone, phases, delivered, charge, last in ENDINGS:
        cells = (_ENDING_NAMES[endings], _CALLERS[gone], _PHASE_NAMES[phases])
        told = (_ANSWERS.get(delivered, "either"), charge.value, last.value)
        lines.append(f"| {' | '.join((*cells, *told))} |")
    for stream, charge, last in UNCOMMITTED:
        kind = "a stream" if stream else "a JSON reply"
        cells = (f"the charge of {kind} cannot be committed", "is there", "at any time")
        lines.append(f"| {' | '.join((*cells, 'either', charge.value, last.value))} |")
    return "\n".join(lines)


def test_readme_tells_who_pays_when() -> None:
    """The table of endings between the marks is the one that the code decides by."""
    match = re.search(r"<!-- endings -->\n(.*?)\n?<!-- /endings -->", README, re.DOTALL)
    assert match
    assert match[1] == describe_endings()


def describe_billed() -> str:
    """The table of what changes a provider's bill as README must have it."""
    lines = [
        "| at providers of dialect | refused without a price, or unless allowed |",
        "|---|---|",
    ]
    for dialect in (one for one in UPSTREAMS if one != DEMO):
        names = ", ".join(f"`{name}`" for name in UPSTREAMS[dialect].billed)
        lines.append(f"| `{dialect}` | {names}, tools that the provider runs |")
    return "\n".join(lines)


def test_readme_tells_what_changes_the_bill() -> None:
    match = re.search(r"<!-- billed -->\n(.*?)\n?<!-- /billed -->", README, re.DOTALL)
    assert match
    assert match[1] == describe_billed()


def describe_exit_codes() -> str:
    """The table of exit codes as README must have it: the comments of the enum's members."""
    lines = ["| exit code | name | meaning |", "|---|---|---|"]
    (body,) = ast.parse(inspect.getsource(ExitCode)).body
    assert isinstance(body, ast.ClassDef)
    meanings = {}
    for node, after in itertools.pairwise(body.body):
        match node, after:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                meanings[name] = text
            case _:
                pass
    lines += [f"| {code.value} | {code.name} | {meanings[code.name]} |" for code in ExitCode]
    return "\n".join(lines)


def test_readme_lists_every_exit_code() -> None:
    match = re.search(r"<!-- exit-codes -->\n(.*?)\n?<!-- /exit-codes -->", README, re.DOTALL)
    assert match
    assert match[1] == describe_exit_codes()


def test_readme_names_every_error_code() -> None:
    """Each status and code that a caller can meet stands in the errors table."""
    seen = set()
    todo = [GatewayError]
    while todo:
        kind = todo.pop()
        todo += kind.__subclasses__()
        code = getattr(kind, "chat_code", None)
        if code is not None:
            seen.add((kind.status, code))
    table = README.partition("## Errors")[2].partition("##")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    for status, code in seen - {(404, "model_not_found")}:
        assert any(str(status) in row.split("|")[1] and f"`{code}`" in row for row in rows), code


def test_readme_provider_example_is_valid(tmp_path: Path) -> None:
    """The TOML under "Add a provider" works beside the shipped file."""
    shipped = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    blocks = re.findall(r"```toml\n(.*?)```", README, re.DOTALL)
    assert blocks
    for block in blocks:
        tomllib.loads(block)
        path = tmp_path / "gateway.toml"
        path.write_text(shipped + "\n" + block)
        load_config(path, {})


@pytest.mark.parametrize(
    "name", ["serve", "check", "audit", "backup", "unit", "account", "key", "code", "usage"]
)
def test_readme_or_help_names_every_verb(name: str) -> None:
    """A verb nobody can find is none."""
    assert name in README


def describe_fields() -> str:
    """The table of top-level fields across dialects as README must have it."""
    directions = {
        "chat → messages": (
            to_messages_request.CARRIED | to_messages_request.PASSED,
            to_messages_request.DROPPED,
            set(to_messages_request.REFUSED),
        ),
        "chat → responses": (
            to_responses_request.CARRIED | to_responses_request.PASSED,
            to_responses_request.DROPPED,
            set(to_responses_request.REFUSED),
        ),
        "messages → chat": (
            to_chat_request.CARRIED | to_chat_request.PASSED,
            to_chat_request.DROPPED,
            set(to_chat_request.REFUSED),
        ),
        "responses → chat": (
            from_responses_request.CARRIED | from_responses_request.PASSED,
            from_responses_request.DROPPED,
            set(from_responses_request.REFUSED),
        ),
    }
    lines = [
        "| fields | carried over | accepted and left out | refused unless at their default |",
        "|---|---|---|---|",
    ]
    for direction, columns in directions.items():
        cells = (", ".join(f"`{name}`" for name in sorted(column)) for column in columns)
        lines.append(f"| {direction} | {' | '.join(cells)} |")
    return "\n".join(lines)


def test_readme_says_which_fields_cross() -> None:
    """The table between the marks is exactly what the translators do."""
    match = re.search(r"<!-- fields -->\n(.*?)\n?<!-- /fields -->", README, re.DOTALL)
    assert match
    assert match[1] == describe_fields()

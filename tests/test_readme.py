"""README is held to the code: its configuration reference and its errors."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from gateway.config import load_config
from gateway.config_reader import Missing
from gateway.config_settings import SETTINGS
from gateway.dialects import to_chat_request, to_messages_request
from gateway.errors import GatewayError

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


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
    shipped = (Path(__file__).parent.parent / "gateway.toml").read_text(encoding="utf-8")
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
            to_messages_request.HARMLESS,
            set(to_messages_request.REFUSED),
        ),
        "messages → chat": (
            to_chat_request.CARRIED_FIELDS,
            to_chat_request.DROPPED_FIELDS,
            set(to_chat_request.REFUSED_FIELDS),
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

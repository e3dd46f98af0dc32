"""Each module of the core has tests that are found by its name, and a change has the tests of what it changes."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from gateway.extension import find_extras
from tests import ROOT
from tests.changed import TESTS, find_tests, mirror, read_elsewhere
from tests.support.rows import each_row
from tests.test_examples import SECTIONS
from tests.test_package import MODULES

CORE = {name for name in MODULES if not name.startswith("extras/") and "__init__" not in name}


def test_each_module_has_tests_of_its_name_or_it_is_said_where_they_are() -> None:
    elsewhere = read_elsewhere()
    mirrored = {name for name in CORE if mirror(name).exists()}
    shown = {name for name in CORE if any(one.startswith(_dotted(name)) for one in SECTIONS)}
    assert CORE - mirrored - shown - elsewhere.keys() == set(), "add a test file, or a line there"
    assert elsewhere.keys() - (CORE - mirrored - shown) == set(), "these need no line there"


def _dotted(module: str) -> str:
    return f"gateway.{module.replace('/', '.')}."


def test_the_tests_that_are_named_are_there() -> None:
    """A test of an extra goes with it."""
    named = {path.relative_to(TESTS).parts for paths in read_elsewhere().values() for path in paths}
    here = {one for one in named if one[0] != "extras" or one[1] in find_extras()}
    assert [one for one in here if not TESTS.joinpath(*one).is_file()] == []


@each_row(
    ("changed", "tests"),
    [
        ("gateway/api/bodies.py", "api/test_bodies.py"),
        ("gateway/api/wire.py", "api/test_front.py api/test_reading.py"),
        ("gateway/ledger/sqlite/schema.sql", "ledger/sqlite/test_schema.py"),
        ("gateway/dialects/wire/sse.py", "dialects"),
        ("tests/api/test_bodies.py", "api/test_bodies.py"),
        ("tests/config/refused.txt", "config"),
        ("tests/cli/sessions/keys.txt", "cli/test_session.py"),
        ("tests/api/hostile.py", "api/test_leaving.py"),
        ("tests/elsewhere.txt", "test_changed.py"),
        ("gateway/docs/changes.md", ""),
        ("pyproject.toml", ""),
    ],
)
def test_a_change_has_its_tests(changed: str, tests: str) -> None:
    found = sorted(one.relative_to(ROOT / "tests").as_posix() for one in find_tests(changed))
    assert found == tests.split()


def test_the_quick_gates_say_how_to_install_a_tool_that_is_missing(tmp_path: Path) -> None:
    """As in an environment of the README's first command, which runs the gateway and has no tools."""
    for name in (".ci", ".venv/bin"):
        (tmp_path / name).mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "check", tmp_path / ".ci")
    for tool in ("python", "ruff"):
        (tmp_path / ".venv/bin" / tool).touch(mode=0o755)
    done = subprocess.run(
        [tmp_path / ".ci" / "check"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr == (
        ".venv/bin/mypy is missing. Install the tools of the tests: "
        ".venv/bin/python -m pip install -q -e '.[test]'\n"
    )

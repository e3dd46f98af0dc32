"""Borders of the ledger's packages: who imports whom, and no float near money."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import gateway
from gateway.extension import find_extras
from tests.support.rows import each_row

ROOT = Path(gateway.__file__).parent
DATABASES = [ROOT / f"extras/{name}" for name, one in find_extras().items() if one.databases]
"""Extras that keep ledgers."""
LEDGERS = [ROOT / "ledger", *DATABASES]
PART = re.compile(r"^class \w+\((?:\w+Book|Part)\):", re.MULTILINE)
BOOKS = sorted(
    {
        path.parent
        for path in ROOT.glob("extras/*/*.py")
        if PART.search(path.read_text("utf-8")) and path.parent not in DATABASES
    }
)
"""Extras that have parts of the books. The modules of these may use SQL."""
STATEMENTS = {*ROOT.glob("extras/reports/filters.py"), *ROOT.glob("extras/reports/sums.py")}
"""Modules of statements beside the parts that run them."""
OUTSIDE = [
    path
    for path in sorted(ROOT.rglob("*.py"))
    if path not in {ROOT / "__init__.py", ROOT / "extension.py", *STATEMENTS}
    and not any(one in path.parents for one in LEDGERS)
    and not (path.parent in BOOKS and PART.search(path.read_text("utf-8")))
]
"""Without the map of the package, which names modules of all folders, and types that extras are given."""
SQL = re.compile(
    r"sqlite|\bPRAGMA\b|\bINSERT\s+(OR\s+\w+\s+)?INTO\b|\bDELETE\s+FROM\b"
    r"|\b(CREATE|ALTER|DROP)\s+(TABLE|INDEX|TRIGGER|VIEW)\b|\bBEGIN\s+IMMEDIATE\b"
    r"|\bSELECT\b[^;]+?\bFROM\b|\bUPDATE\b[^;]+?\bSET\b"
)


INNER = re.compile(
    r"from gateway\.ledger\.(serving|sql|sqlite)\b"
    r"(?!\.books import Books\b|\.database import Database\n|\.ledger import)"
)
"""Modules that tell how a ledger is kept; the two contracts are among them."""


def test_other_folders_name_no_inner_module_and_no_sql() -> None:
    for path in OUTSIDE:
        text = path.read_text(encoding="utf-8")
        assert INNER.search(text) is None, path
        assert SQL.search(text) is None, path


def test_a_driver_stays_in_its_folder() -> None:
    """It is an extra: a gateway without it must start."""
    named = {
        path.parent
        for path in sorted(ROOT.rglob("*.py"))
        if re.search(r"^\s*(from|import) psycopg\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert named == set(DATABASES)


def test_sql_lies_beside_the_ledger() -> None:
    folders = {path.parent for path in OUTSIDE} - set(BOOKS)
    assert [folder for folder in folders if list(folder.glob("*.sql"))] == []


@each_row("path", [ROOT / "ledger/base.py", *sorted((ROOT / "ledger/serving").glob("*.py"))])
def test_the_contract_knows_no_implementation(path: Path) -> None:
    imported = re.findall(r"^(?:from|import) (\S+)", path.read_text("utf-8"), re.MULTILINE)
    inner = ("gateway.ledger.sql", "gateway.extras", "sqlite3")
    assert [name for name in imported if name.startswith(inner)] == []


def is_money(extra: Path) -> bool:
    """Say whether an audit has to look at an extra's tables, too."""
    return (extra / "proof.sql").exists()


PACKAGE = Path(gateway.__file__).parent
FILES = sorted(
    {
        *(path for one in (*LEDGERS, *filter(is_money, BOOKS)) for path in one.rglob("*.py")),
        *PACKAGE.glob("extras/price_lists/*.py"),
        *STATEMENTS,
        *(
            path
            for one in BOOKS
            for path in one.glob("*.py")
            if PART.search(path.read_text("utf-8"))
        ),
        *(PACKAGE / name for name in ("base/money.py", "base/usage.py")),
    }
)


def find_floats(source: str) -> list[str]:
    """Where a float is written, made or divided; time-outs, named `*_SECONDS`, are none of it."""
    tree = ast.parse(source)
    timings = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        and isinstance(node.target, ast.Name)
        and node.target.id.endswith("_SECONDS")
    }
    return [
        f"line {node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(tree)
        if isinstance(node, ast.expr | ast.AugAssign) and id(node) not in timings and is_float(node)
    ]


def is_float(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=float()) | ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return True
        case ast.Call(func=ast.Name(id="float" | "round")):
            return True
        case _:
            return False


@pytest.mark.no_cover
@each_row("path", FILES)
def test_no_float_near_money(path: Path) -> None:
    assert find_floats(path.read_text()) == []

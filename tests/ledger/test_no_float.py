"""No float reaches money: neither written, nor made, nor got by a division."""

from __future__ import annotations

import ast
from pathlib import Path

import gateway
from tests.support.rows import each_row

PACKAGE = Path(gateway.__file__).parent
FILES = sorted(
    [
        *(PACKAGE / "ledger").rglob("*.py"),
        *(PACKAGE / "price_lists").rglob("*.py"),
        *(PACKAGE / name for name in ("money.py", "usage.py", "admin/accounts.py")),
    ]
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


@each_row("path", FILES)
def test_no_float_near_money(path: Path) -> None:
    assert find_floats(path.read_text()) == []


@each_row("source", ["x = 1.5", "x = y / 2", "x /= 2", "f(float(x))", "round(x)"])
def test_a_float_would_be_found(source: str) -> None:
    assert len(find_floats(source)) == 1

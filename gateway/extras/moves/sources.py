"""Reads and parses files of other gateways, and reads strings and numbers from their values of any type.

Fractions stay decimal: floats would change the last digits of prices.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gateway.base.money import MILLION
from gateway.extension import find_advice
from gateway.extras.packages.install import tell_install
from gateway.ledger.records import NotFound, Refused

Json = Mapping[str, Any]

MAX_BYTES: Final = 16 << 20
"""Bytes of a file of settings or keys: more than all keys that are taken at once need, with their terms."""


def read_file(file: Path) -> str:
    """Read a file of settings. Raises NotFound, Refused."""
    try:
        with file.open("rb") as opened:
            return decode(opened.read(MAX_BYTES + 1), str(file))
    except FileNotFoundError as error:
        raise NotFound(f"there is no file {file}") from error
    except OSError as error:
        reason = find_advice().find_obstacle(file, os.R_OK) or error.strerror
        raise Refused(f"{file}: cannot be read: {reason}") from error


def decode(raw: bytes, name: str) -> str:
    if len(raw) > MAX_BYTES:
        raise Refused(f"{name}: is larger than {MAX_BYTES} bytes")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(f"{name}: must be UTF-8 text; the byte at {error.start} is not") from error


def parse_json(file: Path, text: str) -> object:
    """Parse JSON, with fractions as Decimal. Raises Refused."""
    try:
        return json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Refused(f"{file}: is not valid JSON") from error


def parse_yaml(file: Path, text: str) -> object:
    try:
        import yaml
    except ImportError as error:
        raise Refused(
            f"{file}: YAML needs PyYAML: {tell_install('yaml')}, or write the file as JSON"
        ) from error
    try:
        # YAML's floats and dates are read as strings, so that amounts keep their digits.
        texts = (":float", ":timestamp")
        resolvers = {
            first: [(tag, one) for tag, one in found if not tag.endswith(texts)]
            for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }
        loader = type("Loader", (yaml.SafeLoader,), {"yaml_implicit_resolvers": resolvers})
        return yaml.load(text, loader)  # noqa: S506 - a SafeLoader
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark else ""
        raise Refused(f"{file}: is not valid YAML{where}") from error


def read_table(value: object) -> Json:
    return value if isinstance(value, dict) else MappingProxyType({})


def read_decimal(value: object, below: int = MILLION) -> Decimal | None:
    """Read an amount of another gateway's settings; None if it is no plain number from 0 to `below`."""
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        return None
    try:
        number = Decimal(str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() and 0 <= number < below else None


def read_text(value: object) -> str:
    """Return a string, or a number as a string; "" for any other value."""
    if isinstance(value, bool) or not isinstance(value, str | int | Decimal):
        return ""
    return str(value)

"""Opens a published price list, and recognises its format by its content."""

from __future__ import annotations

import json
import os
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Final, NoReturn

from gateway.extension import find_advice
from gateway.extras.price_lists.entries import PriceListError
from gateway.extras.price_lists.genai import GenaiPrices
from gateway.extras.price_lists.litellm import PROVIDER, LitellmPrices
from gateway.ledger.records import NotFound

PriceFile = GenaiPrices | LitellmPrices
MAX_BYTES: Final = 64 * 2**20
"""The most bytes of a list: forty times as many as today's."""


def open_list(path: Path, today: date) -> PriceFile:
    """Read a list; `today` chooses among prices that begin on a date.

    Raises:
        NotFound: there is no such file.
        PriceListError: it cannot be read, or its format is not known.
    """
    raw = _parse(path)
    if isinstance(raw, dict) and isinstance(providers := raw.get("providers"), list):
        raw = providers  # as genai-prices has it since version 3
    if isinstance(raw, list) and any(isinstance(one, dict) and "models" in one for one in raw):
        return GenaiPrices(str(path), raw, today)
    if isinstance(raw, dict) and any(
        isinstance(one, dict) and PROVIDER in one for one in raw.values()
    ):
        return LitellmPrices(str(path), raw)
    raise PriceListError(
        f"{path}: is JSON, but no price list that is known here: neither genai-prices' (an array of"
        f' providers with "models") nor LiteLLM\'s (a table of models with "{PROVIDER}")'
    )


def _parse(path: Path) -> object:
    """Parse JSON, with fractions as Decimal."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise PriceListError(f"{path}: is larger than {MAX_BYTES} bytes; is it a price list?")
        # A downloaded list may begin with a byte order mark.
        text = path.read_text(encoding="utf-8-sig")
        # Python's parser takes NaN and Infinity, which are no JSON and no prices.
        parsed: object = json.loads(text, parse_float=Decimal, parse_constant=_refuse_constant)
    except FileNotFoundError as error:
        raise NotFound(
            f"{path}: there is no such file; download a price list and name it"
        ) from error
    except OSError as error:
        reason = find_advice().find_obstacle(path, os.R_OK) or error.strerror
        raise PriceListError(f"{path}: cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise PriceListError(
            f"{path}: must be UTF-8 text; the byte at {error.start} is not"
        ) from error
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise PriceListError(f"{path}: is not valid JSON at {where}: {error.msg}") from error
    except RecursionError as error:
        raise PriceListError(f"{path}: is not valid JSON: nested too deeply") from error
    except (ValueError, ArithmeticError) as error:
        raise PriceListError(f"{path}: is not valid JSON: it has a malformed number") from error
    return parsed


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(name)

"""Price lists: their formats, what is wrong with one, and the entry of a route."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.money import NANO
from gateway.config.reader import ConfigError
from gateway.config.settings import MAX_PRICE
from gateway.extras.price_lists.entries import HOSTS, PriceListError, find_names, read_amount
from gateway.extras.price_lists.lists import MAX_BYTES, open_list
from gateway.ledger.records import NotFound
from tests.extras.price_lists.kit import TODAY, genai, litellm, write
from tests.support.rows import each_row


@given(st.integers(0, MAX_PRICE * NANO))
def test_a_price_per_token_is_a_price_per_million(nano: int) -> None:
    assert read_amount(Decimal(nano).scaleb(-15), "x", power=6) == nano


@each_row(
    "value",
    [
        *(None, True, "1", 1.5, [], Decimal(-1), -1, MAX_PRICE + 1, Decimal("1e999999999")),
        *(10**70, Decimal("NaN"), Decimal("Infinity")),
    ],
)
def test_what_is_no_price_is_refused(value: object) -> None:
    with pytest.raises(PriceListError, match=r"^here: must be a (number|price from 0 to 1000000)"):
        read_amount(value, "here")


def test_hosts_are_hosts() -> None:
    assert all(find_names(f"https://{host}/v1") == names for host, names in HOSTS.items())


@each_row(
    ("text", "format_"),
    [
        (genai({"m": {"input_mtok": 1}}), "genai"),
        ('{"units": {}, "providers": ' + genai({"m": {"input_mtok": 1}}) + "}", "genai"),
        ("\ufeff" + litellm({"m": {"input_cost_per_token": 1e-6}}), "litellm"),
    ],
)
def test_the_format_is_recognised(tmp_path: Path, text: str, format_: str) -> None:
    found = open_list(write(tmp_path, text), TODAY)
    assert found.format == format_
    entry = found.find("openai", "m")
    assert entry is not None
    assert entry.amounts == {"input": 10**9}


@each_row(
    ("content", "problem"),
    [
        (b'[\n{"id": }]', "is not valid JSON at line 2, column 8: Expecting value"),
        (b"", "is not valid JSON at line 1, column 1: Expecting value"),
        (b'["\xff"]', "must be UTF-8 text; the byte at 2 is not"),
        (b"[" * 10**6, "is not valid JSON: nested too deeply"),
        (b'[{"models": NaN}]', "is not valid JSON: it has a malformed number"),
        (b"[" + b"9" * 5000 + b"]", "is not valid JSON: it has a malformed number"),
        (b"[]", "is JSON, but no price list that is known here"),
        (b"{}", "is JSON, but no price list that is known here"),
        (b"3", "is JSON, but no price list that is known here"),
        (b'{"data": [{"id": "m", "pricing": {}}]}', "is JSON, but no price list that is known"),
    ],
)
def test_a_file_that_is_none_is_named(tmp_path: Path, content: bytes, problem: str) -> None:
    path = tmp_path / "list.json"
    path.write_bytes(content)
    with pytest.raises(PriceListError) as caught:
        open_list(path, TODAY)
    assert str(caught.value).startswith(f"{path}: {problem}")
    assert isinstance(caught.value, ConfigError)


def test_a_folder_and_a_huge_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PriceListError, match="cannot be read: "):
        open_list(tmp_path, TODAY)
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(MAX_BYTES + 1)
    with pytest.raises(PriceListError, match=f"is larger than {MAX_BYTES} bytes"):
        open_list(huge, TODAY)
    with pytest.raises(NotFound):
        open_list(tmp_path / "missing", TODAY)

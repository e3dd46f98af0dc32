"""Recordings that many send at once cost less than one too much, whatever their heads say; the prices of audio."""

from __future__ import annotations

import random
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from gateway.base.money import Tokens, compute_cost_nano, format_amount
from gateway.base.prices import PriceList
from gateway.config.prices import find_minute_nano
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, InputUnit, Payload
from gateway.extras.audio.uploads import KeptFile
from tests.api.test_overspend import DEAREST, draw_balances, make_reader, play_crowd, read_call
from tests.support.rows import each_row
from tests.support.settings import OPENAI, load


@each_row("nano", [6_000_000, 6_700_000, 1_850_000, 1, 59, 61, 12_345_678_901])
def test_a_second_costs_a_sixtieth_of_a_minute_exactly(tmp_path: Path, nano: int) -> None:
    table = f'kind = "audio"\nroutes = ["openai/e"]\nprice = {{ minute = {format_amount(nano)} }}'
    model = load(tmp_path, f'{OPENAI}[models."ear"]\n{table}\n').models["ear"]
    price = model.prices.base
    assert (model.unit, find_minute_nano(price)) == ("second", nano)
    for seconds in (1, 7, 59, 60, 61, 599, 3601, 14_399):
        assert compute_cost_nano(Tokens(seconds), price) == -(-nano * seconds // 60)


def read_recording(head: bytes, size: int, model: Model) -> tuple[CompletionRequest, Payload]:
    request, payload = read_call("transcripts", {}, model)
    KeptFile.add_to(cast("Any", SimpleNamespace(head=head, size=size)), request, model.unit)
    return request, payload


def make_wave(channels: int, samples: int, bits: int) -> bytes:
    told = struct.pack("<HHIIHH", 1, channels, samples, 0, 0, bits)
    return b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0" + told + b"data" + bytes(20)


FLAC: Final = b"fLaC\0\0\0\x22" + bytes(56)
WAVES: Final = [(1, 2**31, 16), (65_535, 16_000, 16), (1, 16_000, 65_528)]
HEADS: Final = [FLAC, b"OggS", b"\x1aE\xdf\xa3", b"ID3", *(make_wave(*one) for one in WAVES)]


@each_row(("head", "unit"), [(head, unit) for head in HEADS for unit in ("second", "token")])
def test_a_crowd_of_recordings_costs_less_than_one_too_much(head: bytes, unit: InputUnit) -> None:
    model = make_reader(unit, PriceList(DEAREST))
    for balance_nano in draw_balances():
        request, payload = read_recording(head, random.randrange(1, 2**25), model)
        play_crowd(request, payload, model, balance_nano, is_text=False)

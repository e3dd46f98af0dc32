"""Ids, moments and addresses."""

from __future__ import annotations

import hashlib
import random
import re
import zlib
from datetime import UTC, datetime, timedelta, timezone
from typing import Final

from gateway.addresses import join_address, make_local_url, make_origin, make_tunnel_command
from gateway.ids import (
    ALPHABET,
    PREFIX,
    _checksum,
    digest,
    find_first_id,
    find_last4,
    is_request_id,
    is_well_formed,
    make_key,
    make_request_id,
)
from gateway.times import DAY_MS, format_day, format_hour, format_iso, format_moment, to_unix_ms
from tests.support.rows import each_row

ONE_MORE = " _-é\x00\n"
"""Characters outside the alphabet that a paste may bring."""


def test_keys_are_well_formed_and_never_the_same() -> None:
    keys = {make_key() for _ in range(500)}
    assert len(keys) == 500
    assert all(is_well_formed(key) for key in keys)
    assert all(re.fullmatch(r"sk-ru-[0-9A-Za-z]{38}", key) for key in keys)


def test_every_character_of_the_alphabet_is_drawn() -> None:
    drawn = {letter for _ in range(200) for letter in make_key()[len(PREFIX) : -6]}
    assert drawn == set(ALPHABET)
    assert len(ALPHABET) == len(set(ALPHABET)) == 62


def test_checksum_is_the_crc32_of_what_precedes() -> None:
    """Worked out here, so that other programs can check keys by the same description."""
    body = "sk-ru-" + "0" * 32
    number, digits = zlib.crc32(body.encode()), ""
    for _ in range(6):
        number, rest = divmod(number, 62)
        digits = ALPHABET[rest] + digits
    assert is_well_formed(body + digits)
    assert ALPHABET.startswith("0123456789ABC")
    for other in ("sk-xx-" + "0" * 32, "sk-ru-" + "0" * 31, "sk-ru-" + "_" * 32):
        assert not is_well_formed(other + _checksum(other))


@each_row("number", range(3))
def test_any_changed_character_is_refused(number: int) -> None:
    key = make_key()
    print("key of this run:", number, key)
    for position, old in enumerate(key):
        for new in ALPHABET + ONE_MORE:
            changed = key[:position] + new + key[position + 1 :]
            assert is_well_formed(changed) == (new == old), changed


def test_any_dropped_doubled_or_swapped_character_is_refused() -> None:
    key = make_key()
    print("key of this run:", key)
    for at in range(len(key)):
        assert not is_well_formed(key[:at] + key[at + 1 :])
        assert not is_well_formed(key[: at + 1] + key[at:])
        swapped = key[:at] + key[at : at + 2][::-1] + key[at + 2 :]
        assert is_well_formed(swapped) == (swapped == key)


def test_made_up_keys_are_refused() -> None:
    seed = random.randrange(2**32)
    print("seed:", seed)
    dice = random.Random(seed)
    made_up = [PREFIX + "".join(dice.choices(ALPHABET, k=38)) for _ in range(2000)]
    assert not any(is_well_formed(key) for key in made_up)


@each_row("text", ["", "sk-ru-", "x", "sk-ru-" + "0" * 38, "\ud800", "sk-ru-" * 8000])
def test_what_is_no_key_is_refused(text: str) -> None:
    assert not is_well_formed(text)


@each_row("wrap", [" {}", "{} ", "{}\n", "Bearer {}", '"{}"', "{}\x00"])
def test_a_key_with_anything_around_it_is_refused(wrap: str) -> None:
    assert not is_well_formed(wrap.format(make_key()))


def test_digest_is_the_sha256_of_the_key() -> None:
    key = make_key()
    assert digest(key) == hashlib.sha256(key.encode()).digest()
    assert len(digest(key)) == 32


def test_any_text_has_a_digest_of_its_own() -> None:
    """A key is looked up before anyone looks at its format."""
    texts = ("", "\ud800", "\udc80", "é", "\x00", "x" * 10**6)
    assert len({digest(text) for text in texts}) == len(texts)


@each_row(("secret", "shown"), [("", None), ("x" * 11 + "last", None), ("x" * 12 + "last", "last")])
def test_of_a_short_secret_nothing_is_shown(secret: str, shown: str | None) -> None:
    assert find_last4(secret) == shown


NOW_MS = 1_790_000_000_000


def test_ids_sort_by_time_and_never_repeat() -> None:
    ids = [make_request_id(NOW_MS + n // 100) for n in range(300)]
    assert len(set(ids)) == 300
    assert all(is_request_id(one) for one in ids)
    assert max(ids[:100]) < find_first_id(NOW_MS + 1) <= min(ids[100:])


@each_row(
    "text",
    ["", "req_", "req_1", f"req_{'0' * 27}", f"req_{'0' * 29}", f"req_{'g' * 28}",
     f"REQ_{'0' * 28}", f"req_{'0' * 28}\n", f" req_{'0' * 28}", f"req_{'٠' * 28}"],
)  # fmt: skip
def test_other_texts_are_no_ids(text: str) -> None:
    assert not is_request_id(text)


MOMENT_MS = 1_700_000_000_001


def test_a_moment_for_tools_is_utc_to_the_millisecond() -> None:
    assert format_iso(MOMENT_MS) == "2023-11-14T22:13:20.001Z"
    assert format_iso(None) is None


def test_a_moment_for_people_is_utc_to_the_minute() -> None:
    assert format_moment(MOMENT_MS) == "2023-11-14 22:13"


def test_days_and_hours_are_counted_from_the_epoch() -> None:
    assert format_day(0) == "1970-01-01"
    assert format_day(MOMENT_MS // DAY_MS) == "2023-11-14"
    assert format_day(-719_162) == "0001-01-01"
    assert format_hour(25) == "1970-01-02T01:00:00.000Z"


def test_a_date_is_a_whole_number_of_milliseconds_whatever_its_offset() -> None:
    """Rounded down, on both sides of the epoch: no float is in between."""
    east = timezone(timedelta(hours=2))
    assert to_unix_ms(datetime(1970, 1, 1, 2, 0, 0, 1999, tzinfo=east)) == 1
    assert to_unix_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1


@each_row(
    ("host", "port", "address", "origin"),
    [
        ("127.0.0.1", 8080, "127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("llm.example.com", 80, "llm.example.com:80", "http://llm.example.com"),
        ("::1", 8080, "[::1]:8080", "http://[::1]:8080"),
        ("::1", 80, "[::1]:80", "http://[::1]"),
    ],
)
def test_an_origin_leaves_out_the_port_that_browsers_leave_out(
    host: str, port: int, address: str, origin: str
) -> None:
    assert (join_address(host, port), make_origin(host, port)) == (address, origin)


@each_row(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:1"),
        ("::", "http://[::1]:1"),
        ("192.0.2.1", "http://192.0.2.1:1"),
    ],
)
def test_an_address_that_stands_for_all_is_reached_at_the_loopback(host: str, url: str) -> None:
    assert make_local_url(host, 1) == url


REACHED: Final = {"SSH_CONNECTION": "198.51.100.1 50000 203.0.113.5 22", "USER": "root"}


@each_row(
    ("host", "environ", "command"),
    [
        ("127.0.0.1", REACHED, "ssh -L 8080:127.0.0.1:8080 root@203.0.113.5"),
        ("::1", REACHED, "ssh -L 8080:[::1]:8080 root@203.0.113.5"),
        ("localhost", {}, "ssh -L 8080:localhost:8080 USER@SERVER"),
        (
            "127.0.0.1",
            {"SSH_CONNECTION": "2001:db8::1 50000 2001:db8::2 2222"},
            "ssh -p 2222 -L 8080:127.0.0.1:8080 USER@2001:db8::2",
        ),
        ("127.0.0.1", {"SSH_CONNECTION": "odd"}, "ssh -L 8080:127.0.0.1:8080 USER@SERVER"),
        ("0.0.0.0", REACHED, None),
        ("llm.example.com", REACHED, None),
    ],
)
def test_a_loopback_address_is_reached_by_a_tunnel(
    host: str, environ: dict[str, str], command: str | None
) -> None:
    assert make_tunnel_command(host, 8080, environ) == command

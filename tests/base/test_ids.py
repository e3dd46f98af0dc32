"""Ids, moments and addresses."""

from __future__ import annotations

import hashlib
import re
import zlib
from datetime import UTC, datetime, timedelta, timezone

from gateway.base.ids import (
    ALPHABET,
    PREFIX,
    _checksum,
    digest,
    find_first_id,
    is_request_id,
    is_well_formed,
    make_key,
    make_request_id,
)
from gateway.base.times import to_unix_ms

ONE_MORE = " _-é\x00\n"
"""Characters outside the alphabet that a paste may bring."""


def test_keys_are_well_formed_and_never_the_same_and_every_character_is_drawn() -> None:
    keys = {make_key() for _ in range(500)}
    assert len(keys) == 500
    assert all(is_well_formed(key) for key in keys)
    assert all(re.fullmatch(r"sk-ru-[0-9A-Za-z]{38}", key) for key in keys)
    assert {letter for key in keys for letter in key[len(PREFIX) : -6]} == set(ALPHABET)
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


def test_any_changed_dropped_doubled_or_swapped_character_is_refused() -> None:
    key = make_key()
    print("key of this run:", key)
    for at, old in enumerate(key):
        for new in ALPHABET + ONE_MORE:
            changed = key[:at] + new + key[at + 1 :]
            assert is_well_formed(changed) == (new == old), changed
        assert not is_well_formed(key[:at] + key[at + 1 :])
        assert not is_well_formed(key[: at + 1] + key[at:])
        swapped = key[:at] + key[at : at + 2][::-1] + key[at + 2 :]
        assert is_well_formed(swapped) == (swapped == key)


def test_any_text_has_a_digest_of_its_own_by_sha256() -> None:
    """A key is looked up before anyone looks at its format."""
    key = make_key()
    assert digest(key) == hashlib.sha256(key.encode()).digest()
    texts = ("", "\ud800", "\udc80", "é", "\x00", "x" * 10**6)
    assert len({digest(text) for text in texts}) == len(texts)


NOW_MS = 1_790_000_000_000


def test_ids_sort_by_time_and_never_repeat() -> None:
    ids = [make_request_id(NOW_MS + n // 100) for n in range(300)]
    assert len(set(ids)) == 300
    assert all(is_request_id(one) for one in ids)
    assert max(ids[:100]) < find_first_id(NOW_MS + 1) <= min(ids[100:])


def test_a_date_is_a_whole_number_of_milliseconds_whatever_its_offset() -> None:
    """Rounded down, on both sides of the epoch: no float is in between."""
    east = timezone(timedelta(hours=2))
    assert to_unix_ms(datetime(1970, 1, 1, 2, 0, 0, 1999, tzinfo=east)) == 1
    assert to_unix_ms(datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)) == -1

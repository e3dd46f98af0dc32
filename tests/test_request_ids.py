"""Request ids sort by time, and nothing else passes for one."""

from __future__ import annotations

from gateway.request_ids import find_first_id, is_request_id, make_request_id
from tests.support.rows import each_row

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

"""Forms of the largest size, and larger ones: see tests/test_parsers.py."""

from __future__ import annotations

from functools import partial
from typing import Final

from gateway.base.errors import BadRequest, BodyTooLarge
from gateway.extras.audio import forms

HEAD: Final = b'--b\r\nContent-Disposition: form-data; name="a"'


def read_form(data: bytes) -> None:
    form = forms.FormReader("multipart/form-data; boundary=b")
    form.feed(data)
    file = b'\r\n--b\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n'
    form.feed(b"" if b'"file"' in data else file)
    form.feed(b"\r\n--b--")
    form.dump()


def read_parts(count: int) -> None:
    read_form(b"\r\n".join([HEAD + b"\r\n\r\n"] * (count - 1)))


def read_head(size: int) -> None:
    head = b"\r\nContent-Disposition: form-data; name=a\r\nX: "
    read_form(b"--b" + head + b"x" * (size - len(head)) + b"\r\n\r\n")


def read_parameters(count: int) -> None:
    read_form(HEAD + b";b=c" * (count - 1) + b"\r\nX: a" * (count - 1) + b"\r\n\r\n")


def read_field(size: int, mark: bytes = b"a") -> None:
    read_form(HEAD + b"\r\n\r\n" + mark * size)


FEED: Final = {
    ("extras/audio/forms", "MAX_PARTS"): (forms.MAX_PARTS, read_parts, BadRequest),
    ("extras/audio/forms", "MAX_HEAD_BYTES"): (forms.MAX_HEAD_BYTES, read_head, BadRequest),
    ("extras/audio/forms", "MAX_HEAD_ITEMS"): (forms.MAX_HEAD_ITEMS, read_parameters, BadRequest),
    ("extras/audio/forms", "MAX_FIELD_BYTES"): (forms.MAX_FIELD_BYTES, read_field, BodyTooLarge),
    ("extras/audio/forms", "MAX_DEAR_BYTES"): (
        forms.MAX_DEAR_BYTES,
        partial(read_field, mark=b'"'),
        BodyTooLarge,
    ),
}

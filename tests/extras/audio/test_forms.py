"""Forms: read the same in any slicing, and written so that nobody reads another form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from email.parser import BytesParser
from email.policy import HTTP
from typing import Final

import pytest

from gateway.base.errors import BadRequest
from gateway.extras.audio.forms import FormReader
from gateway.extras.audio.sent_forms import PIECE_BYTES, Form
from tests.support.replies import dumps
from tests.support.rows import each_row

TYPE: Final = 'Multipart/Form-Data; charset=utf-8; boundary="b-1"'
CONTENT: Final = b"\r\n--b\r\n--b-\r\n\r\n--b-2\r\r\n-" * 3
BODY: Final = (
    b'--b-1\r\ncontent-disposition: FORM-data; filename="x"; NAME=file\r\ncontent-type: audio/wav\r\n\r\n'
    + CONTENT
    + b'\r\n--b-1\r\nContent-Disposition: form-data; name="model"\r\n\r\nm\xc3\xb6\r\n'
    + b'--b-1\r\nContent-Disposition: form-data; name="a[]"\r\n\r\n\r\n'
    + b'--b-1\r\nX-Y: z\r\nContent-Disposition: form-data; name="b"\r\n\r\n1\r\n'
    + b'--b-1\r\nContent-Disposition: form-data; name="b"\r\nContent-Transfer-Encoding: binary\r\n\r\n2\r\n'
    + b"--b-1--\r\nwhatever --b-1"
)


def read(body: bytes, size: int = 10**6) -> tuple[FormReader, bytes]:
    form, content = FormReader(TYPE), b""
    for at in range(0, len(body), size):
        content += form.feed(body[at : at + size])
    return form, content


@each_row("size", [1, 2, 3, 5, 7, 11, 64, 10**6])
def test_a_form_is_read_in_any_slicing(size: int) -> None:
    form, content = read(BODY, size)
    assert content == CONTENT
    assert (form.file_name, form.content_type) == ("x", "audio/wav")
    assert json.loads(form.dump()) == {"model": "mö", "a[]": [""], "b": ["1", "2"]}


@each_row(
    ("written", "name"),
    [
        ('filename="a;b=\\"c\\".mp3"', 'a;b="c".mp3'),
        ("filename=a.mp3", "a.mp3"),
        ('filename="a\\\\b"', "a\\b"),
        ("filename*=utf-8''%e2%82%ac%0d%0A.mp3", "€.mp3"),
        ('filename="ä.mp3"', "ä.mp3"),
        ('x="; filename=1"; filename="2"', "2"),
    ],
)
def test_the_name_of_a_file_is_read_as_clients_write_it(written: str, name: str) -> None:
    head = f'--b-1\r\nContent-Disposition: form-data; name="file"; {written}\r\n\r\n'
    form, _ = read(head.encode() + b"a\r\n--b-1--")
    assert form.file_name == name


@each_row("body", [BODY[:-1][: BODY.index(b"--b-1--")], b"--b-1\r\n\xff: x\r\n\r\n"])
def test_what_is_no_form_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read(body)[0].dump()


@dataclass
class Kept:
    content: bytes
    name: str = 'a"\\b.mp3'
    content_type: str = "audio/mpeg"
    head: bytes = b""

    @property
    def size(self) -> int:
        return len(self.content)

    @size.setter
    def size(self, value: int) -> None:
        raise NotImplementedError(value)

    async def read(self, at: int, most: int) -> bytes:
        return self.content[at : at + min(most, 100_000)]


async def test_a_form_can_be_sent_twice_and_has_its_length() -> None:
    content = bytes(range(256)) * (PIECE_BYTES // 100)
    form = Form(dumps({"model": "m", "a[]": ["1", "2"], "prompt": "x\r\n--b"}), Kept(content))
    first = b"".join([piece async for piece in form.read_pieces()])
    assert first == b"".join([piece async for piece in form.read_pieces()])
    assert len(form) == len(first)
    assert form.content_type != Form(b"{}", Kept(b"")).content_type
    head = f"Content-Type: {form.content_type}\r\n\r\n".encode()
    parts = [*BytesParser(policy=HTTP).parsebytes(head + first).iter_parts()]
    assert [one.get_payload(decode=True) for one in parts] == [
        b"m", b"1", b"2", b"x\r\n--b", content,
    ]  # fmt: skip
    assert parts[-1].get_filename() == "a%22\\b.mp3"

"""Where a ledger is: addresses are read, and shown without their passwords."""

from __future__ import annotations

import pytest

from gateway.ledger.locations import DatabaseUrl, read_database_url
from tests.support.rows import each_row
from tests.support.stand_in import PASSWORD, SHOWN, URL


@each_row(
    ("address", "shown"),
    [
        (URL, SHOWN),
        ("postgres://keeper@db/books", "postgresql://keeper@db/books"),
        ("postgresql://db.example.com", "postgresql://db.example.com"),
        ("postgresql:///books?host=/run/postgresql", "postgresql:///books"),
        ("postgresql://%2Frun%2Fpostgresql/books", "postgresql://%2Frun%2Fpostgresql/books"),
        (f"postgresql://a:{PASSWORD}@[::1]:5432/b", "postgresql://a@[::1]:5432/b"),
        (f"postgresql://a:%40{PASSWORD}==@one:1,two:2/b", "postgresql://a@one:1,two:2/b"),
        (f"postgresql://a@h/b?password={PASSWORD}&port=1", "postgresql://a@h/b"),
        (f"postgresql://:{PASSWORD}@h/b", "postgresql://@h/b"),
    ],
)
def test_an_address_is_shown_without_its_password(address: str, shown: str) -> None:
    url = read_database_url(address)
    assert url == DatabaseUrl(address)
    assert str(url) == f"{url}" == shown
    assert PASSWORD not in repr(url)


@each_row(
    ("address", "rule"),
    [
        (PASSWORD, "must begin with postgresql://"),
        (f"mysql://a:{PASSWORD}@h/b", "must begin with postgresql://"),
        (f"host=h password={PASSWORD}", "must begin with postgresql://"),
        (f"postgresql://a:{PASSWORD}", "such as %40 for @"),  # not a port
        (f"postgresql://a:{PASSWORD}@x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}/x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}?x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}#x@h/b", "such as %40 for @"),
        (f"postgresql://a:{PASSWORD}%x@h/b", "such as %40 for @"),  # libpq would repeat it
        (f"postgresql://a:{PASSWORD}%00@h/b", "such as %40 for @"),
        (f"postgresql://h/b?{PASSWORD}", "such as %40 for @"),
        (f"postgresql://h/b?password={PASSWORD}=", "such as %40 for @"),
        (f"postgresql://h:5432x{PASSWORD}/b", "such as %40 for @"),
    ],
)
def test_what_is_no_address_is_refused_and_never_repeated(address: str, rule: str) -> None:
    with pytest.raises(ValueError, match=rule) as caught:
        read_database_url(address)
    assert PASSWORD not in str(caught.value)
    assert PASSWORD not in f"{DatabaseUrl(address)} {DatabaseUrl(address)!r}"

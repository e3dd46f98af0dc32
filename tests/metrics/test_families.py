"""Families of metrics as text: read back by Prometheus's own parser's rules, number by number."""

from __future__ import annotations

from gateway.metrics.families import Counter, Histogram, Name, format_number, render_gauge


def text(family: Counter | Histogram) -> str:
    return "".join(family.freeze()())


def test_a_counter_has_a_series_for_each_labels() -> None:
    family = Counter("gateway_x_total", "What x is", ("model", "status"))
    family.add(("a", "200"))
    family.add(("a", "200"), 2**70)
    family.add(('quo"te\\ and\nline', "-"))
    assert text(family) == (
        "# HELP gateway_x_total What x is\n"
        "# TYPE gateway_x_total counter\n"
        f'gateway_x_total{{model="a",status="200"}} {2**70 + 1}\n'
        'gateway_x_total{model="quo\\"te\\\\ and\\nline",status="-"} 1\n'
    )


def test_buckets_are_cumulative_and_include_their_bound() -> None:
    family = Histogram("gateway_s_seconds", "How long", (0.5, 1, 2.5), ("way",))
    for value in (0.25, 0.5, 0.75, 2.5, 100):
        family.observe(("up",), value)
    assert text(family).splitlines()[2:] == [
        'gateway_s_seconds_bucket{way="up",le="0.5"} 2',
        'gateway_s_seconds_bucket{way="up",le="1"} 3',
        'gateway_s_seconds_bucket{way="up",le="2.5"} 4',
        'gateway_s_seconds_bucket{way="up",le="+Inf"} 5',
        'gateway_s_seconds_sum{way="up"} 104',
        'gateway_s_seconds_count{way="up"} 5',
    ]


def test_a_family_without_labels_has_no_braces() -> None:
    family = Histogram("gateway_s_seconds", "How long", (1,))
    family.observe((), 0.5)
    assert text(family).splitlines()[2:] == [
        'gateway_s_seconds_bucket{le="1"} 1',
        'gateway_s_seconds_bucket{le="+Inf"} 1',
        "gateway_s_seconds_sum 0.5",
        "gateway_s_seconds_count 1",
    ]
    gauge = render_gauge(Name("gateway_g", (), "How many"), {(): 7})
    assert list(gauge)[1:] == ["# TYPE gateway_g gauge\n", "gateway_g 7\n"]


def test_what_is_frozen_does_not_change() -> None:
    """The text is made in another thread while requests go on."""
    counter, histogram = Counter("a", "b"), Histogram("c", "d", (1,))
    counter.add(())
    histogram.observe((), 1)
    frozen = counter.freeze(), histogram.freeze()
    counter.add(())
    histogram.observe((), 1)
    assert "a 1\n" in "".join(frozen[0]())
    assert "c_count 1\n" in "".join(frozen[1]())


def test_numbers_are_exact() -> None:
    assert [format_number(one) for one in (0, 2**63, 0.0005, 2.0, 1e-9, 123456.75)] == [
        "0", "9223372036854775808", "0.0005", "2", "1e-09", "123456.75",
    ]  # fmt: skip

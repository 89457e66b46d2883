from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piper.costs.units import format_bytes, format_count, format_seconds, parse_bytes
from piper.errors import InputError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("123", 123),
        ("0", 0),
        ("8GiB", 8 * 2**30),
        ("80GB", 80 * 10**9),
        ("80 gb", 80 * 10**9),
        (" 1.5KiB ", 1536),
        ("25gib", 25 * 2**30),
        ("7B", 7),
        ("0.1MB", 100_000),
        ("2TiB", 2**41),
    ],
)
def test_sizes_are_understood(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "-1",
        "-8GiB",
        "GiB",
        "8G",
        "8GiBs",
        "nan",
        "inf",
        "1e9",
        "0x10",
        "8,5GB",
        "8 Gi B",
        "٣GB",
        "1_0",
        "8GiB\n8",
    ],
)
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="is no size"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["9" * 20, "9300PB", "8192PiB"])
def test_too_large_sizes_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="too large"):
        parse_bytes(text)


@given(st.text(max_size=200))
def test_any_text_is_a_size_or_refused_in_one_line(text: str) -> None:
    try:
        size, message = parse_bytes(text), ""
    except InputError as error:
        size, message = 0, str(error)
    assert size >= 0
    assert not message or message.isprintable()
    assert len(message) < 400


@given(st.integers(0, 2**62))
def test_plain_bytes_stay(size: int) -> None:
    assert parse_bytes(str(size)) == size


@given(st.integers(0, 2**60))
def test_formatted_sizes_are_read_back_to_three_digits(size: int) -> None:
    assert parse_bytes(format_bytes(size)) == pytest.approx(size, rel=0.006)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1 KiB"),
        (1536, "1.5 KiB"),
        (80 * 2**30, "80 GiB"),
        (75.234 * 2**30, "75.2 GiB"),
        (-2048, "-2 KiB"),
    ],
)
def test_sizes_have_three_digits(size: float, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (12.345, "12.3 s"),
        (1, "1 s"),
        (0.99999, "1 s"),
        (0.0123, "12.3 ms"),
        (0.00099999, "1 ms"),
        (4e-6, "4 µs"),
        (5e-10, "0.5 ns"),
    ],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(("count", "text"), [(7, "7"), (174.6e9, "175 G"), (999.7e9, "1 T"), (8.03e9, "8.03 G")])
def test_counts_have_three_digits(count: float, text: str) -> None:
    assert format_count(count) == text

"""Addresses of other servers."""

import pytest

from headwater.server.cluster.addresses import HOST_CHARS_MAX, joined_address, parsed_address

LONGEST = "h" * HOST_CHARS_MAX


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("h", 6222, "h:6222"),
        ("::1", 6222, "[::1]:6222"),
        ("fe80::1%eth0", 0, "[fe80::1%eth0]:0"),
        (LONGEST, 65_535, f"{LONGEST}:65535"),
    ],
)
def test_an_address_comes_back_as_it_was(host: str, port: int, text: str) -> None:
    assert joined_address(host, port) == text
    assert parsed_address(text) == (host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nowhere",
        ":1",
        "h:",
        "h:port",
        "h:-1",
        "h:65536",
        "h:\N{SUPERSCRIPT TWO}",
        "h:" + "9" * 5_000,
        "a b:1",
        "a\0:1",
        "[[::1]]:1",
        f"{LONGEST}h:1",
    ],
)
def test_a_text_that_nobody_can_connect_to_is_no_address(text: str) -> None:
    assert parsed_address(text) is None

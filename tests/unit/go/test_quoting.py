"""Text in double quotes, as Go's %q writes it: error texts and log lines are compared with it."""

import pytest

from headwater.go.quoting import quote, quote_bytes


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (b"foo", '"foo"'),
        (b'say "hi"', r'"say \"hi\""'),
        (b"back\\slash", r'"back\\slash"'),
        ("café".encode(), '"café"'),
        (b"\xff\xfe", r'"\xff\xfe"'),
        (b"a\x00\x01\x7fb", r'"a\x00\x01\x7fb"'),
        (b"\t\n\r\x0b\x0c\x07\x08", r'"\t\n\r\v\f\a\b"'),
        ("\u200b".encode(), r'"\u200b"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
        ("\u00a0".encode(), r'"\u00a0"'),
        (b"\xe2\x82", r'"\xe2\x82"'),
        (b"it's", '"it\'s"'),
    ],
)
def test_what_a_client_sent_is_quoted_as_go_does(text: bytes, written: str) -> None:
    assert quote_bytes(text) == written


@pytest.mark.parametrize(
    "text", ["", "foo", 'a"b', "back\\slash", "tab\t", "\x00", "\u200b", "caf\u00e9", "\ufeff"]
)
def test_text_and_its_bytes_are_quoted_alike(text: str) -> None:
    assert quote(text) == quote_bytes(text.encode())

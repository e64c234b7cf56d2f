"""The names that other servers can be told of."""

import pytest

from headwater.raft.membership import NAME_BYTES_MAX
from headwater.server.configuration.server_names import name_fault


@pytest.mark.parametrize("name", ["", "s1", "bücher-1.Ω", "n" * NAME_BYTES_MAX])
def test_a_name_that_breaks_no_rule(name: str) -> None:
    assert name_fault(name) == ""


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("n" * (NAME_BYTES_MAX + 1), "is longer than 255 bytes"),
        ("ü" * 128, "is longer than 255 bytes"),
        ("a b", "has a blank or a control character"),
        ("a\nb", "has a blank or a control character"),
        ("a\x1b", "has a blank or a control character"),
    ],
)
def test_a_name_that_other_servers_refuse(name: str, fault: str) -> None:
    assert name_fault(name) == fault

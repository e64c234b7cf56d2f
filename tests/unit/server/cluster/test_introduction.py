"""The introduction of a server: made from its options, and refused where others would refuse it."""

from typing import Any

import msgspec
import pytest

from headwater.server.cluster.introduction import check_introduction, introduction_of
from headwater.server.configuration.options import ClusterOptions, Options
from headwater.wire.peer_frames import MalformedFrame
from headwater.wire.peer_info import LINK_VERSION, PeerInfo

KNOWN = PeerInfo(server_id="N1", server_name="s1", cluster="C", host="h", port=6222)


def introduced(is_lame_duck: bool = False, **cluster: Any) -> PeerInfo:
    options = Options(cluster=ClusterOptions(**{"host": "::", **cluster}))
    return introduction_of("N1", "s1", "C", False, 6222, is_lame_duck, options, lambda: ("h:4222",))


@pytest.mark.parametrize(
    ("advertise", "host", "port"),
    [
        ("", "::", 6222),
        ("a", "a", 6222),
        ("a:7", "a", 7),
        ("[::1]", "::1", 6222),
        ("[::1]:7", "::1", 7),
    ],
)
def test_the_advertised_address_is_told_as_far_as_it_goes(
    advertise: str, host: str, port: int
) -> None:
    info = introduced(advertise=advertise)
    assert (info.host, info.port, info.link) == (host, port, LINK_VERSION)
    check_introduction(info)


def test_clients_are_not_sent_to_a_server_that_hides() -> None:
    assert introduced().connect_urls == ("h:4222",)
    assert introduced(no_advertise=True).connect_urls == ()
    assert introduced(is_lame_duck=True).connect_urls == ()


@pytest.mark.parametrize("fields", [{}, {"host": ""}, {"port": 0}, {"cluster": ""}])
def test_an_introduction_that_others_can_be_told(fields: dict[str, object]) -> None:
    check_introduction(msgspec.structs.replace(KNOWN, **fields))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"server_id": ""}, "no id or no name"),
        ({"server_name": ""}, "no id or no name"),
        ({"server_id": "N" * 256}, "the id of a server is longer than 255 bytes"),
        ({"server_name": "s" * 256}, "the name of a server is longer than 255 bytes"),
        ({"server_name": "s\n[1] [INF] forged"}, "the name of a server has a blank"),
        ({"cluster": "C\r"}, "the cluster name of a server has a blank"),
        ({"host": "a b"}, "no address that others can connect to"),
        ({"host": "a]b"}, "no address that others can connect to"),
        ({"port": -1}, "no address that others can connect to"),
        ({"port": 10**30}, "no address that others can connect to"),
        ({"host": "", "port": 65_536}, "no address that others can connect to"),
    ],
)
def test_an_introduction_that_others_would_refuse(fields: dict[str, object], reason: str) -> None:
    with pytest.raises(MalformedFrame, match=reason):
        check_introduction(msgspec.structs.replace(KNOWN, **fields))

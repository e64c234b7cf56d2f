"""The addresses of the machine that the tests run on."""

import ipaddress

from headwater.runtime.addresses import own_addresses


def test_addresses_are_those_that_other_machines_see() -> None:
    for address in own_addresses():
        found = ipaddress.ip_address(address)
        assert not found.is_loopback
        assert not found.is_unspecified

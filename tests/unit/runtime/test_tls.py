"""Every suite and curve that a configuration may name is one of OpenSSL."""

import ssl

import pytest

from headwater.runtime.tls import CIPHERS, CURVES


@pytest.mark.parametrize("name", CIPHERS)
def test_a_suite_is_known(name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Some of Go's suites are below the level that OpenSSL admits by itself.
    context.set_ciphers(f"{CIPHERS[name]}:@SECLEVEL=0")
    assert CIPHERS[name] in [suite["name"] for suite in context.get_ciphers()]


@pytest.mark.parametrize("name", CURVES)
def test_a_curve_is_known(name: str) -> None:
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(CURVES[name])
    with pytest.raises(ValueError, match="unknown elliptic curve name"):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).set_ecdh_curve(f"{CURVES[name]}x")

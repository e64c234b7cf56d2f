"""Names and fingerprints of certificates; nats-server's own are compared in tests/interop."""

import hashlib
import ssl
from pathlib import Path

import pytest

from headwater.base.errors import PeerError
from headwater.wire.credentials.certificates import (
    alternative_names,
    check,
    key_fingerprint,
    subject_parts,
    summary,
    written_parts,
)
from tests.kit.credentials import Authority
from tests.kit.tls_files import EMAIL, ORGANIZATION, tls_files

CLIENT, ADA = tls_files().certificate("client"), tls_files().certificate("ada")


def test_the_subject_is_written_as_go_writes_it() -> None:
    assert summary(CLIENT).subject == f"CN=client,O={ORGANIZATION}"


def test_the_fingerprint_is_that_of_the_whole_certificate() -> None:
    assert summary(CLIENT).sha256 == hashlib.sha256(CLIENT).hexdigest()


def test_keys_differ_and_so_do_their_fingerprints() -> None:
    assert len({key_fingerprint(CLIENT), key_fingerprint(ADA)}) == 2


def test_names_beside_the_subject() -> None:
    assert list(alternative_names(ADA)) == [EMAIL]
    assert list(alternative_names(CLIENT)) == ["localhost"]


def test_a_certificate_may_have_no_other_names(tmp_path: Path) -> None:
    text = Path(Authority(tmp_path).path).read_text()
    assert list(alternative_names(ssl.PEM_cert_to_DER_cert(text))) == []


def test_the_order_in_which_a_subject_is_written_does_not_matter() -> None:
    assert subject_parts(CLIENT) == written_parts(f"O={ORGANIZATION}, CN=client")
    assert subject_parts(CLIENT) == written_parts(f"CN=client+O={ORGANIZATION}")
    assert subject_parts(CLIENT) != written_parts("CN=client")


def test_a_certificate_that_can_be_read_is_no_error() -> None:
    check(CLIENT)
    check(ADA)


def test_names_that_cannot_be_read_are_an_error_of_the_peer() -> None:
    with pytest.raises(PeerError, match="x509: "):
        check(tls_files().certificate("garbled"))


@pytest.mark.parametrize("position", [*range(0, len(CLIENT), 3)])
def test_a_certificate_with_a_wrong_byte_is_read_or_an_error_of_the_peer(position: int) -> None:
    damaged = bytearray(CLIENT)
    for value in (0x00, 0x30, 0x7F, 0xFF):
        damaged[position] = value
        try:
            check(bytes(damaged))
        except PeerError:
            continue
        summary(bytes(damaged))
        list(alternative_names(bytes(damaged)))
        subject_parts(bytes(damaged))

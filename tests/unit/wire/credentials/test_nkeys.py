"""Seeds, public keys and the files they are in: read as others write them, and never shown."""

import base64

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from headwater.wire.credentials.creds import Credentials, parse_credentials, user_key
from headwater.wire.credentials.nkeys import (
    SEED_CHARS,
    KeyKind,
    KeyPair,
    NkeyError,
    is_public_key,
    is_signed_by,
)
from tests.kit.credentials import checked_base32, creds_text, seed_text, user_seed

SEED = user_seed()
JWT = "eyJ0eXAi.eyJqdGki.c2ln"
SIGNING_KINDS = [kind for kind in KeyKind if kind is not KeyKind.CURVE]
LETTERS = {
    KeyKind.ACCOUNT: "A",
    KeyKind.CLUSTER: "C",
    KeyKind.SERVER: "N",
    KeyKind.OPERATOR: "O",
    KeyKind.USER: "U",
}


def test_a_pair_that_the_documentation_of_nats_prints() -> None:
    seed = "SUACSSL3UAHUDXKFSNVUZRF5UHPMWZ6BFDTJ7M6USDXIEDNPPQYYYCU3VY"
    public = "UDXU4RCSJNZOIQHZNWXHXORDPRTGNJAHAHFRGZNEEJCPQTT2M7NLCNF4"
    assert KeyPair.from_seed(seed).public == public


@pytest.mark.parametrize("kind", SIGNING_KINDS)
def test_the_text_says_whose_key_it_is(kind: KeyKind) -> None:
    seed = seed_text(kind.value, bytes(32))
    pair = KeyPair.from_seed(seed)
    assert len(seed) == SEED_CHARS
    assert seed.startswith("S" + LETTERS[kind])
    assert pair.public.startswith(LETTERS[kind])
    assert pair.kind is kind


@given(st.binary(min_size=32, max_size=32), st.sampled_from(SIGNING_KINDS), st.binary(max_size=64))
def test_what_a_seed_signs_its_public_key_verifies(
    secret: bytes, kind: KeyKind, message: bytes
) -> None:
    pair = KeyPair.from_seed(seed_text(kind.value, secret))
    raw = base64.b32decode(pair.public + "=" * (-len(pair.public) % 8))
    assert checked_base32(raw[:-2]) == pair.public
    public = Ed25519PublicKey.from_public_bytes(raw[1:-2])
    public.verify(pair.sign(message), message)
    with pytest.raises(InvalidSignature):
        public.verify(pair.sign(message), message + b"!")


@given(st.integers(0, SEED_CHARS - 1), st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"))
def test_no_mistyped_character_goes_unnoticed(position: int, letter: str) -> None:
    mistyped = SEED[:position] + letter + SEED[position + 1 :]
    if mistyped == SEED:
        return
    if position == SEED_CHARS - 1:
        # The last character has two bits that nothing uses.
        _ignore_unused_bits(mistyped)
        return
    with pytest.raises(NkeyError):
        KeyPair.from_seed(mistyped)


def _ignore_unused_bits(mistyped: str) -> None:
    try:
        assert KeyPair.from_seed(mistyped).public == KeyPair.from_seed(SEED).public
    except NkeyError:
        pass


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not base32"),
        ("S", "length is wrong"),
        (SEED[:-1], "length is wrong"),
        (SEED[:-2], "checksum is wrong"),
        (SEED[:20] + SEED[21:] + "A", "checksum is wrong"),
        (SEED + "A", "length is wrong"),
        (SEED.lower(), "not base32"),
        (SEED[:30] + "1" + SEED[31:], "not base32"),
        (SEED[:30] + "é" + SEED[31:], "not base32"),
        (KeyPair.from_seed(SEED).public, "not a seed"),
        (checked_base32(b""), "not a seed"),
        (checked_base32(bytes([18 << 3])), "not a seed"),
        (seed_text(KeyKind.USER.value, b"s" * 31), "not a seed"),
        (seed_text(KeyKind.USER.value, b"s" * 33), "not a seed"),
        (seed_text(1 << 3, b"s" * 32), "no known kind"),
        (seed_text(KeyKind.CURVE.value, b"s" * 32), "it cannot sign"),
    ],
)
def test_a_bad_seed_is_refused_without_being_quoted(text: str, reason: str) -> None:
    with pytest.raises(NkeyError, match=reason) as caught:
        KeyPair.from_seed(text)
    assert text == "" or len(text) == 1 or text not in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text(max_size=80) | st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ234567=", max_size=80))
def test_nothing_but_the_own_error_escapes(text: str) -> None:
    for read in (KeyPair.from_seed, user_key, parse_credentials):
        with pytest.raises(NkeyError):
            read(text)


@pytest.mark.parametrize(
    "text",
    [
        SEED,
        f"  {SEED}\t\n",
        f"{SEED}\r\n",
        f"# the seed of the archive job\n\n{SEED}\n",
        f"-----BEGIN USER NKEY SEED-----\n{SEED}\n------END USER NKEY SEED------\n",
        creds_text(JWT, SEED),
    ],
)
def test_a_seed_is_found_however_the_file_is_written(text: str) -> None:
    assert user_key(text).public == KeyPair.from_seed(SEED).public


@pytest.mark.parametrize(
    "text",
    [
        creds_text(JWT, SEED),
        creds_text(JWT, SEED).replace("\n", "\r\n"),
        "comment\n" + creds_text(JWT, SEED).rstrip(),
        f"---BEGIN NATS USER JWT---\n{JWT}\n---END---\n---BEGIN SEED---\n{SEED}\n---END---",
    ],
)
def test_a_creds_file_is_read_however_it_is_written(text: str) -> None:
    credentials = parse_credentials(text)
    assert credentials.jwt == JWT
    assert credentials.key.public == KeyPair.from_seed(SEED).public


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "no JWT"),
        (SEED, "no JWT"),
        (JWT, "no seed"),
        (creds_text(JWT, ""), "no seed"),
        (creds_text("", SEED), "no JWT"),
        (creds_text("only.two", SEED), "no JWT"),
        (creds_text(JWT, SEED[:-2]), "checksum is wrong"),
        (creds_text(JWT, seed_text(KeyKind.ACCOUNT.value, bytes(32))), r"account.*not a user's"),
    ],
)
def test_a_bad_creds_file_is_refused_without_being_quoted(text: str, reason: str) -> None:
    with pytest.raises(NkeyError, match=reason) as caught:
        parse_credentials(text)
    assert SEED[:-2] not in str(caught.value)
    assert JWT not in str(caught.value)


def test_secrets_do_not_show() -> None:
    pair = KeyPair.from_seed(SEED)
    shown = repr(pair) + str(pair) + repr(Credentials(JWT, pair))
    assert pair.public in shown
    assert SEED not in shown
    assert JWT not in shown


def test_a_public_key_is_one_of_its_kind_alone() -> None:
    key = KeyPair(KeyKind.USER, bytes(32)).public
    assert is_public_key(key, KeyKind.USER)
    assert not is_public_key(key, KeyKind.ACCOUNT)
    assert not is_public_key(SEED, KeyKind.USER)
    assert not is_public_key(key[:-1] + ("A" if key[-1] != "A" else "B"), KeyKind.USER)


@given(st.text() | st.text("AZ27U", min_size=50, max_size=60), st.binary(max_size=70))
def test_no_text_makes_a_check_of_a_signature_fail(key: str, signature: bytes) -> None:
    assert not is_public_key(key, KeyKind.USER)
    assert not is_signed_by(key, b"data", signature)


@given(st.binary(max_size=100), st.binary(max_size=100))
def test_a_signature_is_of_its_data_alone(data: bytes, other: bytes) -> None:
    pair = KeyPair(KeyKind.USER, bytes(32))
    assert is_signed_by(pair.public, data, pair.sign(data))
    assert is_signed_by(pair.public, other, pair.sign(data)) == (data == other)

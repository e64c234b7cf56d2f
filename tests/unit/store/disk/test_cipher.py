"""Encryption at rest: only the right key reads a file, and no altered byte is taken for sound."""

import hashlib
import hmac
import struct
import zlib
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.base.entropy import Entropy
from headwater.base.errors import OperatingError
from headwater.base.invariants import InvariantViolation
from headwater.store.disk import cipher as cipher_module
from headwater.store.disk.cipher import (
    BLOCK_BYTES_MAX,
    ENVELOPE_BYTES,
    NONCE_BYTES,
    OVERHEAD_BYTES,
    SALT_BYTES,
    STRETCHING_COST,
    STRETCHING_MEMORY_BYTES_MAX,
    STRETCHING_PASSES_MAX,
    AlteredBlockError,
    Cipher,
    CipherError,
    DamagedEnvelopeError,
    FileKey,
    ServerKey,
    StreamKey,
    StretchingCost,
    UnknownCipherError,
    WrongKeyError,
    aead,
    derive,
    stretch,
)
from headwater.testing.entropy import SeededEntropy, labelled_rng

# As weak as scrypt gets: the tests stretch hundreds of times.
CHEAP: Final = StretchingCost(log2_n=1, r=1, p=1)
CONTEXT: Final = b"account/stream"
IDENTITY: Final = b"identity of the file"
HEADER: Final = b"header of the block"
BLOCK: Final = b"a block with a few messages in it"

ciphers = pytest.mark.parametrize("cipher", list(Cipher), ids=lambda each: each.name)
cipher_choice = st.sampled_from(list(Cipher))


def rng(seed: int = 1) -> SeededEntropy:
    return SeededEntropy(labelled_rng(seed, "cipher"))


def server_key(
    secret: str = "correct horse",
    previous: str | None = None,
    cipher: Cipher = Cipher.AES_GCM,
    cost: StretchingCost = CHEAP,
) -> ServerKey:
    return ServerKey(secret, previous, cipher, cost)


def file_key(cipher: Cipher = Cipher.AES_GCM, seed: int = 1) -> FileKey:
    entropy = rng(seed)
    return StreamKey.generate(entropy).new_file_key(cipher, IDENTITY, entropy)


def with_checksum(envelope: bytes) -> bytes:
    """The envelope with a right checksum, as someone who alters it on purpose would write it."""
    body = envelope[:-4]
    return body + struct.pack("<I", zlib.crc32(body))


def patched(data: bytes, offset: int, value: bytes) -> bytes:
    return data[:offset] + value + data[offset + len(value) :]


def every_bit_flip(data: bytes) -> list[bytes]:
    return [
        patched(data, offset, bytes([data[offset] ^ 1 << bit]))
        for offset in range(len(data))
        for bit in range(8)
    ]


# --- the primitives are the ones of the standards -------------------------------------------------

SUNSCREEN: Final = (
    b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, "
    b"sunscreen would be it."
)


@pytest.mark.parametrize(
    ("cipher", "key", "nonce", "plain", "associated", "expected"),
    [
        pytest.param(
            Cipher.AES_GCM,
            "00" * 32,
            "00" * 12,
            "00" * 16,
            "",
            "cea7403d4d606b6e074ec5d3baf39d18 d0d1c8a799996bf0265b98b5d48ab919",
            id="GCM specification, test case 14",
        ),
        pytest.param(
            Cipher.AES_GCM,
            "feffe9928665731c6d6a8f9467308308 feffe9928665731c6d6a8f9467308308",
            "cafebabefacedbaddecaf888",
            "d9313225f88406e5a55909c5aff5269a 86a7a9531534f7da2e4c303d8a318a72"
            "1c3c0c95956809532fcf0e2449a6b525 b16aedf5aa0de657ba637b39",
            "feedfacedeadbeeffeedfacedeadbeefabaddad2",
            "522dc1f099567d07f47f37a32a84427d 643a8cdcbfe5c0c97598a2bd2555d1aa"
            "8cb08e48590dbb3da7b08b1056828838 c5f61e6393ba7a0abcc9f662"
            "76fc6ece0f4e1768cddf8853bb2d551b",
            id="GCM specification, test case 16",
        ),
        pytest.param(
            Cipher.CHACHA20_POLY1305,
            "808182838485868788898a8b8c8d8e8f 909192939495969798999a9b9c9d9e9f",
            "070000004041424344454647",
            SUNSCREEN.hex(),
            "50515253c0c1c2c3c4c5c6c7",
            "d31a8d34648e60db7b86afbc53ef7ec2 a4aded51296e08fea9e2b5a736ee62d6"
            "3dbea45e8ca9671282fafb69da92728b 1a71de0a9e060b2905d6a5b67ecd3b36"
            "92ddbd7f2d778b8c9803aee328091b58 fab324e4fad675945585808b4831d7bc"
            "3ff4def08e4b7a9de576d26586cec64b 61161ae10b594f09e26a7e902ecbd060 0691",
            id="RFC 8439, section 2.8.2",
        ),
    ],
)
def test_ciphers_give_the_published_answers(
    cipher: Cipher, key: str, nonce: str, plain: str, associated: str, expected: str
) -> None:
    box = aead(cipher, bytes.fromhex(key))
    answer = box.encrypt(bytes.fromhex(nonce), bytes.fromhex(plain), bytes.fromhex(associated))
    assert answer == bytes.fromhex(expected)


def test_derivation_gives_the_published_answer() -> None:
    """RFC 5869, test case 1; ours is always 32 bytes long, the case has 42."""
    answer = derive(b"\x0b" * 22, bytes(range(13)), bytes(range(0xF0, 0xFA)))
    expected = "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"
    assert answer == bytes.fromhex(expected)


def test_stretching_gives_the_published_answer() -> None:
    """RFC 7914, section 12, second vector; ours is 32 bytes long, the vector has 64."""
    answer = stretch(b"password", b"NaCl", StretchingCost(log2_n=10, r=8, p=16))
    expected = "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
    assert answer == bytes.fromhex(expected)


def test_a_guess_at_the_secret_costs_what_the_module_says() -> None:
    assert STRETCHING_COST == (15, 8, 3)
    assert STRETCHING_COST.memory_bytes == 32 * 1024 * 1024
    assert STRETCHING_COST.memory_bytes * 8 <= STRETCHING_MEMORY_BYTES_MAX
    assert STRETCHING_COST.p * 8 <= STRETCHING_PASSES_MAX


# --- the layout is the drawn one: computed here a second time, with other code --------------------


def plain_hkdf(key: bytes, salt: bytes, info: bytes) -> bytes:
    """One block of HKDF, which is all that a key of 32 bytes needs."""
    extracted = hmac.digest(salt or bytes(32), key, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")


@ciphers
def test_an_envelope_is_laid_out_as_drawn(cipher: Cipher) -> None:
    key = StreamKey(bytes(range(32)))
    envelope = server_key("secret", cipher=cipher).wrap(key, CONTEXT, rng())

    assert envelope[:12] == b"HWKE" + bytes([1, cipher, 1, 1, 1, 0, 0, 0])
    salt, nonce = envelope[12:28], envelope[28:40]
    root = hashlib.scrypt(b"secret", salt=salt, n=2, r=1, p=1, dklen=32)
    info = b"headwater stream key wrapping 1\0" + bytes([cipher]) + CONTEXT
    box = aead(cipher, plain_hkdf(root, b"", info))
    assert envelope[40:88] == box.encrypt(nonce, bytes(range(32)), envelope[:28])
    assert envelope[88:] == struct.pack("<I", zlib.crc32(envelope[:88]))
    assert len(envelope) == ENVELOPE_BYTES


@ciphers
def test_an_encrypted_block_is_laid_out_as_drawn(cipher: Cipher) -> None:
    key = StreamKey(bytes(range(32))).new_file_key(cipher, IDENTITY, rng())
    encrypted = key.encrypt(BLOCK, 77, HEADER, rng(2))

    info = b"headwater file key 1\0" + bytes([cipher]) + IDENTITY
    box = aead(cipher, plain_hkdf(bytes(range(32)), key.salt, info))
    nonce = encrypted[:NONCE_BYTES]
    assert encrypted == nonce + box.encrypt(nonce, BLOCK, struct.pack("<Q", 77) + HEADER)


def test_the_numbers_on_disk_never_change() -> None:
    assert [(each.name, each.value) for each in Cipher] == [
        ("AES_GCM", 1),
        ("CHACHA20_POLY1305", 2),
    ]


@pytest.mark.parametrize(
    ("envelope", "salt", "encrypted", "cipher"),
    [
        pytest.param(
            "48574b4501010f0803000000f365dbbb55347097e13e6df3ea63aef88f201373"
            "8b682a9cf38f9f7fcd6ff878c14e0c7356667031d8e0a69e43a7d3f068f055f9"
            "4eff48457887c95070523d9ab9ee3d76e7e1c62678fd12048b0b56f6",
            "72b39b3b3196ccf4a8725a62fd458231",
            "f569a0d381e6028d37229e4767fbfc713941438a8d45ea64aa60214a2cb233e4"
            "f1f5776107ce9eb4b0cf356e2b8de4edbcf3c7edfae61dece9c0e38ae1",
            Cipher.AES_GCM,
            id="AES_GCM",
        ),
        pytest.param(
            "48574b4501020f0803000000c94310c7f602ade92aaf6c03ec39895174e49e5d"
            "9222fe91726d7c86431422b267ffbc053493d7daa09ed5405b45a2a441c898d8"
            "3c06942a13e06c6265ec9680a8b4500e99d057e2157d86619b3a6fba",
            "3189110f8f571c248f196ac1f191522a",
            "f0d808ea1662dcbd5a28c952c2c49f51090e88808d8b78de814fce3f78db2d40"
            "0bf77c1bfe88e36b247205974400c74c30579f3a10921d691959eafc7e",
            Cipher.CHACHA20_POLY1305,
            id="CHACHA20_POLY1305",
        ),
    ],
)
def test_what_the_first_release_wrote_still_opens(
    envelope: str, salt: str, encrypted: str, cipher: Cipher
) -> None:
    key, _ = ServerKey("first release", None, cipher).unwrap(bytes.fromhex(envelope), CONTEXT)
    opened = key.file_key(cipher, bytes.fromhex(salt), IDENTITY)
    assert opened.decrypt(bytes.fromhex(encrypted), 64, HEADER) == BLOCK


# --- envelopes ------------------------------------------------------------------------------------


@given(secret=st.text(min_size=1), context=st.binary(), cipher=cipher_choice, seed=st.integers())
def test_a_stream_key_comes_back(secret: str, context: bytes, cipher: Cipher, seed: int) -> None:
    entropy = rng(seed)
    key = StreamKey.generate(entropy)
    envelope = server_key(secret, cipher=cipher).wrap(key, context, entropy)
    unwrapped = server_key(secret).unwrap(envelope, context)
    assert unwrapped.key.to_bytes() == key.to_bytes()
    assert not unwrapped.was_previous


def test_a_secret_may_hold_bytes_that_are_not_text() -> None:
    secret = b"caf\xe9".decode("utf-8", "surrogateescape")
    envelope = server_key(secret).wrap(StreamKey(bytes(32)), CONTEXT, rng())
    server_key(secret).unwrap(envelope, CONTEXT)
    with pytest.raises(WrongKeyError):
        server_key("cafe").unwrap(envelope, CONTEXT)


@pytest.mark.parametrize(("secret", "previous"), [("", None), ("", "x"), ("x", "")])
def test_an_empty_secret_is_a_bug_of_the_caller(secret: str, previous: str | None) -> None:
    with pytest.raises(InvariantViolation, match="empty secret"):
        server_key(secret, previous)


def test_another_secret_is_refused_with_what_to_do() -> None:
    envelope = server_key("then").wrap(StreamKey(bytes(32)), CONTEXT, rng())
    with pytest.raises(WrongKeyError, match=r"encryption key does not open.*Nothing was changed"):
        server_key("now").unwrap(envelope, CONTEXT)
    with pytest.raises(WrongKeyError, match="encryption key and the previous key do not open"):
        server_key("now", "before").unwrap(envelope, CONTEXT)


def test_an_error_does_not_tell_the_secrets() -> None:
    envelope = server_key("hunter1").wrap(StreamKey(b"K" * 32), CONTEXT, rng())
    key = server_key("hunter2", "hunter3")
    with pytest.raises(WrongKeyError) as refused:
        key.unwrap(envelope, CONTEXT)
    shown = str(refused.value) + repr(key) + repr(StreamKey(b"K" * 32)) + repr(file_key())
    assert "hunter" not in shown
    assert "KKK" not in shown


def test_the_envelope_of_another_stream_is_refused() -> None:
    envelope = server_key().wrap(StreamKey(bytes(32)), b"account/one", rng())
    with pytest.raises(WrongKeyError, match="for another stream"):
        server_key().unwrap(envelope, b"account/two")


def test_a_secret_is_changed_by_way_of_the_previous_one() -> None:
    key = StreamKey.generate(rng())
    old = server_key("old").wrap(key, CONTEXT, rng(2))

    both = server_key("new", previous="old")
    unwrapped = both.unwrap(old, CONTEXT)
    assert unwrapped.was_previous
    assert unwrapped.key.to_bytes() == key.to_bytes()
    new = both.wrap(unwrapped.key, CONTEXT, rng(3))
    assert not both.unwrap(new, CONTEXT).was_previous

    assert server_key("new").unwrap(new, CONTEXT).key.to_bytes() == key.to_bytes()
    for secret, envelope in (("old", new), ("new", old)):
        with pytest.raises(WrongKeyError):
            server_key(secret).unwrap(envelope, CONTEXT)


@ciphers
def test_another_cipher_in_the_configuration_opens_what_is_there(cipher: Cipher) -> None:
    envelope = server_key(cipher=cipher).wrap(StreamKey(bytes(32)), CONTEXT, rng())
    for configured in Cipher:
        opened = server_key(cipher=configured).unwrap(envelope, CONTEXT)
        assert opened.key.to_bytes() == bytes(32)


def test_wrapping_twice_gives_two_envelopes_and_both_open() -> None:
    key, entropy = server_key(), rng()
    first, second = (key.wrap(StreamKey(bytes(32)), CONTEXT, entropy) for _ in range(2))
    assert first != second
    for envelope in (first, second):
        assert key.unwrap(envelope, CONTEXT).key.to_bytes() == bytes(32)


class CountedStretching:
    """Stands in for `stretch` and counts its calls."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, secret: bytes, salt: bytes, cost: StretchingCost) -> bytes:
        self.calls += 1
        return stretch(secret, salt, cost)


@pytest.fixture
def stretching(monkeypatch: pytest.MonkeyPatch) -> CountedStretching:
    counted = CountedStretching()
    monkeypatch.setattr(cipher_module, "stretch", counted)
    return counted


def wrapped_streams(key: ServerKey, entropy: Entropy) -> list[bytes]:
    return [key.wrap(StreamKey.generate(entropy), b"%d" % number, entropy) for number in range(50)]


def open_all(key: ServerKey, envelopes: list[bytes]) -> list[bool]:
    return [
        key.unwrap(envelope, b"%d" % number).was_previous
        for number, envelope in enumerate(envelopes)
    ]


def test_many_streams_stretch_the_secret_once(stretching: CountedStretching) -> None:
    envelopes = wrapped_streams(server_key(), rng())
    assert stretching.calls == 1
    again = server_key()
    open_all(again, envelopes)
    assert stretching.calls == 2
    envelopes += wrapped_streams(again, rng(2))
    assert stretching.calls == 2
    open_all(again, envelopes[50:])
    open_all(server_key(), envelopes[:50])
    assert stretching.calls == 3


def test_changing_the_secret_of_many_streams_stretches_three_times(
    stretching: CountedStretching,
) -> None:
    envelopes = wrapped_streams(server_key("old"), rng())
    stretching.calls = 0
    key = server_key("new", "old")
    assert all(open_all(key, envelopes))
    assert not any(open_all(key, wrapped_streams(key, rng(2))))
    assert stretching.calls == 3


def test_a_new_cost_holds_for_new_envelopes() -> None:
    before = server_key().wrap(StreamKey(bytes(32)), CONTEXT, rng())
    dearer = server_key(cost=StretchingCost(2, 2, 2))
    dearer.unwrap(before, CONTEXT)
    after = dearer.wrap(StreamKey(bytes(32)), CONTEXT, rng(2))
    assert after[6:9] == bytes([2, 2, 2])
    assert after[12:28] != before[12:28]
    server_key().unwrap(after, CONTEXT)


@ciphers
def test_every_bit_flipped_in_an_envelope_is_refused(cipher: Cipher) -> None:
    key = server_key(cipher=cipher)
    envelope = key.wrap(StreamKey(bytes(32)), CONTEXT, rng())
    for flipped in every_bit_flip(envelope):
        # An alteration by accident, and one by someone who puts the checksum right.
        with pytest.raises((DamagedEnvelopeError, UnknownCipherError)):
            key.unwrap(flipped, CONTEXT)
        if with_checksum(flipped) != envelope:
            with pytest.raises(CipherError):
                key.unwrap(with_checksum(flipped), CONTEXT)


def test_an_envelope_of_any_other_length_is_refused() -> None:
    envelope = server_key().wrap(StreamKey(bytes(32)), CONTEXT, rng())
    for size in range(ENVELOPE_BYTES):
        with pytest.raises(DamagedEnvelopeError):
            server_key().unwrap(envelope[:size], CONTEXT)
    with pytest.raises(DamagedEnvelopeError, match="93 bytes, not 92"):
        server_key().unwrap(envelope + b"\0", CONTEXT)


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (4, b"\x02", "has format version 2; this server reads version 1"),
        (4, b"\x00", "has format version 0"),
        (5, b"\x00", r"cipher number 0 is not known; .* 1 \(AES_GCM\), 2 \(CHACHA20_POLY1305\)"),
        (5, b"\x03", "cipher number 3 is not known"),
        (6, bytes([0, 8, 1]), "scrypt with n=2\\*\\*0, r=8, p=1"),
        (6, bytes([15, 0, 1]), "r=0"),
        (6, bytes([15, 8, 0]), "p=0"),
        (6, bytes([16, 1, 1]), "r=1"),
        (6, bytes([19, 8, 1]), "goes to 268435456 bytes"),
        (6, bytes([255, 255, 1]), "goes to 268435456 bytes"),
        (6, bytes([1, 8, 25]), "p=24"),
    ],
)
def test_what_this_server_does_not_have_is_refused_by_name(
    offset: int, value: bytes, message: str
) -> None:
    envelope = server_key().wrap(StreamKey(bytes(32)), CONTEXT, rng())
    with pytest.raises(UnknownCipherError, match=message):
        server_key().unwrap(with_checksum(patched(envelope, offset, value)), CONTEXT)


@pytest.mark.parametrize("cost", [StretchingCost(18, 8, 1), StretchingCost(1, 1, 24)])
def test_the_dearest_stretching_that_is_accepted_works(cost: StretchingCost) -> None:
    assert cost.memory_bytes == STRETCHING_MEMORY_BYTES_MAX or cost.p == STRETCHING_PASSES_MAX
    envelope = server_key(cost=cost).wrap(StreamKey(bytes(32)), CONTEXT, rng())
    server_key().unwrap(envelope, CONTEXT)


# Any bytes where the key is; a cost that does not make the search slow.
@given(
    st.one_of(
        st.binary(max_size=2 * ENVELOPE_BYTES),
        st.binary(min_size=80, max_size=80).map(
            lambda rest: with_checksum(b"HWKE" + bytes([1, 1, 1, 1, 1]) + rest + bytes(3))
        ),
    )
)
def test_nothing_but_the_typed_errors_comes_out_of_any_envelope(envelope: bytes) -> None:
    with pytest.raises(CipherError):
        server_key("now", "before").unwrap(envelope, CONTEXT)


def test_the_stream_key_is_not_in_its_envelope() -> None:
    key = StreamKey.generate(rng())
    envelope = server_key("correct horse").wrap(key, CONTEXT, rng(2))
    assert not shared_stretches(envelope, key.to_bytes() + b"correct horse" + CONTEXT)


# --- blocks ---------------------------------------------------------------------------------------


def shared_stretches(data: bytes, secret: bytes, size: int = 4) -> set[bytes]:
    """Stretches of `size` bytes that are in both."""
    return stretches(data, size) & stretches(secret, size)


def stretches(data: bytes, size: int) -> set[bytes]:
    return {data[start : start + size] for start in range(len(data) - size + 1)}


@given(
    block=st.binary(max_size=500),
    position=st.integers(0, 2**64 - 1),
    associated=st.binary(max_size=60),
    identity=st.binary(max_size=60),
    cipher=cipher_choice,
    seed=st.integers(),
)
def test_a_block_comes_back(
    block: bytes, position: int, associated: bytes, identity: bytes, cipher: Cipher, seed: int
) -> None:
    entropy = rng(seed)
    stream = StreamKey.generate(entropy)
    writer = stream.new_file_key(cipher, identity, entropy)
    encrypted = writer.encrypt(block, position, associated, entropy)
    assert len(encrypted) == len(block) + OVERHEAD_BYTES

    reader = StreamKey(stream.to_bytes()).file_key(int(writer.cipher), writer.salt, identity)
    assert reader.decrypt(encrypted, position, associated) == block


@ciphers
@pytest.mark.parametrize("block", [b"", b"x", BLOCK])
def test_every_bit_flipped_in_a_block_is_refused(cipher: Cipher, block: bytes) -> None:
    key = file_key(cipher)
    encrypted = key.encrypt(block, 64, HEADER, rng(2))
    for flipped in every_bit_flip(encrypted):
        with pytest.raises(AlteredBlockError):
            key.decrypt(flipped, 64, HEADER)


@ciphers
def test_every_bit_flipped_in_what_is_bound_to_a_block_is_refused(cipher: Cipher) -> None:
    stream = StreamKey(bytes(32))
    key = stream.new_file_key(cipher, IDENTITY, rng())
    encrypted = key.encrypt(BLOCK, 64, HEADER, rng(2))

    def refuse(key: FileKey, position: int, associated: bytes) -> None:
        with pytest.raises(AlteredBlockError):
            key.decrypt(encrypted, position, associated)

    for header in every_bit_flip(HEADER):
        refuse(key, 64, header)
    for bit in range(64):
        refuse(key, 64 ^ 1 << bit, HEADER)
    for salt in every_bit_flip(key.salt):
        refuse(stream.file_key(cipher, salt, IDENTITY), 64, HEADER)
    for identity in every_bit_flip(IDENTITY):
        refuse(stream.file_key(cipher, key.salt, identity), 64, HEADER)
    for other in every_bit_flip(stream.to_bytes()):
        refuse(StreamKey(other).file_key(cipher, key.salt, IDENTITY), 64, HEADER)
    for name in set(Cipher) - {cipher}:
        refuse(stream.file_key(name, key.salt, IDENTITY), 64, HEADER)


@ciphers
def test_a_block_cut_anywhere_or_made_longer_is_refused(cipher: Cipher) -> None:
    key = file_key(cipher)
    encrypted = key.encrypt(BLOCK, 64, HEADER, rng(2))
    for size in range(len(encrypted)):
        with pytest.raises(AlteredBlockError):
            key.decrypt(encrypted[:size], 64, HEADER)
    for longer in (encrypted + b"\0", b"\0" + encrypted):
        with pytest.raises(AlteredBlockError):
            key.decrypt(longer, 64, HEADER)


@ciphers
def test_blocks_that_change_places_are_refused(cipher: Cipher) -> None:
    """Moved blocks are refused even with their headers, with equal sizes and equal content."""
    key, entropy = file_key(cipher), rng(2)
    first = key.encrypt(BLOCK, 64, HEADER, entropy)
    second = key.encrypt(BLOCK, 64 + len(first), HEADER, entropy)
    for encrypted, position in ((second, 64), (first, 64 + len(first))):
        with pytest.raises(AlteredBlockError, match=f"block at {position} does not open"):
            key.decrypt(encrypted, position, HEADER)


@ciphers
def test_a_block_of_another_file_of_the_stream_is_refused(cipher: Cipher) -> None:
    stream, entropy = StreamKey(bytes(32)), rng()
    # The second is the first one rewritten: the same identity, and a new salt.
    files = [stream.new_file_key(cipher, name, entropy) for name in (b"one", b"one", b"two")]
    blocks = [file.encrypt(BLOCK, 64, HEADER, entropy) for file in files]
    for here, file in enumerate(files):
        for there, block in enumerate(blocks):
            if here == there:
                assert file.decrypt(block, 64, HEADER) == BLOCK
            else:
                with pytest.raises(AlteredBlockError):
                    file.decrypt(block, 64, HEADER)


@ciphers
def test_what_is_written_twice_at_one_place_never_repeats_a_nonce(cipher: Cipher) -> None:
    """A server that remembers nothing of it writes a tail again that was lost in a crash."""
    stream, entropy = StreamKey(bytes(32)), rng()
    salt = stream.new_file_key(cipher, IDENTITY, entropy).salt
    written = [
        stream.file_key(cipher, salt, IDENTITY).encrypt(BLOCK, 64, HEADER, entropy)
        for _ in range(1000)
    ]
    assert len({encrypted[:NONCE_BYTES] for encrypted in written}) == 1000
    assert len({encrypted[NONCE_BYTES:] for encrypted in written}) == 1000


def test_nonces_salts_and_keys_are_nothing_but_random() -> None:
    twin = rng()
    drawn = [twin.random_bytes(size) for size in (32, SALT_BYTES, NONCE_BYTES, NONCE_BYTES)]
    entropy = rng()
    stream = StreamKey.generate(entropy)
    key = stream.new_file_key(Cipher.AES_GCM, IDENTITY, entropy)
    blocks = [key.encrypt(BLOCK, 64, HEADER, entropy)[:NONCE_BYTES] for _ in range(2)]
    assert [stream.to_bytes(), key.salt, *blocks] == drawn


class ShortDice:
    """An entropy that gives less than it was asked for."""

    def random_bytes(self, count: int) -> bytes:
        return bytes(count - 1)

    def below(self, limit: int) -> int:
        return 0


@pytest.mark.parametrize(
    "draw",
    [
        lambda: StreamKey.generate(ShortDice()),
        lambda: StreamKey(bytes(32)).new_file_key(Cipher.AES_GCM, IDENTITY, ShortDice()),
        lambda: file_key().encrypt(BLOCK, 64, HEADER, ShortDice()),
        lambda: server_key().wrap(StreamKey(bytes(32)), CONTEXT, ShortDice()),
        lambda: StreamKey(bytes(31)),
        lambda: StreamKey(bytes(32)).file_key(1, bytes(15), IDENTITY),
    ],
)
def test_too_few_random_bytes_are_a_bug_and_never_used(draw: Callable[[], object]) -> None:
    with pytest.raises(InvariantViolation):
        draw()


@pytest.mark.parametrize("number", [-1, 0, 3, 255, 256])
def test_a_file_with_an_unknown_cipher_is_refused_by_its_number(number: int) -> None:
    with pytest.raises(UnknownCipherError, match=f"cipher number {number} is not known"):
        StreamKey(bytes(32)).file_key(number, bytes(SALT_BYTES), IDENTITY)


def test_a_block_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert BLOCK_BYTES_MAX + OVERHEAD_BYTES < 2**31
    monkeypatch.setattr(cipher_module, "BLOCK_BYTES_MAX", 100)
    key = file_key()
    largest = key.encrypt(bytes(100), 64, HEADER, rng(2))
    assert key.decrypt(largest, 64, HEADER) == bytes(100)
    with pytest.raises(InvariantViolation, match="a block of 101 bytes"):
        key.encrypt(bytes(101), 64, HEADER, rng(2))
    with pytest.raises(AlteredBlockError, match="129 bytes cannot be an encrypted block"):
        key.decrypt(largest + b"\0", 64, HEADER)


def test_a_file_key_stops_at_the_bound_of_the_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cipher_module.BLOCKS_PER_FILE_MAX == 2**32
    monkeypatch.setattr(cipher_module, "BLOCKS_PER_FILE_MAX", 3)
    key, entropy = file_key(), rng(2)
    for _ in range(3):
        key.encrypt(BLOCK, 64, HEADER, entropy)
    with pytest.raises(InvariantViolation, match="too many blocks"):
        key.encrypt(BLOCK, 64, HEADER, entropy)


@given(
    encrypted=st.binary(max_size=200),
    position=st.integers(0, 2**64 - 1),
    associated=st.binary(max_size=40),
    cipher=cipher_choice,
)
def test_nothing_but_the_typed_error_comes_out_of_any_block(
    encrypted: bytes, position: int, associated: bytes, cipher: Cipher
) -> None:
    with pytest.raises(AlteredBlockError):
        file_key(cipher).decrypt(encrypted, position, associated)


@ciphers
def test_the_content_is_not_in_the_encrypted_block(cipher: Cipher) -> None:
    text = b"orders.eu.created {customer: alice, card: 4111111111111111} " * 20
    encrypted = file_key(cipher).encrypt(text, 64, HEADER, rng(2))
    assert not shared_stretches(encrypted, text)
    assert not shared_stretches(encrypted, HEADER)


def test_every_refusal_is_an_operating_error() -> None:
    errors = (WrongKeyError, DamagedEnvelopeError, UnknownCipherError, AlteredBlockError)
    assert all(issubclass(error, CipherError) for error in errors)
    assert issubclass(CipherError, OperatingError)

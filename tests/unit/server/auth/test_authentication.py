"""From credentials to a user."""

import base64

import pytest

from headwater.runtime.tls import TlsSettings
from headwater.server.auth.authentication import Authenticator, SlowCheck, Verdict
from headwater.server.configuration.options import AccountOptions, Options, TlsOptions, UserOptions
from headwater.wire.credentials.nkeys import KeyKind, KeyPair
from headwater.wire.info import ConnectOptions
from tests.kit.tls_files import EMAIL, ORGANIZATION, tls_files

# The cheapest cost bcrypt has; a check takes a millisecond.
# "secret", at the lowest cost there is.
HASHED = "$2b$04$yQ4ooAShN//t3AbhRfH.HO7IgE7hqaGKKcK.D/aOd5bwiWEQH0mq."


def said(**fields: str) -> ConnectOptions:
    connect = ConnectOptions()
    for name, value in fields.items():
        setattr(connect, name, value)
    return connect


def judge(options: Options, **fields: str) -> UserOptions | None:
    """The user, whether the check was fast or slow."""
    options.validate()
    outcome = Authenticator(options).check(said(**fields))
    verdict = outcome.work() if isinstance(outcome, SlowCheck) else outcome
    return verdict.user


def name_of(user: UserOptions | None) -> str | None:
    return None if user is None else user.username


class TestOpen:
    def test_anyone_is_let_in_whatever_they_say(self) -> None:
        for fields in ({}, {"user": "me", "password": "x"}, {"auth_token": "t"}):
            user = judge(Options(), **fields)
            assert user is not None
            assert user.account_name == "$G"
            assert user.permissions is None


class TestSingleUser:
    OPTIONS = Options(username="me", password="secret")

    @pytest.mark.parametrize(
        ("fields", "let_in"),
        [
            ({"user": "me", "password": "secret"}, True),
            ({"user": "me", "password": "Secret"}, False),
            ({"user": "me"}, False),
            ({"user": "you", "password": "secret"}, False),
            ({"password": "secret"}, False),
            ({"auth_token": "secret"}, False),
            ({}, False),
        ],
    )
    def test_name_and_password_must_be_right(self, fields: dict[str, str], let_in: bool) -> None:
        assert name_of(judge(self.OPTIONS, **fields)) == ("me" if let_in else None)


class TestToken:
    @pytest.mark.parametrize("token", ["secret", HASHED])
    @pytest.mark.parametrize(
        ("fields", "let_in"),
        [
            ({"auth_token": "secret"}, True),
            ({"auth_token": "wrong"}, False),
            ({"user": "secret"}, False),
            ({"password": "secret"}, False),
            ({}, False),
        ],
    )
    def test_the_token_must_be_right(
        self, token: str, fields: dict[str, str], let_in: bool
    ) -> None:
        assert (judge(Options(token=token), **fields) is not None) is let_in


class TestUsers:
    OPTIONS = Options(
        users=(UserOptions("plain", "pw"), UserOptions("hashed", HASHED)),
        accounts=(AccountOptions("A", (UserOptions("alice", "pa", account_name="A"),)),),
    )

    @pytest.mark.parametrize(
        ("user", "password", "expected"),
        [
            ("plain", "pw", "plain"),
            ("plain", "secret", None),
            ("hashed", "secret", "hashed"),
            ("hashed", "wrong", None),
            # The hash is not the password.
            ("hashed", HASHED, None),
            ("alice", "pa", "alice"),
            ("nobody", "pw", None),
            ("", "", None),
            ("Plain", "pw", None),
        ],
    )
    def test_each_has_their_own_password(
        self, user: str, password: str, expected: str | None
    ) -> None:
        assert name_of(judge(self.OPTIONS, user=user, password=password)) == expected

    def test_users_live_in_their_account(self) -> None:
        alice = judge(self.OPTIONS, user="alice", password="pa")
        assert alice is not None
        assert alice.account_name == "A"

    def test_hashes_are_compared_elsewhere_and_plain_text_at_once(self) -> None:
        authenticator = Authenticator(self.OPTIONS)
        assert isinstance(authenticator.check(said(user="plain", password="pw")), Verdict)
        assert isinstance(authenticator.check(said(user="hashed", password="x")), SlowCheck)

    @pytest.mark.parametrize("given", ["x" * 500, "ü" * 100, "nul\x00inside", ""])
    def test_odd_passwords_are_wrong_and_not_an_error(self, given: str) -> None:
        assert judge(self.OPTIONS, user="hashed", password=given) is None

    def test_a_broken_hash_lets_nobody_in(self) -> None:
        broken = Options(users=(UserOptions("u", "$2a$04$short"),))
        assert judge(broken, user="u", password="$2a$04$short") is None


class TestStandIn:
    OPTIONS = Options(
        users=(UserOptions("guest", "pw"), UserOptions("me", "secret")), no_auth_user="guest"
    )

    @pytest.mark.parametrize(
        ("fields", "expected"),
        [
            ({}, "guest"),
            ({"name": "just a name", "lang": "python"}, "guest"),
            # A key is no credential where no user has one, and neither is a JWT.
            ({"nkey": "U"}, "guest"),
            ({"jwt": "x"}, "guest"),
            ({"user": "me", "password": "secret"}, "me"),
            # A client that presents credentials is judged by them.
            ({"user": "me", "password": "wrong"}, None),
            ({"user": "me"}, None),
            ({"auth_token": "x"}, None),
            ({"password": "x"}, None),
        ],
    )
    def test_stands_in_for_those_who_present_nothing(
        self, fields: dict[str, str], expected: str | None
    ) -> None:
        assert name_of(judge(self.OPTIONS, **fields)) == expected

    def test_is_known_to_those_who_ask(self) -> None:
        assert name_of(Authenticator(self.OPTIONS).stand_in) == "guest"
        assert Authenticator(Options()).stand_in is None

    def test_does_not_stand_in_where_it_could_not_connect_itself(self) -> None:
        guest = UserOptions("guest", "g", allowed_connection_types=("WEBSOCKET",))
        options = Options(users=(guest,), no_auth_user="guest")
        assert judge(options) is None
        assert Authenticator(options).stand_in is None


class TestSigners:
    KEY = KeyPair(KeyKind.USER, b"k" * 32)
    OPTIONS = Options(
        users=(
            UserOptions(KEY.public, is_nkey=True),
            UserOptions("bob", "secret"),
            UserOptions("guest"),
        ),
        no_auth_user="guest",
    )
    NONCE = "2lZTvKgZsJTGkqE"

    def judged(self, nonce: str = NONCE, **fields: str) -> str | None:
        outcome = Authenticator(self.OPTIONS).check(said(**fields), (), nonce)
        assert isinstance(outcome, Verdict)
        return name_of(outcome.user)

    def signature(self, nonce: str = NONCE, key: KeyPair = KEY) -> str:
        return base64.urlsafe_b64encode(key.sign(nonce.encode())).decode().rstrip("=")

    def test_a_signature_of_the_nonce_lets_its_user_in(self) -> None:
        assert self.judged(nkey=self.KEY.public, sig=self.signature()) == self.KEY.public

    @pytest.mark.parametrize("sig", ["", "!", "AAAA", "A" * 86, "é"])
    def test_any_other_text_does_not(self, sig: str) -> None:
        assert self.judged(nkey=self.KEY.public, sig=sig) is None

    def test_nor_a_signature_of_another_nonce_or_by_another_key(self) -> None:
        other = KeyPair(KeyKind.USER, b"o" * 32)
        assert self.judged(nkey=self.KEY.public, sig=self.signature("another")) is None
        assert self.judged(nkey=self.KEY.public, sig=self.signature(key=other)) is None
        assert self.judged(nkey=other.public, sig=self.signature(key=other)) is None

    def test_without_a_nonce_nobody_can_sign(self) -> None:
        assert self.judged("", nkey=self.KEY.public, sig=self.signature("")) is None

    def test_the_key_is_no_name_and_has_no_password(self) -> None:
        assert self.judged(user=self.KEY.public) is None
        assert self.judged(user=self.KEY.public, password="") is None

    def test_a_name_is_no_key(self) -> None:
        assert self.judged(nkey="bob", sig=self.signature()) is None

    def test_others_log_in_as_before(self) -> None:
        assert self.judged(user="bob", password="secret") == "bob"
        assert self.judged() == "guest"

    def test_the_user_may_be_confined_to_other_connections(self) -> None:
        confined = UserOptions(self.KEY.public, is_nkey=True, allowed_connection_types=("MQTT",))
        outcome = Authenticator(Options(users=(confined,))).check(
            said(nkey=self.KEY.public, sig=self.signature()), (), self.NONCE
        )
        assert isinstance(outcome, Verdict)
        assert outcome.user is None


class TestCertificates:
    TLS = TlsOptions(TlsSettings(verify=True), maps_users=True)
    CLIENT, ADA = tls_files().certificate("client"), tls_files().certificate("ada")
    KEY = KeyPair(KeyKind.USER, b"k" * 32)
    NONCE = "2lZTvKgZsJTGkqE"

    def judged(self, options: Options, *certificates: bytes, **fields: str) -> str | None:
        outcome = Authenticator(options).check(said(**fields), certificates, self.NONCE)
        assert isinstance(outcome, Verdict)
        return name_of(outcome.user)

    def test_the_subject_or_a_name_beside_it_names_the_user(self) -> None:
        subject = f"CN=client,O={ORGANIZATION}"
        options = Options(users=(UserOptions(subject), UserOptions(EMAIL)), tls=self.TLS)
        assert self.judged(options, self.CLIENT, user="anything") == subject
        assert self.judged(options, self.ADA) == EMAIL
        assert self.judged(options) is None

    def test_a_password_of_that_user_is_required_as_well(self) -> None:
        options = Options(users=(UserOptions(EMAIL, "secret"),), tls=self.TLS)
        assert self.judged(options, self.ADA) is None
        assert self.judged(options, self.ADA, password="Secret") is None
        assert self.judged(options, self.ADA, password="secret") == EMAIL

    def test_nobody_stands_in_for_a_client_without_a_known_certificate(self) -> None:
        options = Options(
            users=(UserOptions(EMAIL), UserOptions("guest")), no_auth_user="guest", tls=self.TLS
        )
        assert self.judged(options, self.CLIENT) is None
        assert Authenticator(options).stand_in is None

    def test_a_certificate_does_not_replace_the_password_of_the_only_user(self) -> None:
        # The certificate has this name.
        options = Options(username="localhost", password="secret", tls=self.TLS)
        assert self.judged(options, self.CLIENT) is None
        assert self.judged(options, self.CLIENT, user="localhost", password="x") is None
        assert self.judged(options, self.CLIENT, user="localhost", password="secret") == "localhost"

    def test_a_certificate_does_not_replace_a_token(self) -> None:
        options = Options(token="secret", tls=self.TLS)
        assert self.judged(options, self.CLIENT) is None
        assert self.judged(options, self.CLIENT, auth_token="secret") == ""

    def test_a_client_may_sign_instead(self) -> None:
        users = (UserOptions(self.KEY.public, is_nkey=True), UserOptions(EMAIL))
        options = Options(users=users, tls=self.TLS)
        signature = base64.b64encode(self.KEY.sign(self.NONCE.encode())).decode()
        key = self.KEY.public
        assert self.judged(options, self.ADA, nkey=key, sig=signature) == key
        assert self.judged(options, self.ADA, nkey=key, sig="") is None
        assert self.judged(options, self.ADA) == EMAIL

    def test_a_certificate_does_not_replace_a_signature(self) -> None:
        options = Options(users=(UserOptions("localhost", is_nkey=True),), tls=self.TLS)
        assert self.judged(options, self.CLIENT) is None

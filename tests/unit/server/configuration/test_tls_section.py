"""The section `tls`; the errors of nats-server are compared in tests/interop."""

from dataclasses import replace

import pytest

from headwater.runtime.tls import TlsError, TlsSettings
from headwater.server.configuration.keys import ConfigError, load_config
from headwater.server.configuration.options import Options, TlsOptions
from headwater.server.configuration.reload_plan import changed_options

PAIR = "cert_file: c, key_file: k"
SETTINGS = TlsSettings(cert_file="c", key_file="k")
VERIFYING = replace(SETTINGS, verify=True)
PINS = frozenset({"a" * 64})
FIRST = TlsOptions(SETTINGS, is_first=True)


def options_of(text: str) -> Options:
    return load_config("c", lambda _: text.encode(), {}).options


def tls_of(section: str) -> TlsOptions:
    tls = options_of(f"tls {{ {section} }}").tls
    assert tls is not None
    return tls


@pytest.mark.parametrize(
    ("section", "options"),
    [
        ("", TlsOptions()),
        (PAIR, TlsOptions(SETTINGS)),
        (
            f"{PAIR}, ca_file: a, verify: true",
            TlsOptions(replace(SETTINGS, ca_file="a", verify=True)),
        ),
        (
            f"{PAIR}, verify_and_map: true",
            TlsOptions(replace(SETTINGS, verify=True), maps_users=True),
        ),
        (f"{PAIR}, timeout: 0.5", TlsOptions(SETTINGS, timeout_s=0.5)),
        (f"{PAIR}, timeout: 0", TlsOptions(SETTINGS)),
        (f"{PAIR}, timeout: 3s", TlsOptions(SETTINGS, timeout_s=3.0)),
        (f"{PAIR}, handshake_first: true", FIRST),
        (f"{PAIR}, handshake_first: auto", TlsOptions(SETTINGS, is_first=True, first_wait_s=0.05)),
        (f"{PAIR}, first: 100ms", TlsOptions(SETTINGS, is_first=True, first_wait_s=0.1)),
        (f"{PAIR}, handshake_first: off", TlsOptions(SETTINGS)),
        (f'{PAIR}, min_version: "1.3"', TlsOptions(replace(SETTINGS, only_tls_1_3=True))),
        (f"{PAIR}, curve_preferences: [X25519]", TlsOptions(replace(SETTINGS, curve="X25519"))),
        (
            f"{PAIR}, pinned_certs: ['{'A' * 64}']",
            TlsOptions(SETTINGS, pinned_keys=frozenset({"a" * 64})),
        ),
    ],
)
def test_a_section_and_its_options(section: str, options: TlsOptions) -> None:
    assert tls_of(section) == options


@pytest.mark.parametrize(
    ("section", "reason"),
    [
        ("curve_preferences: [X25519, CurveP256]", "with several curves is not supported"),
        ("certs: []", '"certs" is not supported'),
        ("insecure: true", '"insecure" is not supported'),
        ("connection_rate_limit: 1", '"connection_rate_limit" is not supported'),
    ],
)
def test_keys_that_are_refused_by_name(section: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        options_of(f"tls {{ {PAIR}, {section} }}")


def test_files_are_checked_where_they_are_named() -> None:
    def refuse(settings: TlsSettings) -> None:
        raise TlsError("open c: no such file")

    text = f"debug: true\ntls {{ {PAIR} }}".encode()
    with pytest.raises(ConfigError, match=r"server\.conf:2:\d+: open c: no such file"):
        load_config("server.conf", lambda _: text, {}, "", refuse)


def test_a_client_with_a_handshake_gets_a_second_more() -> None:
    assert options_of(f"tls {{ {PAIR}, timeout: 5 }}").auth_timeout_s == 6
    text = f"tls {{ {PAIR} }}, authorization {{ user: a, timeout: 1 }}"
    assert options_of(text).auth_timeout_s == 1


OLD = Options(tls=TlsOptions(SETTINGS))


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (OLD, Options(), ("tls = disabled",)),
        (Options(), OLD, ("tls = enabled",)),
        (OLD, Options(tls=TlsOptions(SETTINGS, timeout_s=5.0)), ("tls timeout = 5",)),
        (OLD, Options(tls=TlsOptions(replace(SETTINGS, verify=True))), ("tls = enabled",)),
        (
            OLD,
            Options(tls=TlsOptions(SETTINGS, is_first=True)),
            ("Client TLS handshake first: true",),
        ),
    ],
)
def test_a_reload_tells_of_changes(old: Options, new: Options, lines: tuple[str, ...]) -> None:
    assert changed_options(old, new).changes == lines


def test_clients_without_tls_need_a_restart() -> None:
    plan = changed_options(OLD, replace(OLD, allow_non_tls=True))
    assert plan.error == "config reload not supported for AllowNonTLS: old=false, new=true"

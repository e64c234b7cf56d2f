"""A `tls` section of a configuration file.

Each key is honoured or refused by name. Texts and rules are nats-server's.
"""

import re
from collections.abc import Callable
from typing import Final

from headwater.base.errors import OperatingError
from headwater.go.durations import parse_duration
from headwater.go.quoting import quote
from headwater.runtime.tls import CIPHERS, CIPHERS_OF_TLS_1_3, CURVES, TlsSettings
from headwater.server.configuration.options import AUTO_FIRST_WAIT_S, TlsOptions
from headwater.server.configuration.parser import Value
from headwater.server.configuration.reading import (
    Draft,
    Handler,
    Refusal,
    Table,
    duration_s,
    mapping,
    not_supported,
    string,
    table,
    type_name,
    value_text,
)

# Loads the files that settings name, to find errors in them. Raises OperatingError.
CheckTls = Callable[[TlsSettings], object]

_ABOUT: Final = "error parsing tls config"
_KEY_ID: Final = re.compile(r"[a-fA-F0-9]{64}")
_KEY_FORM: Final = "hex-encoded sha256 of DER encoded SubjectPublicKeyInfo"
_VERSIONS: Final = {"1.0": "TLS 1.0", "1.1": "TLS 1.1", "1.2": "TLS 1.2", "1.3": "TLS 1.3"}
_ONLY_OF_CLIENTS: Final = "a server that accepts connections has no use for it"


def read_tls(node: Value, draft: Draft, check: CheckTls) -> TlsOptions | None:
    """The options of a section; None if a key in it was refused."""
    section = draft.section()
    errors_before = len(section.errors)
    section.read(mapping(node), TLS, _ABOUT + ", unknown field {key}")
    if len(section.errors) > errors_before:
        return None
    values = section.values
    cert_file, key_file = values.get("cert_file", ""), values.get("key_file", "")
    if cert_file and not key_file:
        raise Refusal(node, "missing 'key_file' in TLS configuration")
    if key_file and not cert_file:
        raise Refusal(node, "missing 'cert_file' in TLS configuration")
    maps_users = values.get("maps_users", False)
    settings = TlsSettings(
        cert_file=cert_file,
        key_file=key_file,
        ca_file=values.get("ca_file", ""),
        verify=values.get("verify", False) or maps_users,
        cipher_suites=values.get("cipher_suites", ()),
        curve=values.get("curve", ""),
        only_tls_1_3=values.get("only_tls_1_3", False),
    )
    try:
        check(settings)
    except OperatingError as error:
        raise Refusal(node, str(error)) from None
    if not values.get("timeout_s"):
        # As nats-server reads a time of zero.
        values.pop("timeout_s", None)
    rest = ("timeout_s", "is_first", "first_wait_s", "pinned_keys")
    return TlsOptions(
        settings, maps_users=maps_users, **{name: values[name] for name in rest if name in values}
    )


def _timeout(draft: Draft, key: str, node: Value) -> None:
    value = node.value
    if isinstance(value, str):
        draft.values["timeout_s"] = duration_s(node, value, f"{_ABOUT}, 'timeout'")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        draft.values["timeout_s"] = float(value)
    else:
        raise Refusal(node, f"{_ABOUT}, 'timeout' wrong type")


def _file(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, str):
        raise Refusal(node, f"{_ABOUT}, expected {_quoted(key)} to be filename")
    draft.values[key.lower()] = node.value


def _switch(name: str) -> Handler:
    def handler(draft: Draft, key: str, node: Value) -> None:
        if not isinstance(node.value, bool):
            raise Refusal(node, f"{_ABOUT}, expected {_quoted(key)} to be a boolean")
        draft.values[name] = node.value

    return handler


def _quoted(key: str) -> str:
    return f"'{key.lower()}'"


def _handshake_first(draft: Draft, key: str, node: Value) -> None:
    value = node.value
    if isinstance(value, bool):
        draft.values["is_first"] = value
        return
    if not isinstance(value, str):
        what = f"should be a boolean or a string, got {type_name(node)}"
        raise Refusal(node, f"field {quote(key)} {what}")
    word = value.strip().lower()
    if word in ("true", "on"):
        draft.values["is_first"] = True
    elif word in ("false", "off"):
        draft.values["is_first"] = False
    elif word in ("auto", "auto_fallback"):
        draft.values.update(is_first=True, first_wait_s=AUTO_FIRST_WAIT_S)
    else:
        try:
            nanoseconds = parse_duration(word)
        except ValueError:
            raise Refusal(node, f"field {quote(key)}'s value {quote(value)} is invalid") from None
        draft.values.update(is_first=True, first_wait_s=nanoseconds / 1e9)


def _min_version(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, str):
        raise Refusal(node, f"{_ABOUT}: 'min_version' wrong type: {value_text(node)}")
    version = _VERSIONS.get(node.value)
    if version is None:
        raise Refusal(node, f"{_ABOUT}: unknown version: {node.value}")
    if version in ("TLS 1.0", "TLS 1.1"):
        raise Refusal(node, f"{_ABOUT}: unsupported TLS version: {version}")
    draft.values["only_tls_1_3"] = version == "TLS 1.3"


def _cipher_suites(draft: Draft, key: str, node: Value) -> None:
    names = _names(node, "cipher_suites")
    for item, name in names:
        if name not in CIPHERS and name not in CIPHERS_OF_TLS_1_3:
            raise Refusal(item, f"unrecognized cipher {name}")
    draft.values["cipher_suites"] = tuple(name for _, name in names)


def _curve_preferences(draft: Draft, key: str, node: Value) -> None:
    names = _names(node, "curve_preferences")
    for item, name in names:
        if name not in CURVES:
            raise Refusal(item, f"unrecognized curve preference {name}")
    if len(names) > 1:
        raise Refusal(node, f"{key} with several curves is not supported, name one or none")
    draft.values["curve"] = names[0][1]


def _names(node: Value, key: str) -> list[tuple[Value, str]]:
    if not isinstance(node.value, list) or not node.value:
        raise Refusal(node, f"{_ABOUT}, '{key}' cannot be empty")
    return [(item, string(item)) for item in node.value]


def _pinned_certs(draft: Draft, key: str, node: Value) -> None:
    if not isinstance(node.value, list):
        raise Refusal(node, f"{_ABOUT}, expected 'pinned_certs' to be a list of {_KEY_FORM}")
    keys = set()
    for item in node.value:
        text = string(item).lower()
        if not _KEY_ID.fullmatch(text):
            raise Refusal(
                item, f"{_ABOUT}, 'pinned_certs' key {text} does not look like {_KEY_FORM}"
            )
        keys.add(text)
    draft.values["pinned_keys"] = frozenset(keys)


def _known_urls(draft: Draft, key: str, node: Value) -> None:
    raise Refusal(node, "verify_cert_and_check_known_urls not supported in this context")


TLS: Final[Table] = table(
    ("cert_file", _file),
    ("key_file", _file),
    ("ca_file", _file),
    ("verify", _switch("verify")),
    ("verify_and_map", _switch("maps_users")),
    ("verify_cert_and_check_known_urls", _known_urls),
    ("timeout", _timeout),
    ("handshake_first first immediate", _handshake_first),
    ("min_version", _min_version),
    ("cipher_suites", _cipher_suites),
    ("curve_preferences", _curve_preferences),
    ("pinned_certs", _pinned_certs),
    ("insecure", not_supported(_ONLY_OF_CLIENTS)),
    ("connection_rate_limit", not_supported()),
    ("certs", not_supported("name one certificate by cert_file and key_file")),
    ("ocsp_peer", not_supported()),
    ("cert_store", not_supported("name files by cert_file and key_file")),
    ("cert_match", not_supported("name files by cert_file and key_file")),
    ("cert_match_by", not_supported("name files by cert_file and key_file")),
    ("cert_match_skip_invalid", not_supported("name files by cert_file and key_file")),
    ("ca_certs_match", not_supported("name a file by ca_file")),
)

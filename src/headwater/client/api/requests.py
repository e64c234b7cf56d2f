"""Requests of the JetStream API: the operation, the body, and the names they are about.

Bodies are sent as they are given, so that a setting this module has never heard of passes through.

Must not know: connections, and what the server answers.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

Document = dict[str, Any]

DEFAULT_PREFIX: Final = "$JS.API"


def prefix_of(domain: str | None, api_prefix: str | None) -> str:
    """The subject before an operation, without its last dot.

    A domain has an API of its own; an API that is imported from another account has any prefix.
    """
    if domain is not None:
        return f"$JS.{domain}.API"
    return DEFAULT_PREFIX if api_prefix is None else api_prefix.removesuffix(".")


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request; `operation` is its subject after the prefix of the API.

    `stream` and `consumer` are empty where the request is about none. A request without a body has
    an empty payload.
    """

    operation: str
    body: Mapping[str, Any] | None = None
    stream: str = ""
    consumer: str = ""

    def subject(self, prefix: str) -> str:
        """The subject to publish to; `prefix` has no dot at its end."""
        return f"{prefix}.{self.operation}"

    @property
    def payload(self) -> bytes:
        """The body in JSON."""
        # Not msgspec, which refuses integers of more than 64 bits: the server is to refuse those.
        return b"" if self.body is None else json.dumps(self.body).encode()


def account_info() -> ApiRequest:
    """The information of the account, with the limits of the server for all accounts."""
    # nats-server does not look at the body.
    return ApiRequest("INFO", {"server_limits": True})


# --- streams ------------------------------------------------------------------------------------


def stream_create(config: Mapping[str, Any], *, pedantic: bool = False) -> ApiRequest:
    """Create the stream that `config` names."""
    return _stream("CREATE", config["name"], _pedantically(config, pedantic))


def stream_update(config: Mapping[str, Any], *, pedantic: bool = False) -> ApiRequest:
    """Give the stream that `config` names this configuration."""
    return _stream("UPDATE", config["name"], _pedantically(config, pedantic))


def stream_info(stream: str, wanted: Mapping[str, Any] | None = None) -> ApiRequest:
    """The configuration and state of a stream; `wanted` asks for subjects or deleted sequences."""
    return _stream("INFO", stream, wanted or None)


def stream_delete(stream: str) -> ApiRequest:
    """Delete a stream with all its messages and consumers."""
    return _stream("DELETE", stream)


def stream_purge(stream: str, limits: Mapping[str, Any]) -> ApiRequest:
    """Delete the messages of a stream, or those within `limits`: filter, seq, keep."""
    return _stream("PURGE", stream, limits)


def message_get(stream: str, wanted: Mapping[str, Any]) -> ApiRequest:
    """One message: `{"seq": n}`, `{"last_by_subj": s}`, or `next_by_subj` from a `seq` on."""
    return _stream("MSG.GET", stream, wanted)


def stream_snapshot(stream: str, options: Mapping[str, Any]) -> ApiRequest:
    """Send an archive of a stream to the `deliver_subject` of the options."""
    return _stream("SNAPSHOT", stream, options)


def stream_restore(config: Mapping[str, Any], state: Mapping[str, Any]) -> ApiRequest:
    """Make the stream that `config` names from an archive that is sent afterwards."""
    return _stream("RESTORE", config["name"], {"config": config, "state": state})


def stream_step_down(stream: str, preferred: str | None = None) -> ApiRequest:
    """Let the leader of a stream hand over, to the `preferred` server if one is named."""
    return _stream("LEADER.STEPDOWN", stream, _preferring(preferred))


def stream_peer_remove(stream: str, server: str) -> ApiRequest:
    """Take the replica of a stream from a server, and give it to another one."""
    return _stream("PEER.REMOVE", stream, {"peer": server})


# --- consumers ----------------------------------------------------------------------------------


def consumer_create(
    stream: str,
    config: Mapping[str, Any],
    *,
    action: str = "create",
    pedantic: bool = False,
    has_filter_in_subject: bool = False,
) -> ApiRequest:
    """Create a consumer, or update it with the action "update".

    A consumer without a name gets one from the server. With its filter in the subject of the
    request, users can be permitted to create consumers by filter.
    """
    name = config.get("name") or ""
    words = ["CREATE", stream]
    if name:
        words.append(name)
        if has_filter_in_subject and config.get("filter_subject"):
            words.append(config["filter_subject"])
    body = {"stream_name": stream, "config": config, "action": action}
    return ApiRequest(
        f"CONSUMER.{'.'.join(words)}", _pedantically(body, pedantic), stream, str(name)
    )


def consumer_info(stream: str, consumer: str) -> ApiRequest:
    """The configuration and state of a consumer."""
    return _consumer("INFO", stream, consumer)


def consumer_delete(stream: str, consumer: str) -> ApiRequest:
    """Delete a consumer."""
    return _consumer("DELETE", stream, consumer)


def consumer_pause(stream: str, consumer: str, until: str | None) -> ApiRequest:
    """Pause a consumer until a time; None resumes it."""
    return _consumer("PAUSE", stream, consumer, {} if until is None else {"pause_until": until})


def message_next(stream: str, consumer: str, wanted: Mapping[str, Any] | None = None) -> ApiRequest:
    """Pull messages from a consumer; they come to the reply subject."""
    return _consumer("MSG.NEXT", stream, consumer, wanted)


def consumer_step_down(stream: str, consumer: str, preferred: str | None = None) -> ApiRequest:
    """Let the leader of a consumer hand over, to the `preferred` server if one is named."""
    return _consumer("LEADER.STEPDOWN", stream, consumer, _preferring(preferred))


# --- servers, for users of the system account ---------------------------------------------------


def meta_step_down(preferred: str | None = None) -> ApiRequest:
    """Let the leader of the cluster hand over, to the `preferred` server if one is named."""
    return ApiRequest("META.LEADER.STEPDOWN", _preferring(preferred))


def server_remove(server: str) -> ApiRequest:
    """Remove a server from the cluster for good; its replicas go to other servers."""
    return ApiRequest("SERVER.REMOVE", {"peer": server})


def _preferring(server: str | None) -> Mapping[str, Any] | None:
    return None if server is None else {"placement": {"preferred": server}}


def _stream(operation: str, stream: str, body: Mapping[str, Any] | None = None) -> ApiRequest:
    return ApiRequest(f"STREAM.{operation}.{stream}", body, stream)


def _consumer(
    operation: str, stream: str, consumer: str, body: Mapping[str, Any] | None = None
) -> ApiRequest:
    return ApiRequest(f"CONSUMER.{operation}.{stream}.{consumer}", body, stream, consumer)


def _pedantically(body: Mapping[str, Any], pedantic: bool) -> Mapping[str, Any]:
    """The body; a pedantic server refuses a setting that it would adjust otherwise."""
    return {**body, "pedantic": True} if pedantic else body

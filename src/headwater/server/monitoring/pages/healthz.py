"""/healthz: whether the server can serve clients and streams.

On a server on its own, only streams with files are checked, because nats-server checks its folders:
streams in memory do not count. In a cluster, the streams are checked that are assigned to the
server (`group_health`).
"""

from collections.abc import Iterator
from typing import Final

from headwater.go.quoting import quote
from headwater.server.monitoring.facts import Facts
from headwater.server.monitoring.pages.documents import View
from headwater.server.monitoring.pages.group_health import (
    assigned_streams,
    group_problem,
    is_assigned_elsewhere,
    meta_problem,
)
from headwater.server.streams.facts import StreamFacts
from headwater.store.store import LOST_STREAM

OK: Final = 200
BAD_REQUEST: Final = 400
NOT_FOUND: Final = 404
NOT_READY: Final = 500
UNAVAILABLE: Final = 503

_BAD_REQUEST_TYPE: Final = "BAD_REQUEST"
_CONNECTION_TYPE: Final = "CONNECTION"
_JETSTREAM_TYPE: Final = "JETSTREAM"
_ACCOUNT_TYPE: Final = "ACCOUNT"
_STREAM_TYPE: Final = "STREAM"
_CONSUMER_TYPE: Final = "CONSUMER"

_ERROR: Final = "error"
_NOT_AVAILABLE: Final = "unavailable"


class HealthzOptions(View, kw_only=True, rename="kebab"):
    """The part of the server to check."""

    js_enabled: bool = False
    js_enabled_only: bool = False
    js_server_only: bool = False
    js_meta_only: bool = False
    account: str = ""
    stream: str = ""
    consumer: str = ""
    details: bool = False


class HealthError(View, kw_only=True):
    """One problem of the server."""

    type: str
    account: str = ""
    stream: str = ""
    consumer: str = ""
    error: str


class Health(View, kw_only=True):
    """The verdict. HTTP has the code in its status line and not in the document."""

    status: str
    status_code: int = 0
    error: str = ""
    errors: tuple[HealthError, ...] = ()


def healthz(facts: Facts, options: HealthzOptions) -> Health:
    """The verdict on this server."""
    if options.stream and not options.account:
        return _bad_request(options, _missing("account", "stream"))
    if options.consumer and not options.stream:
        return _bad_request(options, _missing("stream", "consumer"))
    if facts.is_lame_duck:
        text = "failed to be ready for connections after 1ms: server"
        error = HealthError(type=_CONNECTION_TYPE, error=text)
        return _unwell(options, NOT_READY, _ERROR, [error])
    if options.js_server_only or not facts.options.jetstream.enabled:
        return _WELL
    streams = facts.streams
    if streams is None:
        text = "jetstream not enabled (10076)"
        error = HealthError(type=_JETSTREAM_TYPE, error=text)
        return _unwell(options, UNAVAILABLE, _NOT_AVAILABLE, [error])
    if streams.offline:
        text = f"JetStream can not write: {streams.offline}"
        error = HealthError(type=_JETSTREAM_TYPE, error=text)
        return _unwell(options, UNAVAILABLE, _NOT_AVAILABLE, [error])
    if options.js_enabled_only or options.js_enabled:
        return _WELL
    if facts.cluster is not None:
        problem = meta_problem(facts)
        if problem:
            error = HealthError(type=_JETSTREAM_TYPE, error=problem)
            return _unwell(options, UNAVAILABLE, _NOT_AVAILABLE, [error])
        if options.js_meta_only:
            return _WELL
    return _verdict_on_streams(facts, streams, options)


_WELL: Final = Health(status="ok", status_code=OK)


def _verdict_on_streams(facts: Facts, streams: StreamFacts, options: HealthzOptions) -> Health:
    account, stream = options.account, options.stream
    lost = streams.lost_streams()
    every = [*streams.stored_streams(), *lost]
    if facts.cluster is not None:
        every = [*dict.fromkeys((*assigned_streams(facts, account), *lost))]
    of_account = [each for each in every if account in ("", each[0])]
    stored = [each for each in of_account if stream in ("", each[1])]
    errors = [*_problems_of_all(streams)]
    errors += [_lost(*each) for each in stored if each in lost]
    errors += [
        error
        for owner, name in stored
        if (owner, name) not in lost
        for error in _problems(facts, streams, owner, name)
    ]
    missing = None
    if account and not of_account and not is_assigned_elsewhere(facts, account):
        text = f"JetStream account {quote(account)} not found"
        missing = HealthError(type=_ACCOUNT_TYPE, account=account, error=text)
    elif stream and not stored:
        text = f"JetStream stream {quote(stream)} not found on account {quote(account)}"
        missing = HealthError(type=_STREAM_TYPE, account=account, stream=stream, error=text)
    elif _is_consumer_missing(streams, options) and (options.details or not errors):
        text = (
            f"JetStream consumer {quote(options.consumer)} not found for stream {quote(stream)} "
            f"on account {quote(account)}"
        )
        missing = HealthError(
            type=_CONSUMER_TYPE,
            account=account,
            stream=stream,
            consumer=options.consumer,
            error=text,
        )
    if missing is not None:
        return _unwell(options, NOT_FOUND, _NOT_AVAILABLE, [missing])
    return _unwell(options, UNAVAILABLE, _NOT_AVAILABLE, errors) if errors else _WELL


def _is_consumer_missing(streams: StreamFacts, options: HealthzOptions) -> bool:
    """Whether a consumer is asked for that is not there."""
    account = streams.accounts.get(options.account)
    stream = None if account is None else account.streams.get(options.stream)
    named = options.consumer
    return bool(named) and (stream is None or named not in stream.consumers.by_name)


def _problems_of_all(streams: StreamFacts) -> Iterator[HealthError]:
    """Problems of the disk and the files that all streams share."""
    if streams.full:
        text = f"JetStream refuses messages: {streams.full}"
        yield HealthError(type=_JETSTREAM_TYPE, error=text)
    if streams.file_problem:
        text = f"JetStream's files: {streams.file_problem}"
        yield HealthError(type=_JETSTREAM_TYPE, error=text)


def _problems(facts: Facts, streams: StreamFacts, owner: str, name: str) -> Iterator[HealthError]:
    """The problems of one stream."""
    if facts.accounts.get(owner) is None:
        text = f"JetStream account '{owner}' could not be resolved"
        yield HealthError(type=_ACCOUNT_TYPE, account=owner, error=text)
        return
    account = streams.accounts.get(owner)
    stream = None if account is None else account.streams.get(name)
    group = "" if facts.cluster is None else group_problem(facts, owner, name)
    if group:
        text = f"JetStream stream '{owner} > {name}' is not current: {group}"
        yield HealthError(type=_STREAM_TYPE, account=owner, stream=name, error=text)
    elif stream is None:
        text = f"JetStream stream '{owner} > {name}' could not be recovered"
        yield HealthError(type=_STREAM_TYPE, account=owner, stream=name, error=text)
    elif stream.log.offline:
        text = f"JetStream stream '{owner} > {name}' write error: {stream.log.offline}"
        yield HealthError(type=_STREAM_TYPE, account=owner, stream=name, error=text)
    else:
        damage = streams.damage_of(owner, name)
        if damage:
            text = f"JetStream stream '{owner} > {name}' is damaged: {damage}"
            yield HealthError(type=_STREAM_TYPE, account=owner, stream=name, error=text)


def _lost(owner: str, name: str) -> HealthError:
    """The error of a stream whose files are gone."""
    text = (
        f"JetStream stream '{owner} > {name}' is lost: {LOST_STREAM}; restore it from a backup, "
        "or create it again"
    )
    return HealthError(type=_STREAM_TYPE, account=owner, stream=name, error=text)


def _missing(needed: str, checked: str) -> str:
    return f'"{needed}" must not be empty when checking {checked} health'


def _bad_request(options: HealthzOptions, text: str) -> Health:
    error = HealthError(type=_BAD_REQUEST_TYPE, error=text)
    return _unwell(options, BAD_REQUEST, _ERROR, [error])


def _unwell(options: HealthzOptions, code: int, status: str, errors: list[HealthError]) -> Health:
    """The verdict with all errors where details were asked for, else with the first error."""
    if options.details:
        return Health(status=_ERROR, status_code=code, errors=tuple(errors))
    return Health(status=status, status_code=code, error=errors[0].error)

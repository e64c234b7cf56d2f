"""Streams brought back from the store when a server starts, and the log lines about them.

A stream that cannot be opened is reported and its files are kept: another version, or another key,
may be able to read them. Only a log that a restore has not filled to its end is removed: the set of
streams has no record of it.
"""

from headwater.jetstream.account import JetStreamAccount
from headwater.jetstream.records import StreamCreated
from headwater.jetstream.streams.recovery import config_of
from headwater.jetstream.streams.stream import Stream
from headwater.server.log import Log
from headwater.server.streams.storage.stream_set_log import StreamKey
from headwater.server.streams.storage.stream_store import StreamStore
from headwater.server.streams.stream_set_runner import StreamSetRunner
from headwater.store.log.message_log import StoreError


def recover_set(files: StreamStore, stream_set: StreamSetRunner) -> None:
    """Bring the set of streams and the folders of a store that was just opened together.

    A folder without a record is adopted, and a creation that a crash has interrupted is finished.
    """
    adoption = files.set_log.decide_adopt(
        lambda key: files.body_of(key, files.store.logs[str(key)])
    )
    if adoption.records:
        stream_set.propose(adoption)
        stream_set.commit()
    for created in files.set_log.unmade:
        _finish_creation(files, created, stream_set)


def _finish_creation(
    files: StreamStore, created: StreamCreated, stream_set: StreamSetRunner
) -> None:
    """Make the log of a stream whose creation a crash has interrupted."""
    try:
        files.make_log(created)
    except StoreError as error:
        files.store.findings.add("unmade", str(error))
        stream_set.withdraw(created, error)
        stream_set.commit()


def recover_stream(
    files: StreamStore,
    key: StreamKey,
    account: JetStreamAccount | None,
    now_ns: int,
    log: Log,
    has_encryption_key: bool,
) -> Stream | None:
    """The stream of a stored log; None, with a line in the log, if it cannot run."""
    if account is None:
        log.warn(f"Stream {key} belongs to an account without JetStream: it is kept")
        return None
    stored = files.store.logs.get(str(key))
    if stored is None:
        reason = files.store.unreadable.get(str(key), "")
        log.error(f"Stream {key} cannot be opened: {reason}")
        return None
    if has_encryption_key and not files.store.is_encrypted(str(key)):
        log.warn(f"Stream {key} was made without a key and stays unencrypted")
    try:
        body = files.body_of(key, stored)
        created = files.set_log.streams.get(*key)
        is_recorded = created is not None and created.incarnation == stored.identity
        if body.unfinished and created is not None and is_recorded:
            # The restore was at its end when the process was.
            files.finish_log(created, stored)
            body = files.body_of(key, stored)
        if body.unfinished:
            log.warn(f"Stream {key} was not restored to its end: it is removed")
            files.store.remove_stream(str(key))
            return None
    except StoreError as error:
        log.error(str(error))
        return None
    stream = Stream(config_of(body, stored), stored, body.created_ns, account)
    try:
        stream.recover(now_ns)
    except StoreError as error:
        log.error(f"Stream {key} cannot be opened: {error}")
        return None
    if stored.offline:
        log.error(f"Stream {key} can be read only: {stored.offline}")
    return stream


def report_recovered(files: StreamStore, key: StreamKey, stream: Stream, log: Log) -> None:
    """Log the findings of recovery in the files of a stream that runs again."""
    for finding in files.store.logs[str(key)].findings.reported:
        log.warn(f"Stream {key}: {finding}")
    for reason in stream.publishing.rules.set_aside:
        log.error(f"Stream {key}: {reason}")
    log.info(f"  Restored {stream.log.messages} messages for stream '{key.account} > {key.stream}'")

"""The origins of one stream that is led here: opened and closed with its configuration."""

from typing import final

from headwater.jetstream.api.keepers import CopyInfo
from headwater.jetstream.config.stream_config import StreamConfig, origin_read_by
from headwater.jetstream.copying.origins import Home, Origin, origins_of
from headwater.jetstream.streams.stream import Stream
from headwater.server.streams.copying.origin_runner import OriginRunner
from headwater.server.streams.copying.room import CopyRoom, Target
from headwater.server.streams.copying.transit import Transit


@final
class StreamCopies:
    """The copies of one stream, until `close`."""

    __slots__ = ("_answers_for", "_config", "_home", "_room", "_runners", "_target", "_transits")

    def __init__(self, room: CopyRoom, target: Target) -> None:
        self._room = room
        self._target = target
        self._home = Home(target.stream.name, target.account.name, room.domain)
        self._config: StreamConfig | None = None
        # The origin whose direct reads a mirror answers; empty if it answers none.
        self._answers_for = ""
        self._runners: list[OriginRunner] = []
        # By the index names of origins that are copied, or were while a part was on its way.
        self._transits: dict[bytes, Transit] = {}

    def configure(self, config: StreamConfig) -> None:
        """Copy the origins of a configuration; those that were copied already go on."""
        before, self._config = self._config, config
        self._answer_reads(config)
        copied = (config.mirror, config.sources)
        if before is None or (before.mirror, before.sources) != copied:
            self._open_all(origins_of(config, self._home))
        if self.mirrored is not None:
            self.mirrored.set_max_staleness(config.max_staleness)

    def _open_all(self, origins: list[Origin]) -> None:
        names = {origin.index_name: origin for origin in origins}
        kept: dict[bytes, OriginRunner] = {}
        for runner in self._runners:
            name = runner.origin.index_name
            if name in names and runner.origin.is_equal(names[name]):
                kept[name] = runner
            else:
                runner.close()
        self._runners = [kept.get(origin.index_name) or self._opened(origin) for origin in origins]
        for name in [*self._transits]:
            if name not in names and not self._transits[name].count:
                del self._transits[name]

    def _opened(self, origin: Origin) -> OriginRunner:
        transit = self._transits.setdefault(origin.index_name, Transit())
        runner = OriginRunner(self._room, self._target, origin, transit)
        runner.open()
        return runner

    def _answer_reads(self, config: StreamConfig) -> None:
        """Answer direct reads of the origin if the configuration says so."""
        origin, self._answers_for = self._answers_for, ""
        mirrors, account = self._room.mirrors, self._target.account.name
        if origin:
            mirrors.remove(account, origin, self)
        self._answers_for = origin_read_by(config)
        if self._answers_for:
            mirrors.add(account, self._answers_for, self)

    @property
    def answers_reads(self) -> bool:
        """Whether a mirror may answer direct reads of its origin now."""
        mirrored = self.mirrored
        return mirrored is not None and mirrored.may_be_read()

    @property
    def is_whole(self) -> bool:
        """Whether a mirror has all messages of its origin, as they are there."""
        source = self.stream.config.mirror
        return source is not None and not (
            source.filter_subject
            or source.subject_transforms
            or source.opt_start_seq
            or source.opt_start_time
        )

    @property
    def stream(self) -> Stream:
        """The stream that copies."""
        return self._target.stream

    def close(self) -> None:
        """Copy nothing any more."""
        self._room.mirrors.remove(self._target.account.name, self._answers_for, self)
        for runner in self._runners:
            runner.close()
        self._runners = []

    @property
    def mirrored(self) -> OriginRunner | None:
        """The origin of a mirror; None for any other stream."""
        for runner in self._runners:
            if runner.origin.is_mirrored:
                return runner
        return None

    def info(self) -> CopyInfo:
        """The documents about all origins."""
        mirrored = self.mirrored
        if mirrored is not None:
            return CopyInfo(mirrored.info(), [])
        return CopyInfo(None, [runner.info() for runner in self._runners])

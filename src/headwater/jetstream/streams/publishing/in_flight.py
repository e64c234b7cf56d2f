"""Records in flight: appended to a stream's log, and not yet applied because the disk is not done.

Two facts follow from them and are needed all the time: which messages of the log are not visible
(`uncommitted`), and the content of the stream after all of them are applied (`forecast`). Both are
computed when they are first needed and updated record by record from then on, so that the cost of a
turn depends on the turn, however much is in flight. When nothing is in flight they are dropped.

This module reads the log and never changes it.
"""

from collections import deque
from typing import Final, final

from headwater.jetstream.config.stream_config import StreamConfig
from headwater.jetstream.records import Published, Skipped
from headwater.jetstream.streams.effects import purges_of_skipped, roll_ups_in
from headwater.jetstream.streams.limits import NOTHING_UNCOMMITTED, Uncommitted
from headwater.jetstream.streams.publishing.forecast import Forecast
from headwater.store.log.message_log import MessageLog

# The limit of messages in flight: further publishes are refused. Recovery relies on it.
IN_FLIGHT_MESSAGES_MAX: Final = 16_384
# A forecast keeps data of records that were applied long ago. It is rebuilt when it has seen this
# many more messages than are in flight: the rebuild costs no more than the forecast has saved.
FORGOTTEN_MESSAGES_MIN: Final = 4096


@final
class InFlight:
    """The records in flight of one stream, oldest first."""

    __slots__ = ("_forecast", "_foreseen", "_log", "_records", "_shown", "_uncommitted", "messages")

    def __init__(self, log: MessageLog) -> None:
        self._log = log
        self._records: deque[Published | Skipped] = deque()
        # The number of messages in the records, and the visible ones of the oldest record.
        self.messages = 0
        self._shown = 0
        # Computed when first needed; the forecast with the number of messages that it has seen.
        self._uncommitted: Uncommitted | None = None
        self._forecast: Forecast | None = None
        self._foreseen = 0

    def __len__(self) -> int:
        return len(self._records)

    @property
    def oldest(self) -> Published | Skipped | None:
        """The record that is applied next."""
        return self._records[0] if self._records else None

    def add(self, record: Published | Skipped, config: StreamConfig) -> None:
        """Add a record that was appended to the log."""
        self._records.append(record)
        self.messages += _message_count(record)
        if self._uncommitted is not None and isinstance(record, Published):
            self._uncommitted.hide(self._log, record.first_sequence, record.batch.subjects)
        if self._forecast is not None:
            self._forecast.go_back(0)
            if isinstance(record, Published):
                self._forecast.follow(record.batch.subjects)
            self._foresee(self._forecast, record, config)

    def show(self, count: int) -> None:
        """Note that `count` messages of the oldest record are visible now."""
        record = self._records[0]
        if self._uncommitted is not None and isinstance(record, Published):
            first = record.first_sequence + self._shown
            self._uncommitted.show(self._log, first, record.batch.subjects[self._shown : count])
        self._shown = count

    def remove_oldest(self) -> None:
        """Remove the oldest record, which was applied."""
        count = _message_count(self._records[0])
        self.show(count)
        self._records.popleft()
        self._shown = 0
        self.messages -= count
        if not self._records:
            self._uncommitted = self._forecast = None

    def stream_changed(self) -> None:
        """Drop the forecast, because another change of the stream makes it wrong."""
        self._forecast = None

    # --- derived facts -------------------------------------------------------------------------

    def uncommitted(self) -> Uncommitted:
        """The messages that the log has and that are not yet visible."""
        if self.messages == self._shown:
            return NOTHING_UNCOMMITTED
        if self._uncommitted is None:
            self._uncommitted = Uncommitted()
            shown = self._shown
            for record in self._records:
                if isinstance(record, Published):
                    first, subjects = record.first_sequence + shown, record.batch.subjects[shown:]
                    self._uncommitted.hide(self._log, first, subjects)
                shown = 0
        return self._uncommitted

    def forecast(self, config: StreamConfig) -> Forecast:
        """The content of the stream after all records are applied, for a turn to build on.

        The next call undoes what the turn has added.
        """
        if not self._records:
            return Forecast(self._log, config)
        if self._foreseen > 2 * self.messages + FORGOTTEN_MESSAGES_MIN:
            self._forecast = None
        if self._forecast is None:
            self._forecast = self._new_forecast(config)
        self._forecast.go_back(0)
        return self._forecast

    def _new_forecast(self, config: StreamConfig) -> Forecast:
        self._foreseen = 0
        forecast = Forecast(self._log, config)
        for record in self._records:
            if isinstance(record, Published):
                forecast.hide(record.first_sequence, record.batch.subjects)
        for record in self._records:
            self._foresee(forecast, record, config)
        return forecast

    def _foresee(
        self, forecast: Forecast, record: Published | Skipped, config: StreamConfig
    ) -> None:
        """Add the effects of an appended record to a forecast."""
        if isinstance(record, Skipped):
            forecast.purge(purges_of_skipped(record, config))
        else:
            roll_ups = dict(roll_ups_in(record, config)) if record.rolls_up else {}
            for position, subject in enumerate(record.batch.subjects):
                sequence = record.first_sequence + position
                forecast.add(sequence, subject, self._log.size_of(sequence))
                if roll_ups:
                    forecast.purge(roll_ups.get(position + 1, []))
        self._foreseen += _message_count(record)
        forecast.settle()


def _message_count(record: Published | Skipped) -> int:
    return len(record.batch.subjects) if isinstance(record, Published) else 0

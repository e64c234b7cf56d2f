"""Connections that a server makes to others: when they are tried, tried again, and given up.

A configured route is dialled for ever. A server that another one named is dialled as long as one of
the peers has a link to it, and `connect_retries` times otherwise; one that was never reached is not
dialled any more as soon as nobody names it. Their number is limited, so that a peer that names
servers which do not exist has few connections made at a time.

Must not know: handshakes and frames. A channel that was dialled reports its opening and its end.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final, final

from headwater.runtime.environment import Environment
from headwater.runtime.sockets.client_connection import ConnectionHandler
from headwater.server.cluster.handshake import Credentials
from headwater.server.cluster.members import MEMBERS_MAX
from headwater.server.cluster.targets import (
    REFUSALS_IN_STEP,
    Target,
    delay_s,
    is_reported,
    may_retry,
    renewal_delay_s,
)
from headwater.server.configuration.options import RouteUrl
from headwater.server.log import Log
from headwater.server.settings import Settings
from headwater.wire.peer_info import Purpose

DIAL_S_MAX: Final = 1.0


@final
class Dialler:
    """The targets of one server.

    `new_handler` makes the handler of a connection; `has_channel` tells whether a server is
    connected for a purpose, and `is_vouched_for` whether one of the peers has a link to it;
    `unreachable` is called with the name of a server that was met before and refuses connections.
    """

    __slots__ = (
        "_entropy",
        "_has_channel",
        "_is_stopped",
        "_is_vouched_for",
        "_log",
        "_network",
        "_new_handler",
        "_scheduler",
        "_settings",
        "_targets",
        "_unreachable",
    )

    def __init__(
        self,
        environment: Environment,
        settings: Settings,
        log: Log,
        new_handler: Callable[[Target, Purpose], ConnectionHandler],
        has_channel: Callable[[str, Purpose], bool],
        is_vouched_for: Callable[[str], bool],
        unreachable: Callable[[str], None],
    ) -> None:
        self._network = environment.network
        self._scheduler = environment.scheduler
        self._entropy = environment.entropy
        self._settings = settings
        self._log = log
        self._new_handler = new_handler
        self._has_channel = has_channel
        self._is_vouched_for = is_vouched_for
        self._unreachable = unreachable
        # By address.
        self._targets: dict[str, Target] = {}
        self._is_stopped = False

    def add_routes(self, routes: Iterable[RouteUrl]) -> None:
        """Dial configured routes."""
        for route in routes:
            credentials = Credentials(route.username, route.password)
            self.add(Target(route.host, route.port, credentials, is_configured=True))

    def add(self, target: Target) -> None:
        """Dial a target, unless its address is one already.

        A configured route has its own credentials, also if another server named its address before.
        Of those that other servers name, no more than MEMBERS_MAX are dialled.
        """
        known = self._targets.get(target.address)
        if known is not None:
            if target.is_configured:
                known.is_configured, known.credentials = True, target.credentials
            return
        routes = self._settings.options.cluster.routes
        if not target.is_configured and len(self._targets) >= MEMBERS_MAX + len(routes):
            return
        self._targets[target.address] = target
        self.dial(target, Purpose.MESSAGES)

    def drop_unnamed(self, named: Collection[str]) -> None:
        """Dial servers no more that no peer names, by their ids, and that were never reached.

        A server that is being dialled is dropped when that has failed.
        """
        for target in [*self._targets.values()]:
            attempts = target.attempts.values()
            is_known = (
                target.is_configured
                or any(attempt.reached for attempt in attempts)
                or self._has_channel(target.peer_id, Purpose.MESSAGES)
            )
            is_busy = any(attempt.is_under_way for attempt in attempts)
            if not (is_known or is_busy or target.peer_id in named):
                self.remove(target.address)

    def remove(self, address: str) -> Target | None:
        """Dial an address no more. Returns the target that it was."""
        target = self._targets.pop(address, None)
        if target is not None:
            target.end()
        return target

    def stop(self) -> None:
        """Dial no more."""
        self._is_stopped = True
        for target in self._targets.values():
            target.end()

    def dial(self, target: Target, purpose: Purpose) -> None:
        """Connect to a target, unless that is being done or has been done."""
        attempt = target.attempts[purpose]
        attempt.cancel()
        if (
            self._is_stopped
            or target.is_over
            or attempt.is_under_way
            or self._has_channel(target.peer_id, purpose)
        ):
            return
        attempt.is_under_way = True
        self._log.debug(f"Trying to connect to route on {target.address}")
        self._network.dial(
            target.host,
            target.port,
            self._new_handler(target, purpose),
            DIAL_S_MAX,
            lambda reason: self._failed(target, purpose, reason),
        )

    def opened(self, target: Target, purpose: Purpose) -> None:
        """A channel to a target is open; the dialling server makes both channels of a link."""
        attempt = target.attempts[purpose]
        attempt.is_under_way, attempt.reached, attempt.failures = False, True, 0
        target.is_refused = False
        if purpose is Purpose.MESSAGES:
            self.dial(target, Purpose.CONSENSUS)

    def ended(self, target: Target, purpose: Purpose, is_renewable: bool) -> None:
        """A channel to a target has ended, or its handshake has failed.

        A channel that was open for a while `is_renewable`: its target is dialled again at once.
        """
        attempt = target.attempts[purpose]
        if attempt.is_under_way:
            attempt.is_under_way = False
            attempt.failures += 1
        if not self._has_channel(target.peer_id, purpose):
            self._dial_later(target, purpose, is_renewable)

    def dial_configured(self, server_id: str, purpose: Purpose, is_renewable: bool) -> None:
        """Dial a server whose own connection is lost, if it is one of the configured routes."""
        for target in [*self._targets.values()]:
            if target.peer_id == server_id and target.is_configured:
                self._dial_later(target, purpose, is_renewable)

    def _failed(self, target: Target, purpose: Purpose, reason: str) -> None:
        attempt = target.attempts[purpose]
        attempt.is_under_way = False
        attempt.failures += 1
        options = self._settings.options
        reports = (
            options.reconnect_error_reports if attempt.reached else options.connect_error_reports
        )
        text = f"Error trying to connect to route (attempt {attempt.failures}): {reason}"
        if is_reported(attempt.failures, reports):
            self._log.error(text)
        else:
            self._log.debug(text)
        if target.peer_name:
            self._unreachable(target.peer_name)
        self._dial_later(target, purpose)

    def _dial_later(self, target: Target, purpose: Purpose, is_renewable: bool = False) -> None:
        if self._is_stopped or target.is_over:
            return
        attempt = target.attempts[purpose]
        cluster = self._settings.options.cluster
        if not self._is_vouched_for(target.peer_id) and not may_retry(
            target, attempt.failures, cluster.connect_retries
        ):
            self.remove(target.address)
            return
        attempt.cancel()
        wait_s = self._wait_s(target, attempt.failures, is_renewable)
        attempt.timer = self._scheduler.call_later(wait_s, lambda: self.dial(target, purpose))

    def _wait_s(self, target: Target, failures: int, is_renewable: bool) -> float:
        if is_renewable:
            return renewal_delay_s(self._entropy)
        if self._settings.options.cluster.connect_backoff:
            return delay_s(failures, True, self._entropy)
        return delay_s(failures - REFUSALS_IN_STEP, target.is_refused, self._entropy)

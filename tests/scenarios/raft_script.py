"""Scenario files about one Raft group: commands, and below each of them what the members do.

    # A comment.
    group a b c                         servers with one group; all are voters, and hear each other
    group a b, learners c, joining d    ... or have other parts in it
    group a b c, led by a               ... and one has been elected already
    window 2                            a setting of all members: `window` or `batch`, in messages
    a times out                         its next timer fires; time goes on until then
      a is pre-candidate of 2           indented: the outcome, checked or rewritten
      a > b pre-vote 2, log 1/1         a message that leaves
      a applies 2/3 x                   an entry (term/index) that reaches the state machine
    deliver                             all messages, and those that follow from them
    deliver a > b                       one message of a link, the oldest; `deliver a > b, all`
    lose a > b                          the oldest message of a link is lost; `lose a > b, all`
    repeat a > b                        the oldest message of a link arrives, and stays on its way
    a proposes x y                      entries, all in one turn
    a proposes members b c, learners d  a change of members
    a withdraws from 4                  the entries of data from there on
    a disowns from 4                    ... when it leads again
    a transfers to b                    ... and `a resigns`, `a steps down`, `a retires`
    leases 1.5                          seconds; the members grant leases, 0 for none
    a renews                            its lease, on the timer that all groups share
    a reads                             ... by its lease
    a asks                              ... a round, whether it still leads
    a reads by round 2                  ... if that one is confirmed
    a trims to 3                        the log up to there is replaced by a snapshot
    a disk stops                        writes stay on their way; `a disk writes` ends the oldest
    a disk goes on                      all writes end, and later ones at once
    a crashes                           its process ends; writes on their way are lost
    a loses its files                   its disk is emptied while it does not run
    a starts                            ... `a starts unclean`: it may have forgotten
    a trusts itself                     a majority that has forgotten is told to go on
    a loses b                           a cannot hear b any more
    a hears b                           a hears b again, and they compare
    wait 2.5                            seconds; all timers fire that are due
    states                              all members in a line each

Messages stay on their way until a command delivers or loses them.
"""

import re
from collections import deque
from dataclasses import replace
from typing import Final

from headwater.base.clock import NS_PER_S
from headwater.raft.codec import decode, encode
from headwater.raft.config import RaftConfig
from headwater.raft.entry import Entry, EntryKind
from headwater.raft.membership import Membership, membership_of
from headwater.raft.membership import decode as decode_membership
from headwater.raft.messages import (
    Append,
    AppendReject,
    AppendReply,
    CampaignNow,
    Digest,
    InstallSnapshot,
    Message,
    PreVote,
    PreVoteReply,
    ReadRound,
    ReadRoundReply,
    Vote,
    VoteReply,
)
from headwater.raft.node import RaftNode
from headwater.raft.ready import Ready
from headwater.raft.role import RoleName
from headwater.raft.storage import blank, born
from headwater.raft.withdrawals import first_of
from headwater.testing.entropy import SeededEntropy, labelled_rng
from tests.kit.raft_disk import Disk
from tests.scenarios.script import Step, parse

_DELIVERIES_MAX: Final = 500


def run(text: str) -> str:
    """The file again, with the outcome of this run."""
    stage = Stage()
    lines: list[str] = []
    for part in parse(text):
        if isinstance(part, Step):
            lines += [part.command, *(f"  {line}" for line in stage.perform(part.command))]
        else:
            lines.append(part)
    return "\n".join(lines) + "\n"


# --- words ---------------------------------------------------------------------------------------


def entry_text(entry: Entry) -> str:
    """An entry by its place and its content."""
    content = entry.data.decode() if entry.kind is EntryKind.DATA else entry.kind.name.lower()
    if entry.kind is EntryKind.MEMBERSHIP:
        content = membership_text(decode_membership(entry.data))
    elif entry.kind is EntryKind.WITHDRAWAL:
        content = f"withdrawal from {first_of(entry)}"
    return f"{entry.term}/{entry.index} {content}"


def membership_text(membership: Membership) -> str:
    """A membership by its names."""
    parts = [f"voters {' '.join(membership.voters) or 'unknown'}"]
    if membership.outgoing:
        parts.append(f"outgoing {' '.join(membership.outgoing)}")
    if membership.learners:
        parts.append(f"learners {' '.join(membership.learners)}")
    return ", ".join(parts)


def message_text(message: Message) -> str:
    """A message by the fields that a rule may be about."""
    return f"{message.sender} > {message.to} {_body_text(message)}"


def _body_text(message: Message) -> str:
    match message:
        case PreVote() | Vote():
            forced = ", forced" if isinstance(message, Vote) and message.forced else ""
            kind = "pre-vote" if isinstance(message, PreVote) else "vote"
            log = f"{message.last_term}/{message.last_index}"
            return f"{kind} {message.term}, log {log}{forced}"
        case PreVoteReply() | VoteReply():
            kind = "pre-vote" if isinstance(message, PreVoteReply) else "vote"
            return f"{kind} {'granted' if message.granted else 'refused'} {message.term}"
        case Append():
            entries = ", ".join(map(entry_text, message.entries))
            readmits = ", readmits" if message.readmits else ""
            place = f"{message.prev_term}/{message.prev_index}"
            return (
                f"append {message.term} after {place} [{entries}] commit {message.commit}{readmits}"
            )
        case AppendReply():
            recovery = ", has forgotten" if message.recovery else ""
            return f"has {message.match}, commit {message.commit}, term {message.term}{recovery}"
        case AppendReject():
            recovery = ", has forgotten" if message.recovery else ""
            hint = f"{message.hint_term}/{message.hint_index}"
            return f"lacks {message.prev_index}, hint {hint}, term {message.term}{recovery}"
        case InstallSnapshot():
            place = f"{message.snapshot.term}/{message.snapshot.index}"
            members = membership_text(message.snapshot.membership)
            lease_ns = message.snapshot.lease_ns
            lease = f", lease {lease_ns / NS_PER_S} s" if lease_ns else ""
            return f"snapshot {message.term} of {place}, {members}{lease}"
        case ReadRound():
            return f"round {message.number} of {message.term}"
        case ReadRoundReply():
            return f"confirms round {message.number} of {message.term}"
        case CampaignNow():
            return f"campaign now {message.term}"
        case Digest():
            return f"digest {message.term}, leader {message.leader or 'unknown'}"
    raise AssertionError(message)


# --- the stage -----------------------------------------------------------------------------------


class Member:
    """A server with its disk, and its node while it runs."""

    def __init__(self, name: str, disk: Disk) -> None:
        self.name = name
        self.disk = disk
        self.node: RaftNode | None = None
        self.starts = 0
        self.is_disk_stopped = False
        self.writes: deque[Ready] = deque()
        self.shown = ""

    @property
    def running(self) -> RaftNode:
        assert self.node is not None, f"{self.name} does not run"
        return self.node


class Stage:
    """The members of a scenario, and the messages on their way."""

    def __init__(self) -> None:
        self.now_ns = NS_PER_S
        self.config = RaftConfig()
        self.lease_ns = 0
        self.members: dict[str, Member] = {}
        self.links: dict[tuple[str, str], deque[bytes]] = {}
        self.lines: list[str] = []

    def perform(self, command: str) -> list[str]:
        """Carry out a command. Returns its outcome."""
        self.lines = []
        for pattern, action in _COMMANDS:
            if found := re.fullmatch(pattern, command):
                getattr(self, action)(**found.groupdict())
                return self.lines
        raise AssertionError(f"unknown command: {command}")

    def _group(
        self, voters: str, learners: str | None, joining: str | None, leader: str | None
    ) -> None:
        first = membership_of(voters.split(), (learners or "").split())
        for name in first.members():
            self.members[name] = Member(name, Disk(born(first)))
        for name in (joining or "").split():
            self.members[name] = Member(name, Disk(blank()))
        for member in self.members.values():
            self._start_node(member, has_forgotten=False)
        if leader is not None:
            self._time_out(leader)
            self._deliver_all()
            self.lines.clear()

    def _set_window(self, count: str) -> None:
        self.config = replace(self.config, window_messages_max=int(count))

    def _set_batch(self, count: str) -> None:
        self.config = replace(self.config, append_entries_max=int(count))

    # --- processes and disks ---------------------------------------------------------------------

    def _start_node(self, member: Member, *, has_forgotten: bool) -> None:
        member.starts += 1
        entropy = SeededEntropy(labelled_rng(1, member.name, member.starts))
        member.node = RaftNode(
            member.name,
            self.config,
            entropy,
            member.disk,
            member.disk.saved(),
            self.now_ns,
            has_forgotten=has_forgotten,
        )
        member.node.grant_leases(self.lease_ns)
        member.shown = self._role_text(member.node)
        for other in self.members.values():
            if other is not member and other.node is not None:
                member.node.peer_alive(other.name, self.now_ns)
                other.node.peer_alive(member.name, self.now_ns)
        self._work(member)

    def _start(self, name: str, unclean: str | None) -> None:
        member = self.members[name]
        self._start_node(member, has_forgotten=unclean is not None)
        for other in self.members.values():
            if other is not member and other.node is not None:
                self._compare(member, other)
                self._work(other)

    def _crash(self, name: str) -> None:
        member = self.members[name]
        member.node = None
        member.writes.clear()
        member.is_disk_stopped = False
        for other in self.members.values():
            if other.node is not None:
                other.node.peer_lost(name, self.now_ns)
                self._work(other)

    def _empty(self, name: str) -> None:
        self.members[name].disk.wipe()

    def _trust(self, name: str) -> None:
        member = self.members[name]
        member.running.resume_voting(self.now_ns)
        self._work(member)

    def _stop_disk(self, name: str) -> None:
        self.members[name].is_disk_stopped = True

    def _write_once(self, name: str) -> None:
        member = self.members[name]
        self._end_write(member)
        self._work(member)

    def _run_disk(self, name: str) -> None:
        member = self.members[name]
        member.is_disk_stopped = False
        self._work(member)

    # --- work ------------------------------------------------------------------------------------

    def _work(self, member: Member) -> None:
        """Do all that a member wants done, as far as its disk works."""
        node = member.running
        self._show_role(member)
        while True:
            if member.writes and not (member.is_disk_stopped and member.writes[0].has_write):
                self._end_write(member)
            elif (ready := node.ready(self.now_ns)) is not None:
                self._begin(member, ready)
            else:
                return

    def _begin(self, member: Member, ready: Ready) -> None:
        for message in ready.messages:
            self._send(message)
        for entry in ready.committed:
            self.lines.append(f"{member.name} applies {entry_text(entry)}")
        if ready.committed:
            member.running.applied_to(ready.committed[-1].index)
        member.writes.append(ready)

    def _end_write(self, member: Member) -> None:
        ready = member.writes.popleft()
        member.disk.files.write(ready, 0)
        member.disk.sync()
        if ready.snapshot is not None:
            place = f"{ready.snapshot.term}/{ready.snapshot.index}"
            self.lines.append(f"{member.name} installs the snapshot of {place}")
        for message in ready.replies:
            self._send(message)
        member.running.written(ready, self.now_ns)
        self._show_role(member)

    def _send(self, message: Message) -> None:
        self.lines.append(message_text(message))
        link = self.links.setdefault((message.sender, message.to), deque())
        link.append(encode(message))

    def _role_text(self, node: RaftNode) -> str:
        return f"{node.name} is {node.role.value} of {node.term}"

    def _show_role(self, member: Member) -> None:
        text = self._role_text(member.running)
        if text != member.shown:
            member.shown = text
            self.lines.append(text)

    # --- messages --------------------------------------------------------------------------------

    def _deliver_all(self) -> None:
        for _ in range(_DELIVERIES_MAX):
            waiting = [link for link, messages in sorted(self.links.items()) if messages]
            if not waiting:
                return
            for sender, to in waiting:
                self._deliver(sender, to, None)
        raise AssertionError("the members never fall silent")

    def _deliver(self, sender: str, to: str, everything: str | None) -> None:
        link = self.links[(sender, to)]
        for data in [link.popleft() for _ in range(len(link) if everything else 1)]:
            self._arrive(data, sender, to)
        if self.members[to].node is not None:
            self._work(self.members[to])

    def _arrive(self, data: bytes, sender: str, to: str) -> None:
        if (node := self.members[to].node) is not None:
            node.step(decode(data, sender, to), self.now_ns)

    def _lose(self, sender: str, to: str, everything: str | None) -> None:
        link = self.links[(sender, to)]
        for _ in range(len(link) if everything else 1):
            link.popleft()

    def _repeat(self, sender: str, to: str) -> None:
        self._arrive(self.links[(sender, to)][0], sender, to)
        self._work(self.members[to])

    # --- servers and time ------------------------------------------------------------------------

    def _lose_peer(self, name: str, peer: str) -> None:
        member = self.members[name]
        member.running.peer_lost(peer, self.now_ns)
        self._work(member)

    def _hear_peer(self, name: str, peer: str) -> None:
        member = self.members[name]
        member.running.peer_alive(peer, self.now_ns)
        self._compare(member, self.members[peer])
        self._work(member)

    def _compare(self, member: Member, other: Member) -> None:
        self._send(member.running.digest(other.name))
        self._send(other.running.digest(member.name))

    def _time_out(self, name: str) -> None:
        member = self.members[name]
        deadline_ns = member.running.deadline_ns
        if deadline_ns is None:
            self.lines.append(f"{name} has no timer")
            return
        self.now_ns = max(self.now_ns, deadline_ns)
        member.running.tick(self.now_ns)
        self._work(member)

    def _wait(self, seconds: str) -> None:
        end_ns = self.now_ns + int(float(seconds) * NS_PER_S)
        while True:
            due = [
                (node.deadline_ns, member.name)
                for member in self.members.values()
                if (node := member.node) is not None and node.deadline_ns is not None
            ]
            if not due or min(due)[0] > end_ns:
                break
            self._time_out(min(due)[1])
        self.now_ns = end_ns

    # --- requests --------------------------------------------------------------------------------

    def _propose(self, name: str, data: str) -> None:
        member = self.members[name]
        if member.running.propose([each.encode() for each in data.split()], self.now_ns) is None:
            self.lines.append(f"{name} refuses")
        self._work(member)

    def _propose_members(self, name: str, voters: str, learners: str | None) -> None:
        member = self.members[name]
        target = membership_of(voters.split(), (learners or "").split())
        if member.running.propose_membership(target, self.now_ns) is None:
            self.lines.append(f"{name} refuses")
        self._work(member)

    def _withdraw(self, name: str, first: str) -> None:
        member = self.members[name]
        if member.running.withdraw(int(first), self.now_ns) is None:
            self.lines.append(f"{name} refuses")
        self._work(member)

    def _disown(self, name: str, first: str) -> None:
        self.members[name].running.disown(int(first))

    def _transfer(self, name: str, to: str) -> None:
        member = self.members[name]
        if not member.running.transfer_leadership(to, self.now_ns):
            self.lines.append(f"{name} refuses")
        self._work(member)

    def _resign(self, name: str) -> None:
        member = self.members[name]
        member.running.resign(self.now_ns)
        self._work(member)

    def _step_down(self, name: str) -> None:
        member = self.members[name]
        member.running.step_down(self.now_ns)
        self._work(member)

    def _retire(self, name: str) -> None:
        member = self.members[name]
        member.running.retire(self.now_ns)
        self._work(member)

    # --- reads -----------------------------------------------------------------------------------

    def _grant(self, seconds: str) -> None:
        self.lease_ns = int(float(seconds) * NS_PER_S)
        for member in self.members.values():
            if member.node is not None:
                member.node.grant_leases(self.lease_ns)

    def _renew(self, name: str) -> None:
        member = self.members[name]
        if not member.running.renew(self.now_ns):
            self.lines.append(f"{name} has nothing to renew")
        self._work(member)

    def _read(self, name: str) -> None:
        self._answer(self.members[name].running, self.members[name].running.may_read(self.now_ns))

    def _ask(self, name: str) -> None:
        member = self.members[name]
        number = member.running.begin_read_round()
        self.lines.append(f"{name} refuses" if number is None else f"{name} begins round {number}")
        self._work(member)

    def _read_by_round(self, name: str, number: str) -> None:
        node = self.members[name].running
        self._answer(node, node.confirmed_read_round >= int(number))

    def _answer(self, node: RaftNode, may_read: bool) -> None:
        answer = f"answers at {node.log.applied}" if may_read else "refuses"
        self.lines.append(f"{node.name} {answer}")

    def _trim(self, name: str, index: str) -> None:
        member = self.members[name]
        snapshot = member.running.trim(int(index))
        member.disk.files.trim(snapshot, 0)
        member.disk.sync()

    def _states(self) -> None:
        for member in self.members.values():
            self.lines.append(self._state_text(member))

    def _state_text(self, member: Member) -> str:
        if member.node is None:
            return f"{member.name} does not run"
        node = member.node
        log = node.log
        role = node.role.value
        if node.role is RoleName.LEADER and not node.is_ready:
            role = "leader, not ready"
        parts = [
            f"{role} of {node.term}",
            f"follows {node.leader or 'nobody'}",
            f"log {log.snapshot.index}..{log.last_index} of term {log.last_term}",
            f"commit {log.commit}",
            membership_text(node.membership),
        ]
        if not node.may_vote:
            parts.append("may not vote")
        if node.is_contradicted:
            parts.append("contradicted")
        parts.append("silent" if node.deadline_ns is None else "has a timer")
        return f"{member.name}: " + "; ".join(parts)


_NAME: Final = r"(?P<name>\w+)"
_LINK: Final = r"(?P<sender>\w+) > (?P<to>\w+)"
_COMMANDS: Final = [
    (
        r"group (?P<voters>[\w ]+)(?:, learners (?P<learners>[\w ]+))?"
        r"(?:, joining (?P<joining>[\w ]+))?(?:, led by (?P<leader>\w+))?",
        "_group",
    ),
    (r"window (?P<count>\d+)", "_set_window"),
    (r"batch (?P<count>\d+)", "_set_batch"),
    (rf"{_NAME} times out", "_time_out"),
    (r"deliver", "_deliver_all"),
    (rf"deliver {_LINK}(?P<everything>, all)?", "_deliver"),
    (rf"lose {_LINK}(?P<everything>, all)?", "_lose"),
    (rf"repeat {_LINK}", "_repeat"),
    (
        rf"{_NAME} proposes members (?P<voters>[\w ]+)(?:, learners (?P<learners>[\w ]+))?",
        "_propose_members",
    ),
    (rf"{_NAME} proposes (?P<data>[\w ]+)", "_propose"),
    (rf"{_NAME} withdraws from (?P<first>\d+)", "_withdraw"),
    (rf"{_NAME} disowns from (?P<first>\d+)", "_disown"),
    (rf"{_NAME} transfers to (?P<to>\w+)", "_transfer"),
    (rf"{_NAME} resigns", "_resign"),
    (rf"{_NAME} steps down", "_step_down"),
    (rf"{_NAME} retires", "_retire"),
    (r"leases (?P<seconds>[\d.]+)", "_grant"),
    (rf"{_NAME} renews", "_renew"),
    (rf"{_NAME} reads", "_read"),
    (rf"{_NAME} asks", "_ask"),
    (rf"{_NAME} reads by round (?P<number>\d+)", "_read_by_round"),
    (rf"{_NAME} trims to (?P<index>\d+)", "_trim"),
    (rf"{_NAME} disk stops", "_stop_disk"),
    (rf"{_NAME} disk writes", "_write_once"),
    (rf"{_NAME} disk goes on", "_run_disk"),
    (rf"{_NAME} crashes", "_crash"),
    (rf"{_NAME} loses its files", "_empty"),
    (rf"{_NAME} starts(?P<unclean> unclean)?", "_start"),
    (rf"{_NAME} trusts itself", "_trust"),
    (rf"{_NAME} loses (?P<peer>\w+)", "_lose_peer"),
    (rf"{_NAME} hears (?P<peer>\w+)", "_hear_peer"),
    (r"wait (?P<seconds>[\d.]+)", "_wait"),
    (r"states", "_states"),
]

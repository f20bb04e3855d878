# SPDX-License-Identifier: BSD-2-Clause
"""Starts an engine: gives it its secrets, and makes the members of a replica over several nodes live and die together.

A program of one file, written to nodes as `<state_dir>/guard.py` and run by units. Without `--group` it becomes the
engine. With it, it is the engine's parent and talks with the guard of every other member (R7): all start together, a
member that ends, is silent or comes back anew ends them all, and rank 0 drains before the others go. A member that is
away is waited for here, without limit, so that systemd's start limit counts failures only. Every guard calls every
other one and keeps saying who it is and how it is, whole in each line: a cut is silence.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import selectors
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

PROTOCOL = "llmgw-guard/1"
BROKEN = 75  # EX_TEMPFAIL: a failure to Restart=on-failure, and told apart from what engines end with
NOT_STARTED = 203  # what systemd itself reports of a command that cannot be executed
TICK_S, SILENCE_S, REMIND_S = 0.2, 5.0, 60.0
CALL_S = 0.5  # between two attempts to reach a member
SOON_S = 0.01  # for a connection, so that it can say who it is at once: of those that do not few are kept
ANSWER_S = 3.0  # for a connection to come about, and for a caller to say who it is
KILL_AFTER_S = 2.0  # from SIGTERM to SIGKILL, for engines that hang in NCCL, and from that to leaving it to systemd
MOST_STRANGERS, LONGEST_LINE, LONGEST_SECRET = 16, 1024, 127 << 10  # the kernel takes 128 KiB of a variable
FORMING, READY, RUNNING, DRAINING, STOPPING, ENDS = "forming", "ready", "running", "draining", "stopping", "ends"


def say(text: str) -> None:
    """One line to the log; a log that is gone ends nothing."""
    with contextlib.suppress(OSError):
        os.write(2, f"llmgw-guard: {text}\n".encode("utf-8", "replace"))


def resolved(place: str) -> List[Tuple[socket.AddressFamily, Any]]:
    """Family and socket address of all that `HOST:PORT` names. Raises OSError."""
    host, _colon, port = place.rpartition(":")
    return [(one[0], one[4]) for one in socket.getaddrinfo(host.strip("[]"), port, type=socket.SOCK_STREAM)]


class Member(NamedTuple):
    """One rank and where its guard listens: `10.0.0.1:18002`, `[fd00::1]:18002`."""

    rank: int
    place: str

    def __str__(self) -> str:
        return f"rank {self.rank} at {self.place}"


class Caller:
    """A connection that was accepted; `rank` is None until it has said who it is."""

    def __init__(self, sock: socket.socket, address: str) -> None:
        sock.settimeout(0)
        self.sock, self.address = sock, address
        self.rank: Optional[int] = None
        self.heard_at, self._buffer = time.monotonic(), b""

    def lines(self) -> Optional[List[str]]:
        """The whole lines that came; None when the connection ended, or brings what is no line."""
        try:
            data = self.sock.recv(4096)
        except OSError as error:
            return [] if isinstance(error, BlockingIOError) else None
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        if not data or max(map(len, (*lines, self._buffer))) > LONGEST_LINE:
            return None
        return [line.decode("ascii", "replace") for line in lines]


class Peer:
    """Another member: the connection to it, the one from it, and what it said last."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.caller: Optional[Caller] = None
        self.incarnation = self.state = self.detail = ""
        self.found: List[Tuple[socket.AddressFamily, Any]] = []  # kept once known: a name server may be slow
        self._sock: Optional[socket.socket] = None
        self._called_at, self.trouble = -CALL_S, "no answer"

    def tell(self, line: str, own: Tuple[Any, ...]) -> None:
        """Sends a line, hardly ever waiting; where there is no connection, calls. `own`: this member's address."""
        now = time.monotonic()
        try:
            if self._sock is None and now - self._called_at >= CALL_S:
                self._called_at = now
                self._call(own)
            if self._sock is None:
                return
            if self._sock.send(line.encode("ascii", "replace")) == len(line):
                self.trouble = "it does not call back"
                return
        except BlockingIOError:  # not connected yet, or nobody has read for long
            if now - self._called_at < ANSWER_S:
                return
            self.trouble = "no answer"
        except OSError as error:
            self.trouble = (error.strerror or str(error)).lower()
        if self._sock is not None:
            self._sock.close()
        self._sock = None

    def _call(self, own: Tuple[Any, ...]) -> None:
        self.found = self.found or resolved(self.member.place)
        family, address = self.found[0]
        self._sock = socket.socket(family)
        self._sock.settimeout(SOON_S)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(own) == len(address):  # of one family; the member knows its callers by their addresses
            self._sock.bind((own[0], 0, *own[2:]))
        with contextlib.suppress(socket.timeout):  # it goes on
            self._sock.connect(address)
        self._sock.settimeout(0)


class Guard:
    """One member of the group: waits for the others, runs the engine with them, and ends it as they end."""

    def __init__(self, command: List[str], env: Dict[str, str], options: argparse.Namespace) -> None:
        self._command, self._env, self._options = command, env, options
        self._own: Member = options.member[options.rank]
        self._peers = {one.rank: Peer(one) for one in options.member if one != self._own}
        self._strangers: List[Caller] = []
        self._incarnation = os.urandom(8).hex()
        self._selector = selectors.DefaultSelector()
        self._engine: Optional[subprocess.Popen[bytes]] = None
        self._phase, self._why, self._status = FORMING, "", BROKEN
        self._epoch = ""  # of the group in which the engine was started
        self._began_at = self._deadline = self._beat_at = time.monotonic()
        self._said: Dict[str, float] = {}

    def run(self) -> int:
        """The exit status, once the engine is gone."""
        # Signals come through a socket, by their numbers: none is lost between a look and the wait in `select`.
        reader, self._waker = socket.socketpair()
        self._waker.settimeout(0)
        self._selector.register(reader, selectors.EVENT_READ, lambda: self._signalled(reader.recv(64)))
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda _number, _frame: None)
        self._beat()
        say(f"{self._own}, one of {len(self._peers) + 1} members of group {self._options.group}")
        try:
            while self._phase != ENDS or (self._engine and time.monotonic() < self._deadline + KILL_AFTER_S):
                for key, _events in self._selector.select(TICK_S):
                    key.data()
                self._reap()
                self._tick(time.monotonic())
        finally:
            self._send(signal.SIGKILL)
        return self._status

    def _tick(self, now: float) -> None:
        """What time brings: who is silent, what is late, and the next word to the others."""
        for caller in [one for one in self._strangers if now - one.heard_at > ANSWER_S]:
            self._lose(caller, "it did not say who it is")
        for peer in self._peers.values():
            if peer.caller is not None and now - peer.caller.heard_at > SILENCE_S:
                self._lose(peer.caller, f"was silent for {now - peer.caller.heard_at:.0f} s")
        if self._phase != ENDS and now >= self._beat_at:
            self._beat()
        if self._phase == FORMING and now - self._began_at > 4 * CALL_S:  # who comes at once was not waited for
            missing = [f"{peer.member} ({peer.trouble})" for peer in self._peers.values() if peer.caller is None]
            waiting = [f"{peer.member} (it waits for another)" for peer in self._peers.values() if not peer.detail]
            self._seldom(f"waiting for {', '.join(missing or waiting)} (group {self._options.group})")
        elif self._phase == DRAINING and now > self._deadline:
            self._end(f"{self._why}, and the engine did not finish in time")
        elif self._phase == ENDS and now > self._deadline:
            self._send(signal.SIGKILL)

    def listen(self) -> None:
        """Takes the port, also of an address that the machine is yet to get. Raises OSError when somebody has it."""
        family, self._address = resolved(self._own.place)[0]
        listener = socket.socket(family)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.setsockopt(socket.SOL_IP, 15, 1)  # IP_FREEBIND of linux/in.h
        listener.bind(self._address)
        listener.listen(128)
        listener.settimeout(0)
        self._selector.register(listener, selectors.EVENT_READ, lambda: self._accept(listener))

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, address = listener.accept()
            caller = Caller(sock, address[0])
            self._strangers.append(caller)
            self._selector.register(sock, selectors.EVENT_READ, lambda: self._read(caller))
            homes = [{one[0] for _family, one in peer.found} for peer in self._peers.values()]
            if all(homes) and caller.address not in set().union(*homes):
                self._lose(caller, "no member calls from there")
            elif len(self._strangers) > MOST_STRANGERS:
                self._lose(self._strangers[0], "too many connections say nothing")

    def _read(self, caller: Caller) -> None:
        lines = caller.lines() if caller.sock.fileno() >= 0 else []
        for line in lines or ():
            if caller.sock.fileno() >= 0:  # what the line before said may have ended it
                self._hear(caller, line.split(" ", 5))
        if lines is None and caller.sock.fileno() >= 0:
            self._lose(caller, "closed its connection")

    def _hear(self, caller: Caller, words: List[str]) -> None:
        """One line: `llmgw-guard/1 GROUP RANK INCARNATION STATE DETAIL`. The detail of `ends` is why."""
        objection = self._objection(caller, words)
        if objection is not None:
            self._lose(caller, objection)
            return
        peer = self._peers[int(words[2])]
        caller.heard_at = time.monotonic()
        if caller.rank is None:
            self._strangers.remove(caller)
            caller.rank = peer.member.rank
            if peer.caller is not None:
                self._lose(peer.caller, "called again" if words[3] == peer.incarnation else "was started anew")
            peer.caller = caller
        peer.incarnation, peer.state, peer.detail = words[3:]
        self._judge()

    def _objection(self, caller: Caller, words: List[str]) -> Optional[str]:
        """Why a line is none of this group's, or None."""
        if len(words) != 6 or words[0] != PROTOCOL or not words[2].isdecimal():  # noqa: PLR2004 - see `_hear`
            return "it does not speak as a guard of this version does"
        rank, group = words[2][:9], self._options.group
        if words[1] != group:
            return f"rank {rank} is of group {words[1]} and rank {self._own.rank} of {group}: apply all members again"
        peer = self._peers[int(rank)] if words[2] in map(str, self._peers) else None
        if peer is None or caller.rank not in (None, peer.member.rank):
            return f"no other member has rank {rank}"
        if caller.address not in {address[0] for _family, address in peer.found}:
            return f"{peer.member} does not call from there"
        return None

    def _lose(self, caller: Caller, why: str) -> None:
        """Ends a connection; once the engine runs a member's takes the group with it."""
        self._selector.unregister(caller.sock)
        caller.sock.close()
        if caller.rank is None:
            self._strangers.remove(caller)
            self._seldom(f"refused a connection from {caller.address}: {why}")
            return
        peer = self._peers[caller.rank]
        peer.caller, peer.detail = None, ""
        if self._phase not in (FORMING, ENDS):
            self._end(f"{peer.member} {why}")

    def _seldom(self, text: str) -> None:
        """Says a thing once a minute, and few different ones: neither a scan of ports nor waiting fills the log."""
        now = time.monotonic()
        self._said = {said: at for said, at in self._said.items() if now - at < REMIND_S}
        if text not in self._said and len(self._said) < MOST_STRANGERS:
            self._said[text] = now
            say(text)

    def _beat(self) -> None:
        """Says how this member is."""
        self._beat_at = time.monotonic() + (TICK_S if self._phase == FORMING else SILENCE_S / 5)
        detail = {FORMING: self._present(), ENDS: self._why}.get(self._phase, self._epoch)
        state = READY if self._phase == FORMING and detail else self._phase
        line = f"{PROTOCOL} {self._options.group} {self._own.rank} {self._incarnation} {state} {detail}"
        for peer in self._peers.values():
            peer.tell(f"{line[: LONGEST_LINE - 1]}\n", self._address)

    def _present(self) -> str:
        """A name for these starts of these members, equal for all; empty while one is not heard."""
        if any(peer.caller is None for peer in self._peers.values()):
            return ""
        starts = sorted([self._incarnation, *(peer.incarnation for peer in self._peers.values())])
        return hashlib.sha256(" ".join(starts).encode("ascii", "replace")).hexdigest()[:16]

    def _judge(self) -> None:
        """What follows from how the others are."""
        epoch = self._present()
        if self._phase == FORMING:
            states = {(one.state in (READY, RUNNING), one.detail) for one in self._peers.values()}
            if epoch and states == {(True, epoch)}:
                self._start(epoch)
            return
        for peer in self._peers.values():
            if self._phase != ENDS and (peer.state == ENDS or peer.detail != self._epoch):
                self._end(peer.detail if peer.state == ENDS else f"{peer.member} lost another member")
            elif self._phase == RUNNING and self._own.rank == 0 and peer.state == STOPPING:
                self._drain(f"{peer.member} is being stopped")
            elif self._phase == STOPPING and peer.member.rank == 0 and peer.state == READY:
                self._end(f"{self._own} was stopped before rank 0 had started")

    def _start(self, epoch: str) -> None:
        say(f"all {len(self._peers) + 1} members are here: starting the engine")
        self._phase, self._epoch = RUNNING, epoch
        try:  # in a session of its own, so that a signal reaches its workers too
            self._engine = subprocess.Popen(self._command, env=self._env, start_new_session=True)  # noqa: S603
        except OSError as error:
            self._status = NOT_STARTED
            self._end(f"{self._own} cannot start {self._command[0]}: {error.strerror}")
        self._beat()

    def _signalled(self, numbers: bytes) -> None:
        """Somebody stops this member: rank 0 drains and ends the engine, the others wait until it has."""
        if self._status == 0 or not {signal.SIGTERM, signal.SIGINT} & set(numbers):
            return
        self._status = 0
        if self._phase == FORMING:
            self._phase = ENDS
            say("stopped while waiting")
        elif self._phase == RUNNING and self._own.rank == 0:
            self._drain(f"{self._own} is being stopped")
        elif self._phase == RUNNING:
            self._phase = STOPPING
            say("asked to stop: the engine ends once rank 0 has finished what it serves")
            self._beat()

    def _drain(self, why: str) -> None:
        self._phase, self._why, self._deadline = DRAINING, why, time.monotonic() + self._options.stop_timeout
        say(f"{why}: the engine gets {self._options.stop_timeout:g} s to finish what it serves")
        self._send(signal.SIGTERM)
        self._beat()

    def _end(self, why: str) -> None:
        """Ends the engine and tells the others why, in words that hold for each of them."""
        say(f"the group ends: {why}")
        self._phase, self._why, self._deadline = ENDS, why, time.monotonic() + KILL_AFTER_S
        self._beat()
        self._send(signal.SIGTERM)

    def _send(self, number: int) -> None:
        """Sends a signal to the engine and its workers."""
        if self._engine is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._engine.pid, number)

    def _reap(self) -> None:
        """Looks whether the engine ended, and what follows. Workers that outlive it hold memory: they go with it."""
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        if self._engine is None or os.waitid(os.P_PID, self._engine.pid, flags) is None:
            return
        self._send(signal.SIGKILL)  # before the kernel may give its number to another group
        status = self._engine.wait()
        self._engine = None
        how = f"signal {-status}" if status < 0 else f"status {status}"
        leader_drains = self._own.rank != 0 and self._peers[0].state == DRAINING
        if self._phase == DRAINING:
            self._end(self._why)
        elif status >= 0 and (self._phase == STOPPING or (self._phase == RUNNING and leader_drains)):
            say(f"the engine ended with {how}; rank 0 is about to")
        elif self._phase != ENDS:
            self._status = self._status and (status if status > 0 else 128 - status if status < 0 else BROKEN)
            self._end(f"the engine of {self._own} ended with {how}")


def main() -> int:
    """The exit status of the command line; without a group the command takes this process over."""
    parser = argparse.ArgumentParser("guard.py", description="Starts an engine, alone or as one member of a group.")
    parser.add_argument("--secret", action="append", default=[], metavar="VARIABLE=NAME")
    parser.add_argument("--group", metavar="DIGEST", help="what all members of the replica must agree on")
    parser.add_argument("--rank", type=int, help="which member this is")
    parser.add_argument("--member", action="append", default=[], metavar="RANK=ADDRESS:PORT")
    parser.add_argument("--stop-timeout", type=float, default=30.0, metavar="S", help="for rank 0 to end its engine")
    parser.add_argument("command", nargs="+", metavar="-- COMMAND")
    options = parser.parse_args()
    options.member = sorted(Member(int(one[0]), one[2]) for one in (text.partition("=") for text in options.member))
    ranks = [one.rank for one in options.member]
    if options.group and (len(ranks) == 1 or ranks != [*range(len(ranks))] or options.rank not in ranks):
        parser.error("--member names every rank once, from 0 on and more than one, and --rank is one of them")
    env, doing, status = dict(os.environ), "", 1
    try:
        for variable, _equals, name in (one.partition("=") for one in options.secret):
            doing = f"set {variable} (name {name} in llmgw_secrets, then run the playbook llmgw.fleet.prepare)"
            path = Path(env.get("CREDENTIALS_DIRECTORY", "/nonexistent"), name)
            path = path if path.exists() else Path(__file__).with_name("secrets") / name  # of a manager that has none
            if path.parent.is_dir() and not os.access(path.parent, os.X_OK):
                doing = f"set {variable} (systemd handed over no secret {name}: that needs systemd 247 or newer)"
            secret = path.read_bytes().rstrip(b"\r\n")
            if b"\0" in secret or len(secret) > LONGEST_SECRET:
                doing = f"give {variable} the secret {name}"
                raise OSError("it has a NUL byte, or more than 127 KiB")  # noqa: TRY301 - told below
            env[variable] = os.fsdecode(secret)
        if not options.group:
            doing, status = "start the engine", NOT_STARTED
            os.execvpe(options.command[0], options.command, env)  # noqa: S606 - as told
        guard = Guard(options.command, env, options)
        doing = f"listen as {options.member[options.rank]} (`ss -ltnp` shows who has a port)"
        guard.listen()
    except OSError as error:
        say(f"cannot {doing}: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        return status
    return guard.run()


if __name__ == "__main__":
    raise SystemExit(main())

# SPDX-License-Identifier: BSD-2-Clause
"""Talks to one systemd manager through `systemctl`: the system's, or a user's.

Private to llmgw. Commands name many units at once, since each costs a process; no decision is made here.
"""

from __future__ import annotations

import calendar
import re
import time
from typing import TYPE_CHECKING, Dict, Iterable, Sequence

if TYPE_CHECKING:
    from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, Result

SYSTEM = "system"
USER = "user"
LOADED_REPLICAS = "llmgw-*.*.*.service"  # a pattern: systemctl answers with the units that the manager has loaded

_PROPERTIES = (
    "Id",
    "LoadState",
    "ActiveState",
    "SubState",
    "Result",
    "Job",
    "UnitFileState",
    "NeedDaemonReload",
    "DropInPaths",
    "StateChangeTimestamp",
    "NRestarts",
    "MainPID",
    "ExecMainCode",
    "ExecMainStatus",
    "MemoryCurrent",
    "ControlGroup",
    "TimeoutStopUSec",
)
_QUERY_TIMEOUT_S = 30.0
_CHANGE_TIMEOUT_S = 90.0  # a reload reads every unit of the machine, and may wait for its disk
_LOG_BYTES = 256 * 1024
_LOG_LINES = 2000
_TAIL_BYTES = 8192
_NOTHING = "-- No entries --"  # of the journal, not of the unit
_APPEND = re.compile(r"^StandardOutput=append:(?P<path>/\S+)$", re.MULTILINE)
_SPAN = re.compile(r"(?P<count>\d+(?:\.\d+)?)(?P<unit>[a-z]+)")
_SECONDS = {
    "y": 31557600.0,
    "month": 2629800.0,
    "w": 604800.0,
    "d": 86400.0,
    "h": 3600.0,
    "min": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "us": 1e-6,
}

Properties = Dict[str, str]


class SystemdError(Exception):
    """systemctl did not do what it was asked; the message holds the command and its answer."""


class Manager:
    """One manager. `unit_dir` is where its administrator's units lie."""

    def __init__(self, host: Host, scope: str) -> None:
        self._host = host
        self.scope = scope
        self._systemctl = ["systemctl"] if scope == SYSTEM else ["systemctl", "--user"]
        self.unit_dir = "/etc/systemd/system" if scope == SYSTEM else f"{_user_config(host)}/systemd/user"

    def show(self, names: Iterable[str]) -> dict[str, Properties]:
        """Properties by unit name; a name that systemd does not know comes back with LoadState=not-found."""
        wanted = list(names)
        if not wanted:
            return {}
        # Timestamps are written in the local time zone, whose name cannot be read back in general.
        argv = ["env", "TZ=UTC", *self._systemctl, "show", f"--property={','.join(_PROPERTIES)}", "--", *wanted]
        result = self._host.run(argv, _QUERY_TIMEOUT_S)
        if result.rc != 0:
            raise SystemdError(_complaint("systemctl show", result))
        return parse_show(result.stdout)

    def daemon_reload(self) -> None:
        """Makes systemd read all unit files again."""
        self._change("daemon-reload")

    def enable(self, names: Sequence[str]) -> None:
        """Makes units start at boot. systemd sees it with the next reload."""
        self._change("enable", "--no-reload", "--", *names)

    def disable(self, names: Sequence[str]) -> None:
        """Takes back `enable`, also for units whose file is gone. systemd sees it with the next reload."""
        self._change("disable", "--no-reload", "--", *names)

    def restart(self, names: Sequence[str]) -> str | None:
        """Queues a stop, where something runs, and a start; None, or what systemctl says against one of the units.

        A start alone would do nothing for a unit that waits for its automatic restart.
        """
        return self._queue("restart", names)

    def stop(self, names: Sequence[str]) -> str | None:
        """Queues a stop; None, or what systemctl says against one of the units."""
        return self._queue("stop", names)

    def reset_failed(self, names: Sequence[str]) -> None:
        """Makes systemd forget failures; a unit that is not loaded any more has none to forget."""
        self._host.run([*self._systemctl, "reset-failed", "--", *names], _QUERY_TIMEOUT_S)

    def log_mark(self, text: str | None) -> int:
        """Where the log file named in a unit's text ends now, in bytes; 0 when it logs to the journal."""
        path = log_path(text)
        return (self._host.size(path) or 0) if path else 0

    def log(self, name: str, text: str | None, since: float | None, mark: int = 0) -> str:
        """The end of what a unit printed after `since` (Unix seconds; None: ever) or after `mark`, as it printed it.

        At most 256 KiB: enough for the start of an engine, whose first lines say the most.
        """
        path = log_path(text)
        if path:
            new = (self._host.size(path) or 0) - mark
            argv = ["tail", f"--bytes={max(0, min(new, _LOG_BYTES))}", "--", path]
        else:
            journal = ["journalctl"] if self.scope == SYSTEM else ["journalctl", "--user"]
            after = [] if since is None else [f"--since=@{int(since)}"]
            argv = [*journal, "--no-pager", "-o", "cat", f"--lines={_LOG_LINES}", *after, f"--unit={name}"]
        said = self._host.run(argv, _QUERY_TIMEOUT_S).stdout[-_LOG_BYTES:]
        return said.replace(f"{_NOTHING}\n", "")

    def keep_after_logout(self) -> str | None:
        """Lets a user's units outlive the login session; None, or a sentence about why that failed.

        Without a login manager (no /run/systemd/users) nothing ends them in the first place.
        """
        if self.scope == SYSTEM or not self._host.exists("/run/systemd/users"):
            return None
        user = self._host.run(["id", "--user", "--name"], _QUERY_TIMEOUT_S).stdout.strip()
        if self._host.exists(f"/var/lib/systemd/linger/{user}"):
            return None
        result = self._host.run(["loginctl", "--no-ask-password", "enable-linger"], _QUERY_TIMEOUT_S)
        if result.rc == 0:
            return None
        return (
            f"the units stop when {user} logs out: lingering is off and could not be enabled "
            f"({_answer(result)}). Run `loginctl enable-linger {user}` as root."
        )

    def _change(self, verb: str, *arguments: str) -> None:
        result = self._host.run([*self._systemctl, "--quiet", verb, *arguments], _CHANGE_TIMEOUT_S)
        if result.rc != 0:
            raise SystemdError(_complaint(f"systemctl {verb}", result))

    def _queue(self, verb: str, names: Sequence[str]) -> str | None:
        argv = [*self._systemctl, "--quiet", "--no-block", "--no-ask-password", verb, "--", *names]
        result = self._host.run(argv, _CHANGE_TIMEOUT_S)
        if result.timed_out:
            raise SystemdError(_complaint(f"systemctl {verb}", result))
        return " ".join(_answer(result).split()).rstrip(".") if result.rc != 0 else None


def tail_of(log: str, lines: int) -> str:
    """The last lines of a log, printable, at most 8 KiB."""
    kept = [line for line in log[-_TAIL_BYTES:].split("\n") if line.strip()]
    return "\n".join("".join(filter(str.isprintable, line.expandtabs())) for line in kept[-lines:])


def own_words(name: str, log: str) -> str:
    """What systemd itself says of a unit in its log, without what its processes printed."""
    return "\n".join(line for line in log.split("\n") if line.startswith(f"{name}: "))


def parse_show(output: str) -> dict[str, Properties]:
    """Properties by unit name (Id), from the output of `systemctl show`: blocks of KEY=VALUE between empty lines."""
    found: dict[str, Properties] = {}
    for block in output.split("\n\n"):
        pairs = (line.split("=", 1) for line in block.split("\n") if "=" in line)
        properties = dict(pairs)
        if properties.get("Id"):
            found[properties["Id"]] = properties
    return found


def parse_timestamp(value: str) -> float | None:
    """Unix seconds of `Mon 2026-11-30 02:35:11 UTC`; None for what never happened."""
    try:
        return float(calendar.timegm(time.strptime(value[4:], "%Y-%m-%d %H:%M:%S UTC")))
    except ValueError:
        return None


def parse_span(value: str) -> float | None:
    """Seconds of a time span as systemd writes it (`1min 30s`); None for `infinity` or anything else."""
    total = 0.0
    for part in value.split():
        found = _SPAN.fullmatch(part)
        if found is None or found.group("unit") not in _SECONDS:
            return None
        total += float(found.group("count")) * _SECONDS[found.group("unit")]
    return total if value.strip() else None


def log_path(text: str | None) -> str | None:
    """The file that a unit's output is appended to, or None: it goes to the journal."""
    found = _APPEND.search(text or "")
    return found.group("path") if found else None


def _user_config(host: Host) -> str:
    return host.variable("XDG_CONFIG_HOME") or f"{host.home()}/.config"


def _complaint(command: str, result: Result) -> str:
    return f"{command}: {_answer(result)}"


def _answer(result: Result) -> str:
    if result.timed_out:
        return "no answer in time"
    return (result.stderr or result.stdout).strip()[:1000] or f"exit status {result.rc}"

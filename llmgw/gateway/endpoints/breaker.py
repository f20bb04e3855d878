# SPDX-License-Identifier: Apache-2.0
"""When requests themselves show that an endpoint does not serve: opened by failures, tried again one by one (G7). Pure.

Probes say that an engine is up; only requests say that it answers them. Two rules open a breaker here: failures in a
row, and a share of failures far above that of the endpoint's peers. A third, no progress, is found by progress.py and
takes the same way back.

The way back never ends: a pause, one request as a trial, a longer pause. A trial on which nobody reports is given again
after a while, so that an endpoint that works is found to, whatever became of the trial.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum

FAILURES_IN_A_ROW = 5
WINDOW_S = 10.0
"""Shares are taken over the last one to two of these."""
LEAST_OUTCOMES = 20
"""Answers from which on a share of failures means something; the peers need as many together."""
LEAST_SHARE = 0.2
TIMES_ITS_PEERS = 3.0
"""A share of failures is an outlier from `LEAST_SHARE` on, and when it is this many times that of all peers together:
what fails everywhere alike has a shared cause, which taking endpoints out does not mend.
"""
FIRST_PAUSE_S = 5.0
LONGEST_PAUSE_S = 60.0
FIRST_PAUSE_HUNG_S = 30.0
LONGEST_PAUSE_HUNG_S = 300.0
"""A trial of an engine that hangs costs a client a long wait, so there are fewer."""
TRIAL_AGAIN_S = 30.0
"""How long one trial may go without an outcome, at least, until another request is let in too."""
NEUTRAL_AGAIN_S = 1.0
"""After a trial that said nothing: its client left, or the engine was full."""
FORGETS_AFTER_S = 120.0
"""Closed for this long, a breaker starts at the shortest pause again."""

TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500
NOT_IMPLEMENTED = 501
UNAVAILABLE = 503


class Cause(StrEnum):
    """Why a breaker is open."""

    FAILURES = "failures"
    SHARE = "share"
    HUNG = "hung"


def verdict(status: int) -> bool | None:
    """What a complete answer says of its engine: True it serves, False it does not, None nothing (G7).

    4xx are the client's doing. 429 and 503 say that there is no room, 501 that the engine lacks what was asked for.
    """
    if status < SERVER_ERROR:
        return None if status == TOO_MANY_REQUESTS else True
    return None if status in {UNAVAILABLE, NOT_IMPLEMENTED} else False


class Breaker:
    """The breaker of one endpoint; all moments are loop seconds.

    `cause`: why it is open, None while closed; `why`: the same for a reader. `until`: before that moment no request
    comes through. `due`: that moment has come, and the next request is a trial. `trying`: a trial is out.
    """

    __slots__ = (
        "_bad",
        "_closed_at",
        "_good",
        "_old_bad",
        "_old_good",
        "_pause_s",
        "_row",
        "_window_ends",
        "cause",
        "due",
        "opened_at",
        "trying",
        "until",
        "why",
    )

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets everything: the engine is another process, or an operator says that it is well."""
        self.cause: Cause | None = None
        self.why = ""
        self.trying = self.due = False
        self.opened_at = self.until = self._window_ends = 0.0
        self._closed_at = float("-inf")
        self._pause_s = 0.0
        self._row = self._good = self._bad = self._old_good = self._old_bad = 0

    def good(self, now: float) -> bool:
        """One more good answer. Returns whether the breaker closed by it."""
        self._row = 0
        if now >= self._window_ends:
            self._roll(now)
        self._good += 1
        if self.cause is None or not self._proves():
            return False
        self.close(now)
        return True

    def bad(self, reason: str, now: float) -> bool:
        """One more failure. Returns whether the breaker opened by it, or its pause began anew."""
        self._row += 1
        if now >= self._window_ends:
            self._roll(now)
        self._bad += 1
        if self.cause is None:
            if self._row < FAILURES_IN_A_ROW:
                return False
            self.open(Cause.FAILURES, f"{self._row} requests in a row failed, the last one: {_said(reason)}", now)
            return True
        if not self.trying:
            return False  # given to it before the breaker opened
        self._wait(now)
        return True

    def neutral(self, now: float) -> bool:
        """One more outcome that says nothing. Returns whether a trial ended by it."""
        if not self.trying:
            return False
        self.trying = self.due = False
        self.until = now + NEUTRAL_AGAIN_S
        return True

    def open(self, cause: Cause, why: str, now: float) -> None:
        """Lets no request through until a first pause is over; longer, where it was closed only lately."""
        if now - self._closed_at >= FORGETS_AFTER_S:
            self._pause_s = 0.0
        self.cause, self.why, self.opened_at = cause, why, now
        self._wait(now)

    def close(self, now: float) -> None:
        """Lets all requests through, and forgets the failures that opened it."""
        pause = self._pause_s
        self.reset()
        self._pause_s, self._closed_at = pause, now

    def tick(self, now: float) -> bool:
        """Whether a trial has become due since the last call. To be called a few times a second."""
        if self.cause is None or self.due or now < self.until:
            return False
        self.due = True
        return True

    def try_now(self, now: float) -> None:
        """One request goes to the endpoint as a trial."""
        if self.trying:
            self._lengthen()
        self.trying, self.due = True, False
        self.until = now + max(TRIAL_AGAIN_S, self._pause_s)

    def counts(self, now: float) -> tuple[int, int]:
        """Good answers and failures of the last one to two windows."""
        if now >= self._window_ends:
            self._roll(now)
        return self._good + self._old_good, self._bad + self._old_bad

    def _proves(self) -> bool:
        """Whether a good answer now shows that the endpoint serves again.

        Most answers of an outlier are good, so only its trial's counts; an engine that hangs still refuses bad requests
        well, so bytes must flow.
        """
        return self.cause is Cause.FAILURES or (self.cause is Cause.SHARE and self.trying)

    def _wait(self, now: float) -> None:
        self._lengthen()
        self.trying = self.due = False
        self.until = now + self._pause_s

    def _lengthen(self) -> None:
        hung = self.cause is Cause.HUNG
        first, longest = (FIRST_PAUSE_HUNG_S, LONGEST_PAUSE_HUNG_S) if hung else (FIRST_PAUSE_S, LONGEST_PAUSE_S)
        self._pause_s = min(max(first, 2 * self._pause_s), longest)

    def _roll(self, now: float) -> None:
        stale = now >= self._window_ends + WINDOW_S
        self._old_good, self._old_bad = (0, 0) if stale else (self._good, self._bad)
        self._good = self._bad = 0
        self._window_ends = now + WINDOW_S


def outliers(breakers: Iterable[Breaker], now: float) -> list[tuple[Breaker, str]]:
    """Closed breakers whose endpoint fails far more often than its peers, and why, in the order given.

    `breakers`: those of all endpoints of one service that get requests.
    """
    counted = [(breaker, *breaker.counts(now)) for breaker in breakers]
    all_bad = sum(bad for _breaker, _good, bad in counted)
    if not all_bad:
        return []
    all_of_them = all_bad + sum(good for _breaker, good, _bad in counted)
    found = []
    for breaker, good, bad in counted:
        own, others = good + bad, all_of_them - good - bad
        if breaker.cause is not None or own < LEAST_OUTCOMES or others < LEAST_OUTCOMES:
            continue
        share, theirs = bad / own, (all_bad - bad) / others
        if share >= LEAST_SHARE and share >= TIMES_ITS_PEERS * theirs:
            found.append((breaker, f"{share:.0%} of its last {own} requests failed, of its peers' {theirs:.0%}"))
    return found


def taken_out(breakers: Sequence[tuple[str, Breaker]]) -> frozenset[str]:
    """Ids of the endpoints that get no requests by their breakers. `breakers`: of all that probes find ready.

    One that hangs serves nobody and is out whatever its peers do. Of the others at most half are out, the first that
    opened first: the gateway itself, or a bad request that many clients send, can make all of them fail.
    """
    hung = [name for name, breaker in breakers if breaker.cause is Cause.HUNG]
    failing = sorted((breaker.opened_at, name) for name, breaker in breakers if breaker.cause not in {None, Cause.HUNG})
    most = (len(breakers) - len(hung)) // 2
    return frozenset([*hung, *(name for _opened_at, name in failing[:most])])


def _said(reason: str) -> str:
    return reason.replace("_", " ")

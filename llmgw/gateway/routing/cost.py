# SPDX-License-Identifier: Apache-2.0
"""What a request would cost at an endpoint, in seconds, and the account of what is in flight there (G4). Pure.

    cost = (prompt tokens ahead + those of this prompt that are not cached) / prompt speed
         + running requests x what each delays another + pressure on the KV cache + risk

Everything in it is seconds, so unlike hardware, queues and cached prompts are compared without weights. What an engine
does not report gets a prior: silence must not look idle.

What does not depend on the request is summed up ahead, when something changed and a choice asks for it; a choice itself
costs a product and a look into the prefix index. Times are loop seconds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from hashlib import blake2b
from math import inf

from llmgw.gateway.endpoints.engine_load import EngineLoad
from llmgw.gateway.routing.capacity import Capacity
from llmgw.gateway.routing.others import UNREPORTED, Others, others
from llmgw.gateway.routing.prefix import BLOCK_TOKENS, CAPACITY_BLOCKS, PrefixIndex
from llmgw.gateway.routing.prefix_news import News, read_news
from llmgw.model.route import Endpoint

LOAD_FRESH_S = 10.0
"""An older report says nothing, unless it was withdrawn before; what this gateway itself has in flight goes on
counting.
"""
FAILED_S = 5.0
"""What a failed request adds at once; every so many seconds half of it is left."""
MOST_FAILED_S = 30.0
FORGIVEN_S = 0.05
CHECK_S = 0.25
SESSIONS = 4096
"""Sessions remembered of an endpoint."""
SESSION_TOKENS = 1024
"""What a session is worth beyond the prompt that comes: what its endpoint has cached and the bytes do not show."""
LEAST_WEIGHT = 0.001
STREAMED_BYTES_PER_TOKEN = 220.0
BYTES_PER_TOKEN = 4.0

_WAITS, _RUNS, _OVER = 0, 1, 2


@dataclass(slots=True)
class Ask:
    """What a choice may know of a request.

    `tokens`: of the prompt, estimated by its bytes. `chain`: of `prefix.chain`; empty where no choice reads it.
    `max_tokens`: as the client bounded the answer. `streams`: the first byte comes as soon as the prompt has been read:
    a stream, or an answer without generated text. `home`: of `prefix.home`; 0: `chain` decides alone.
    """

    tokens: int
    chain: tuple[int, ...] = ()
    session: bytes | None = None
    max_tokens: int | None = None
    streams: bool = False
    home: int = 0


class Charge:
    """What one request has taken from one endpoint's account. Only `EndpointCosts` changes it."""

    __slots__ = ("at", "begun", "due", "mark", "running", "state", "streams", "tokens")

    def __init__(self, tokens: int, at: float, due: float, mark: int, *, streams: bool) -> None:
        self.tokens = tokens
        self.at = at
        self.due = due
        self.mark = mark
        self.streams = streams
        self.state = _WAITS
        self.begun = self.running = 0.0


@dataclass(frozen=True, slots=True)
class Terms:
    """The cost of one request at one endpoint, by term, in seconds; `total_s` is the sum of the terms / `weight`.

    `session`: whether the session's credit is in `prefill_s`. `reported`: whether the engine's own report is in it.
    """

    endpoint: str
    queue_s: float
    prefill_s: float
    decode_s: float
    kv_s: float
    risk_s: float
    weight: float
    total_s: float
    cached_tokens: int
    in_flight: int
    session: bool = False
    reported: bool = False


class EndpointCosts:
    """The account of one endpoint.

    `due`: loop time from which `settle` must run before the account is read. `standing_s`, `running_s`, `token_s`: the
    cost without the prompt, the part of it that decoding causes, and the cost of a prompt's token, all divided by the
    endpoint's weight. `rank`: a number of the endpoint's id, the same in every process, for rendezvous. `news`: what
    other workers are to be told of its prompts; None, as at first, where there are none.
    """

    __slots__ = (
        "_ahead",
        "_elsewhere_requests",
        "_elsewhere_tokens",
        "_hardware",
        "_load",
        "_others",
        "_penalty_at",
        "_penalty_s",
        "_read",
        "_risk_s",
        "_running",
        "_sampled_at",
        "_unseen",
        "_waiting",
        "capacity",
        "due",
        "name",
        "news",
        "prefix",
        "rank",
        "running_s",
        "sessions",
        "share",
        "standing_s",
        "token_s",
        "weight",
    )

    def __init__(self, spec: Endpoint, capacity_blocks: int = CAPACITY_BLOCKS) -> None:
        self.name: str = spec.id
        self.rank = int.from_bytes(blake2b(spec.id.encode(), digest_size=8).digest(), "big") | 1
        self.prefix = PrefixIndex(capacity_blocks)
        self.sessions = PrefixIndex(SESSIONS)
        self.news: News | None = None
        self._ahead = self._waiting = self._running = self._read = 0
        self._elsewhere_requests = self._elsewhere_tokens = 0
        self._sampled_at = -inf
        self._unseen: deque[Charge] = deque()
        self._load: EngineLoad | None = None
        self._others: Others = UNREPORTED
        self._penalty_s = self._penalty_at = 0.0
        self.standing_s = self.running_s = self.token_s = 0.0
        self._hardware = (spec.device_class, spec.devices)
        self.capacity = Capacity(*self._hardware)
        self._risk_s = self.weight = self.share = 0.0
        self.due = -inf
        self.update(spec)

    def update(self, spec: Endpoint) -> None:
        """Takes what a newer bundle says of the same address."""
        if (spec.device_class, spec.devices) != self._hardware:
            self._hardware = (spec.device_class, spec.devices)
            self.capacity = Capacity(*self._hardware)
        self.weight = max(LEAST_WEIGHT, spec.weight)
        self.share = 1.0 / self.weight
        self.risk_s = spec.risk_s

    def restarted(self) -> None:
        """The process behind the address is another one: its caches are empty, and its load is not known."""
        self.prefix.clear()
        self.sessions.clear()
        self.capacity.doubt()
        self.load = None

    # --- one request ---

    def seconds(self, ask: Ask, now: float, *, held: bool | None = None) -> float:
        """The cost of a request here. `held`: whether its session is here; None where sessions do not count."""
        if now >= self.due:
            self.settle(now)
        tokens = ask.tokens
        if ask.chain:
            tokens -= self.prefix.match(ask.chain) * BLOCK_TOKENS
        if held is not None:
            tokens = 0 if held else tokens + SESSION_TOKENS
        total = self.standing_s + (tokens * self.token_s if tokens > 0 else 0.0)
        if ask.max_tokens is not None:
            total -= self.running_s * self._unwritten(ask.max_tokens)
        return total

    def charge(self, ask: Ask, now: float) -> Charge:
        """Takes a request in, at its dispatch. Whatever becomes of it, `done` must follow."""
        tokens = ask.tokens
        if ask.chain:
            depth = self.prefix.match(ask.chain)
            tokens = max(0, tokens - depth * BLOCK_TOKENS)
            self.prefix.touch(ask.chain)
            if self.news is not None and depth < len(ask.chain):
                self.news.add(ask.chain)
        if ask.session is not None:
            self.sessions.touch((hash(ask.session),))
        self.capacity.asked(tokens)
        # Other workers' prompts are read before this one: they count as read already, so that the sample has them.
        charge = Charge(tokens, now, inf, self._read - self._elsewhere_tokens, streams=ask.streams)
        self._ahead += tokens
        self._waiting += 1
        if not ask.streams:
            self._begin_unseen(now)
            charge.due = now + self._queued() / self.capacity.prefill_tps
            self._unseen.append(charge)
        self.due = -inf
        return charge

    def first_byte(self, charge: Charge, now: float) -> None:
        """The answer begins: the prompt has been read. Only the first call counts."""
        if charge.state != _WAITS:
            return
        self._begin(charge, now)
        if charge.streams:
            # A time that earlier samples have covered says nothing new: an engine that stands still once with a hundred
            # requests was slow once, and not a hundred times.
            waited = now - charge.at
            new = min(1.0, (now - self._sampled_at) / waited) if waited > 0.0 else 0.0
            self._sampled_at = now
            self.capacity.read(self._read - charge.mark, waited, new)

    def done(self, charge: Charge, now: float, output_bytes: int = 0, output_tokens: int | None = None) -> None:
        """The request is over, however it ended: gives back what it still holds. Only the first call counts.

        `output_tokens`: as the engine reported them; else they are estimated by `output_bytes`.
        """
        if charge.state == _WAITS:
            self._ahead -= charge.tokens
            self._waiting -= 1
        elif charge.state == _RUNS:
            self._running -= 1
            tokens: float | None = output_tokens
            if tokens is None:
                tokens = output_bytes / (STREAMED_BYTES_PER_TOKEN if charge.streams else BYTES_PER_TOKEN)
            running = (charge.running + 1 + self._all_running()) / 2
            self.capacity.wrote(tokens, now - charge.begun if charge.streams else 0.0, running)
        else:
            return
        charge.state = _OVER
        self.due = -inf

    def failed(self, now: float) -> None:
        """An attempt failed here: the next requests avoid it at once, before any breaker has made up its mind."""
        self._penalty_s = min(MOST_FAILED_S, self._penalty(now) + FAILED_S)
        self._penalty_at = now
        self.due = -inf

    def holds(self, session: int) -> bool:
        """Whether the newest requests with that session header, by the header's `hash`, went here."""
        return self.sessions.match((session,)) > 0

    def terms(self, ask: Ask, now: float, *, held: bool | None = None) -> Terms:
        """What `seconds` is the sum of."""
        if now >= self.due:
            self.settle(now)
        cached = self.prefix.match(ask.chain) * BLOCK_TOKENS
        tokens = ask.tokens - cached
        if held is not None:
            tokens = 0 if held else tokens + SESSION_TOKENS
        decode_s = self._all_running() * self.capacity.decode_s
        if ask.max_tokens is not None:
            decode_s *= 1.0 - self._unwritten(ask.max_tokens)
        return Terms(
            endpoint=self.name,
            queue_s=self._queued() / self.capacity.prefill_tps + self._others.queue_s,
            prefill_s=max(0, tokens) / self.capacity.prefill_tps,
            decode_s=decode_s,
            kv_s=self._others.kv_s,
            risk_s=self._risk_s + self._penalty(now),
            weight=self.weight,
            total_s=self.seconds(ask, now, held=held),
            cached_tokens=cached,
            in_flight=self.in_flight,
            session=bool(held),
            reported=self._others.reported,
        )

    # --- the account ---

    @property
    def in_flight(self) -> int:
        """Requests charged and not done."""
        return self._waiting + self._running

    @property
    def tokens_ahead(self) -> int:
        """Tokens of prompts charged that have no first byte yet: what other workers set as `elsewhere_tokens`."""
        return self._ahead

    def settle(self, now: float) -> None:
        """Brings the sums up to date, and says in `due` until when they hold."""
        self._begin_unseen(now)
        self.due = self._unseen[0].due if self._unseen else inf
        if self._others.reported and self._load is not None:
            stale_at = self._load.at + LOAD_FRESH_S
            if now >= stale_at:
                self._others = UNREPORTED
            else:
                self.due = min(self.due, stale_at)
        penalty = self._penalty(now)
        if penalty:
            self.due = min(self.due, now + CHECK_S)
        other, share = self._others, self.share
        self.token_s = share / self.capacity.prefill_tps
        self.running_s = self._all_running() * self.capacity.decode_s * share
        fixed_s = other.queue_s + other.kv_s + self._risk_s + penalty
        self.standing_s = self._queued() * self.token_s + self.running_s + fixed_s * share

    def _begin(self, charge: Charge, now: float) -> None:
        self._ahead -= charge.tokens
        self._waiting -= 1
        self._running += 1
        self._read += charge.tokens
        charge.state = _RUNS
        charge.begun = now
        charge.running = self._all_running()
        self.due = -inf

    def _begin_unseen(self, now: float) -> None:
        """Where the first byte comes with the last one, the prompt counts as read when that should have been done."""
        unseen = self._unseen
        while unseen and (unseen[0].due <= now or unseen[0].state != _WAITS):
            charge = unseen.popleft()
            if charge.state == _WAITS:
                self._begin(charge, now)

    def _queued(self) -> float:
        """Tokens of prompts that are ahead of one that comes now."""
        return self._ahead + self._elsewhere_tokens + self._others.waiting * self.capacity.prompt_tokens

    def _all_running(self) -> float:
        return self._running + self._elsewhere_requests + self._others.running

    def _unwritten(self, max_tokens: int) -> float:
        """The share of the usual answer that a bounded one does not have."""
        return max(0.0, 1.0 - max(0, max_tokens) / self.capacity.output_tokens)

    def _penalty(self, now: float) -> float:
        left = self._penalty_s * 0.5 ** ((now - self._penalty_at) / FAILED_S) if self._penalty_s else 0.0
        if left < FORGIVEN_S:
            self._penalty_s = left = 0.0
        return left

    # --- what others tell ---

    def heard(self, news: bytes) -> None:
        """Takes in what another worker's `news` told of its prompts."""
        for chain in read_news(news):
            self.prefix.touch(chain)

    @property
    def load(self) -> EngineLoad | None:
        """The engine's last report. Set when it comes: what of it is this gateway's own is found then."""
        return self._load

    @load.setter
    def load(self, load: EngineLoad | None) -> None:
        self._load = load
        self._others = others(load, self.in_flight + self._elsewhere_requests)
        self.due = -inf

    @property
    def risk_s(self) -> float:
        """Seconds that the fleet's facts add: a card's health, a planned stop. Unknown counts as none."""
        return self._risk_s

    @risk_s.setter
    def risk_s(self, seconds: float | None) -> None:
        self._risk_s = seconds or 0.0
        self.due = -inf

    @property
    def elsewhere_requests(self) -> int:
        """Requests that this host's other workers have in flight there."""
        return self._elsewhere_requests

    @elsewhere_requests.setter
    def elsewhere_requests(self, requests: int) -> None:
        self._elsewhere_requests = requests
        self.due = -inf

    @property
    def elsewhere_tokens(self) -> int:
        """Tokens of prompts among them that have no first byte yet."""
        return self._elsewhere_tokens

    @elsewhere_tokens.setter
    def elsewhere_tokens(self, tokens: int) -> None:
        self._elsewhere_tokens = tokens
        self.due = -inf

# SPDX-License-Identifier: Apache-2.0
"""What the answers of a routing run amount to: one row a target, the table, and what to know of it. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from textwrap import wrap
from typing import Any

from tests.bench import routing_traffic as asked
from tests.bench.gateway_report import table
from tests.bench.routing_engine import FLEET

Row = dict[str, Any]
TTFT_LIMIT_S = 1.0
"""An answer that begins later is worth nothing to its reader: it does not count for goodput."""
KEPT_UP_MS = 50.0
"""No gateway takes as long over a request; where it is longer from the client to the engine, the machine was busy."""
PAGE_WIDTH = 140
REFUSED = (429, 503)
BEGIN, END = "<!-- routing bench: begin -->", "<!-- routing bench: end -->"
CARDS = tuple(dict.fromkeys(hardware.device_class for hardware in FLEET))


def percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest of the values below which `share` of them are; None where that is infinite, or there is none."""
    ordered = sorted(values)
    found = ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else math.inf
    return found if math.isfinite(found) else None


def summed(target: str, outcomes: Sequence[Row], seconds: float) -> Row:
    """One row. A question without an answer counts with an infinite time, so leaving some out never looks fast."""
    begun = [math.inf if one["ttft_s"] is None else one["ttft_s"] for one in outcomes]
    whole = [one for one in outcomes if one["complete"]]
    good = sum(one["ttft_s"] <= TTFT_LIMIT_S for one in whole)
    refused = sum(one["status"] in REFUSED for one in outcomes)
    prompts = sum(one["prompt_tokens"] for one in whole)
    cards = Counter(one["engine"].partition("/")[0] for one in whole)
    times = {
        "ttft": begun,
        "engine_ttft": [one["engine_ttft_s"] for one in whole],
        "outside_engine": [one["ttft_s"] - one["engine_ttft_s"] for one in whole],
        "asked_late": [one["late_s"] for one in outcomes],
        "answer": [one["took_s"] for one in whole],
    }
    return {
        "target": target,
        "requests": len(outcomes),
        **{f"{name}_p50_ms": _ms(percentile(values, 0.5)) for name, values in times.items()},
        **{f"{name}_p99_ms": _ms(percentile(values, 0.99)) for name, values in times.items()},
        "goodput_rps": round(good / seconds, 2),
        "good_share": round(good / max(len(outcomes), 1), 4),
        "rejects": refused,
        "failed": len(outcomes) - len(whole) - refused,
        "cache_hit_rate": round(sum(one["cached_tokens"] for one in whole) / max(prompts, 1), 4),
        "by_card": {card: round(cards[card] / max(len(whole), 1), 4) for card in CARDS},
    }


def report(rows: Sequence[Row]) -> list[str]:
    """Lines of a markdown table, and a note where the machine did not keep up."""
    head = ["", "TTFT p50, ms", "TTFT p99, ms", "p99 at the engine", "answers/s begun within 1 s", "share of all"]
    head += ["refused", "failed", "prompt tokens cached", "whole answer p50, ms", f"share of {', '.join(CARDS)}"]
    lines = []
    for row in rows:
        times = [row[f"{name}_ms"] for name in ("ttft_p50", "ttft_p99", "engine_ttft_p99")]
        cells = [row["target"], *map(_cell, times), f"{row['goodput_rps']:.1f}", f"{row['good_share']:.1%}"]
        cells += [str(row["rejects"]), str(row["failed"]), f"{row['cache_hit_rate']:.0%}", _cell(row["answer_p50_ms"])]
        lines.append([*cells, ", ".join(f"{share:.0%}" for share in row["by_card"].values())])
    busy = [row["target"] for row in rows if (row["outside_engine_p99_ms"] or 0) > KEPT_UP_MS]
    note = f"Not to be quoted: this machine was too busy to keep up, as seen in the runs of {', '.join(busy)}."
    return [*table(head, lines), *(["", note] if busy else [])]


def explained(rows: Sequence[Row], seconds: float, rate: float, seeds: Sequence[int], versions: str) -> list[str]:
    """The table for the documentation, after what was asked of whom."""
    cards = ", ".join(f"{count} x {card}" for card, count in Counter(one.device_class for one in FLEET).items())
    count = max((row["requests"] for row in rows), default=0)
    bursts = f"{asked.BURST_EVERY_S:g} s a burst of {asked.BURST_S:g} s at {asked.BURST_FACTOR:g} times the rate"
    text = f"""`make bench-routing` asks the same questions of each, in front of a **simulator** of {len(FLEET)} engines
    that serve a model of 8 billion parameters ({cards}): continuous batches, prefix caches of the cards' sizes, queues.
    No GPU was involved. {rate:g} conversations a second begin by chance during {seconds:g} s; every {bursts}, in which
    all begin alike. Each begins with one of {asked.GROUPS} shared prompts, of which a few are much more popular
    (median: {asked.GROUP_TOKENS[0]:,} tokens). {asked.DOCUMENT_SHARE:.0%} bring a document of their own
    ({asked.DOCUMENT_TOKENS[0]:,}), {asked.ANOTHER_TURN:.0%} of turns are followed by another; questions have
    {asked.QUESTION_TOKENS[0]} tokens and answers {asked.ANSWER_TOKENS[0]}. {count:,} questions
    each, seeds {", ".join(map(str, seeds))}. {versions} with cache_aware and its defaults;
    `balanced`: with balance thresholds of 4 requests and 1.1. `cost-blind`: cost, where nobody tells the cards."""
    return [*wrap(" ".join(text.split()), PAGE_WIDTH), "", *report(rows)]


def put_between(text: str, lines: Sequence[str]) -> str:
    """A page with the lines between its two marks. Raises ValueError for a page without them."""
    before, begin, rest = text.partition(BEGIN)
    _old, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} with {END} after it")
    return "\n".join([before + BEGIN, "", *lines, "", END + after])


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000, 1)


def _cell(milliseconds: float | None) -> str:
    return "never" if milliseconds is None else f"{milliseconds:,.0f}"

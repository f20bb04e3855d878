# SPDX-License-Identifier: Apache-2.0
"""The simulator's numbers, and their exposition under vLLM's metric names."""

from __future__ import annotations

import bisect
import itertools

BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 600.0)
FINISH_REASONS = ("stop", "length", "abort")


class Histogram:
    """Observed durations in seconds, counted by upper bound."""

    def __init__(self) -> None:
        self._counts = [0] * (len(BOUNDS_S) + 1)
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Counts one duration."""
        self._counts[bisect.bisect_left(BOUNDS_S, seconds)] += 1
        self._sum += seconds

    def lines(self, name: str, labels: str) -> list[str]:
        """The exposition lines: cumulative buckets, count and sum."""
        cumulative = list(itertools.accumulate(self._counts))
        lines = [f"# TYPE {name} histogram"]
        lines += [
            f'{name}_bucket{{{labels},le="{bound}"}} {count}' for bound, count in zip((*BOUNDS_S, "+Inf"), cumulative)
        ]
        return [*lines, f"{name}_count{{{labels}}} {cumulative[-1]}", f"{name}_sum{{{labels}}} {self._sum:.6f}"]


class Metrics:
    """Everything the engine counts; gauges are handed in when they are asked for."""

    def __init__(self) -> None:
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.cache_queries = 0
        self.cache_hits = 0
        self.finished = dict.fromkeys(FINISH_REASONS, 0)
        self.queue_time = Histogram()
        self.time_to_first_token = Histogram()
        self.inter_token_latency = Histogram()
        self.request_latency = Histogram()

    def exposition(self, model: str, gauges: dict[str, float], config: dict[str, int]) -> str:
        """The text of /metrics. `gauges` are named without prefix; `config` becomes labels of cache_config_info."""
        label_value = model.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
        labels = f'engine="0",model_name="{label_value}"'
        counters = {
            "num_preemptions_total": 0,
            "prompt_tokens_total": self.prompt_tokens,
            "generation_tokens_total": self.generation_tokens,
            "prefix_cache_queries_total": self.cache_queries,
            "prefix_cache_hits_total": self.cache_hits,
        }
        lines = []
        for kind, values in (("gauge", gauges), ("counter", counters)):
            for name, value in values.items():
                lines += [f"# TYPE vllm:{name} {kind}", f"vllm:{name}{{{labels}}} {value}"]
        lines.append("# TYPE vllm:request_success_total counter")
        for reason, count in self.finished.items():
            lines.append(f'vllm:request_success_total{{{labels},finished_reason="{reason}"}} {count}')
        lines += self.time_to_first_token.lines("vllm:time_to_first_token_seconds", labels)
        lines += self.inter_token_latency.lines("vllm:inter_token_latency_seconds", labels)
        lines += self.request_latency.lines("vllm:e2e_request_latency_seconds", labels)
        lines += self.queue_time.lines("vllm:request_queue_time_seconds", labels)
        info = ",".join(f'{key}="{value}"' for key, value in config.items())
        lines += ["# TYPE vllm:cache_config_info gauge", f'vllm:cache_config_info{{engine="0",{info}}} 1']
        return "\n".join(lines) + "\n"

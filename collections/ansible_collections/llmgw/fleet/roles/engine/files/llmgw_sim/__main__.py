# SPDX-License-Identifier: Apache-2.0
"""Starts the simulator: options, loading, serving, shutting down. On nodes the package is one file, bin/llmgw-sim."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import socket
import sys
from pathlib import Path
from typing import Any, Awaitable, Collection

# Run by its path, Python looks for imports beside this file; the package is one folder up.
if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)
    sys.dont_write_bytecode = True  # the source tree is not the simulator's to write to

import llmgw_sim
from llmgw_sim.api import Api, Serving
from llmgw_sim.engine import BLOCK_TOKENS, Engine, Pace
from llmgw_sim.nodes import Ranks, follow
from llmgw_sim.web import Connection

BACKLOG = 2048
DEFAULT_MODEL_LEN = 8192
FLUSH_S = 1.0


def parse(argv: list[str]) -> argparse.Namespace:
    """The options, checked; named as vLLM's where vLLM has them. Exits 2 with a message for what is not understood."""
    parser = argparse.ArgumentParser(
        "llmgw-sim", "llmgw-sim --model NAME [options]; --help lists them", llmgw_sim.__doc__, allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"llmgw-sim {llmgw_sim.VERSION} (simulator)")
    add = parser.add_argument
    add("--model", required=True, help="name or path of the weights; never opened")
    add("--served-model-name", nargs="+", metavar="NAME", help="names that clients use (default: --model)")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000)
    add("--api-key-file", type=Path, metavar="FILE", help="keys for /v1, one a line; also: variable VLLM_API_KEY")
    add(
        "--max-model-len",
        type=_positive,
        metavar="TOKENS",
        help=f"longest prompt and answer (default: {DEFAULT_MODEL_LEN}, or what fits)",
    )
    add("--max-num-seqs", type=_positive, default=256, metavar="N", help="requests that run at once; more wait")
    add("--kv-tokens", type=_positive, default=65536, metavar="TOKENS", help="size of the KV cache")
    add("--load-seconds", type=_seconds, default=0.0, metavar="S", help="time from start to ready")
    add("--ttft-ms", type=_seconds, default=50.0, metavar="MS", help="time to first token")
    add("--itl-ms", type=_seconds, default=10.0, metavar="MS", help="time between tokens")
    add(
        "--prefill-rate", type=_seconds, default=0.0, metavar="N", help="uncached prompt tokens per second; 0: no limit"
    )
    add("--shutdown-timeout", type=_seconds, default=0.0, metavar="S", help="how long SIGTERM lets streams go on")
    add(
        "--nnodes",
        type=_positive,
        default=1,
        metavar="N",
        help="nodes of the replica; rank 0 serves when all are there",
    )
    add("--node-rank", type=int, default=0, metavar="RANK", help="which of them this is")
    add("--master-addr", default="127.0.0.1", metavar="ADDRESS", help="where rank 0 awaits the others")
    add("--master-port", type=int, default=29501, metavar="PORT")
    add("--headless", action="store_true", help="a rank other than 0: no HTTP at all")
    add("--faults", action="store_true", help="serve /sim/faults and /sim/state, for tests")
    add("--fail-load", type=_seconds, metavar="S", help="fail to load after S seconds, exit 1")
    add("--load-never", action="store_true", help="load for ever")
    options, unknown = parser.parse_known_args(argv)
    if unknown:  # named without their values, one of which may be a secret
        named = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        parser.error(f"unknown: {', '.join(named) or 'words that belong to no option'}")
    if not 0 <= options.node_rank < options.nnodes or options.headless != (options.node_rank > 0):
        parser.error("--node-rank is below --nnodes, and every rank but 0 is --headless")
    room = options.kv_tokens // BLOCK_TOKENS * BLOCK_TOKENS
    options.max_model_len = options.max_model_len or min(DEFAULT_MODEL_LEN, room)
    if not 0 < options.max_model_len <= room:
        parser.error(f"--max-model-len {options.max_model_len} does not fit into --kv-tokens {options.kv_tokens}")
    keys = [os.environ.get("VLLM_API_KEY", "")]
    if options.api_key_file:
        try:
            keys += options.api_key_file.read_text(encoding="utf-8").split()
        except OSError as error:
            parser.error(f"--api-key-file: {error}")
    options.api_keys = list(filter(None, keys))
    return options


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return value


def _seconds(text: str) -> float:
    if not 0 <= (value := float(text)) < 1e9:  # noqa: PLR2004 - decades; also keeps out nan and inf
        raise argparse.ArgumentTypeError(f"{text} is no time that a program can wait")
    return value


def say(message: str) -> None:
    """One line to the log."""
    sys.stderr.write(f"llmgw-sim: {message}\n")
    sys.stderr.flush()


async def serve(options: argparse.Namespace) -> int:
    """The exit status, after loading, serving and a signal to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if options.headless:
        return await _serve_headless(stop, options)
    names = options.served_model_name or [options.model]
    listener = socket.socket(socket.AF_INET6 if ":" in options.host else socket.AF_INET)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        # As in vLLM the port is taken before the weights are loaded, and not listened on until they are.
        listener.bind((options.host, options.port))
        say(f"SIMULATOR, no model is loaded. Loading {options.model} as {', '.join(names)}")
        ranks = Ranks(options.nnodes)
        await ranks.open(options.master_addr, options.master_port)
        if await _stopped_before(ranks.complete.wait(), stop) or await _stopped_while_loading(stop, options):
            return 0
        if options.fail_load is not None:
            say("ERROR: torch.OutOfMemoryError: CUDA out of memory (simulated by --fail-load)")
            return 1
        engine = Engine(
            Pace(options.ttft_ms / 1000, options.itl_ms / 1000, options.prefill_rate),
            options.max_num_seqs,
            options.kv_tokens,
        )
        api = Api(engine, Serving(names, options.max_model_len, options.api_keys, options.faults))
        connections: set[Connection] = set()
        server = await loop.create_server(lambda: Connection(api.handle, connections), sock=listener, backlog=BACKLOG)
    except OSError as error:
        say(f"ERROR: cannot listen on {options.host}:{options.port}: {error.strerror}")
        return 1
    watching = loop.create_task(_hang_without(ranks, engine))
    say(f"GPU KV cache size: {options.kv_tokens} tokens")
    say(f"listening on http://{options.host}:{options.port}")
    await stop.wait()
    say(f"stopping; {len(api.in_flight)} requests in flight get {options.shutdown_timeout:g} s")
    api.draining = True
    await _wait(api.in_flight, options.shutdown_timeout)
    for task in api.in_flight:
        task.cancel()
    await _wait(api.in_flight, FLUSH_S)
    server.close()
    watching.cancel()
    await _close(connections)
    return 0


async def _serve_headless(stop: asyncio.Event, options: argparse.Namespace) -> int:
    """The exit status of a rank without HTTP: it ends at once when it is told to, whatever rank 0 is doing."""
    try:
        await _stopped_before(follow(options.master_addr, options.master_port, options.node_rank, say), stop)
    except asyncio.TimeoutError:
        say("ERROR: torch.distributed.DistNetworkError: the client socket has timed out waiting for rank 0 (simulated)")
        return 1
    return 0


async def _hang_without(ranks: Ranks, engine: Engine) -> None:
    await ranks.lost.wait()
    engine.hang(hung=True)


async def _stopped_before(other: Awaitable[Any], stop: asyncio.Event) -> bool:
    """Whether the signal came before the other; what the other raises is raised."""
    tasks = [asyncio.ensure_future(other), asyncio.ensure_future(stop.wait())]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if tasks[0].done():
            tasks[0].result()
        return not tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()


async def _stopped_while_loading(stop: asyncio.Event, options: argparse.Namespace) -> bool:
    """Whether the signal came before the time of loading was over."""
    seconds = options.load_seconds if options.fail_load is None else options.fail_load
    try:
        await asyncio.wait_for(stop.wait(), None if options.load_never else seconds)
    except asyncio.TimeoutError:
        return False
    return True


async def _wait(tasks: Collection[asyncio.Future[Any]], timeout_s: float) -> None:
    if tasks and timeout_s:
        await asyncio.wait(set(tasks), timeout=timeout_s)


async def _close(connections: set[Connection]) -> None:
    """Closes what is open, and gives the last bytes a moment to leave."""
    closed = {connection.closed for connection in connections}
    for connection in list(connections):
        connection.close()
    await _wait(closed, FLUSH_S)


def main() -> int:
    """The exit status of the command line."""
    return asyncio.run(serve(parse(sys.argv[1:])))


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""llama-server on xllamacpp: llama.cpp's own HTTP server in this process, started with llama-server's option names.

The package xllamacpp is llama.cpp as a wheel, without a command line; this is one. It differs from llama-server in
three ways. SIGTERM lets what is in flight go on for --stop-timeout seconds and then ends the process, where llama.cpp
waits for its clients without limit. /metrics is always served, since the number of requests in flight is read from it.
And keys come from a file or from LLAMA_API_KEY alone: what stands on a command line is no secret.

What keeps it from serving is told in one line of its own, and by the exit status, which systemd names: 64 USAGE,
65 DATAERR (the file is no model, or damaged), 66 NOINPUT (there is no file), 69 UNAVAILABLE (the port cannot be had),
70 SOFTWARE (llama.cpp could not load the file).
"""

from __future__ import annotations

import argparse
import errno
import importlib.metadata
import os
import re
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Callable, NoReturn

try:
    import xllamacpp
except ImportError as error:
    sys.exit(f"llama-server: error: the package xllamacpp cannot be loaded: {error}")

POLL_S = 0.05
USAGE, DATA, NO_INPUT, UNAVAILABLE, SOFTWARE = (
    os.EX_USAGE,
    os.EX_DATAERR,
    os.EX_NOINPUT,
    os.EX_UNAVAILABLE,
    os.EX_SOFTWARE,
)
KEY_VARIABLE = "LLAMA_API_KEY"
"""Keys with commas between, as llama-server takes them."""
MAGIC = b"GGUF"
SCALARS = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
"""Bytes of a value in a GGUF header, by its type's number."""
NUMBER, TEXT, ARRAY = 4, 8, 9
MOST_BYTES = 1 << 26
LINGER_S = 0.5
"""For the last bytes of an answer: its slot is free before they are sent."""
GRACE_S = 2
"""What the kernel adds to --stop-timeout before it ends the process itself."""


@dataclass(frozen=True)
class Option:
    """One option that only sets a parameter of llama.cpp; `target` is its path in CommonParams."""

    flags: str
    target: str
    convert: Callable[[str], object] = int
    help: str = ""


@dataclass(frozen=True)
class Switch:
    """A pair of options without a value: `on` sets the parameter to true, `off` to false."""

    target: str
    on: str = ""
    off: str = ""


def one_of(enum: str, prefix: str, **renamed: str) -> Callable[[str], object]:
    """A converter from an option's word to a member of an enumeration; `renamed` maps words to members' names."""

    def convert(word: str) -> object:
        name = prefix + renamed.get(word, word).upper()
        try:
            return getattr(xllamacpp, enum)[name]
        except KeyError:
            known = (item.name[len(prefix) :].lower() for item in getattr(xllamacpp, enum))
            raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join((*renamed, *known))}") from None

    return convert


def layers(word: str) -> int:
    """A number of layers to offload, or llama-server's words for as many as fit and for all."""
    return {"auto": -1, "all": -2}.get(word) or int(word)


def on_or_off(word: str) -> bool:
    """Whether the word is on."""
    if word not in ("on", "off"):
        raise argparse.ArgumentTypeError(f"{word!r} is neither on nor off")
    return word == "on"


def shares(text: str) -> list[float]:
    """The parts of a model that each device gets, as in 3,1; the list has a place for every possible device."""
    given = [float(part) for part in text.split(",")]
    return given + [0.0] * (len(xllamacpp.CommonParams().tensor_split) - len(given))


cache_type = one_of("ggml_type", "GGML_TYPE_")

OPTIONS = (
    Option("-c --ctx-size", "n_ctx", help="tokens of context, shared by all slots; 0: the model's"),
    Option("-np --parallel", "n_parallel", help="slots: requests that run at once"),
    Option("-t --threads", "cpuparams.n_threads", help="threads that generate"),
    Option("-tb --threads-batch", "cpuparams_batch.n_threads", help="threads that read prompts (default: --threads)"),
    Option("--threads-http", "n_threads_http"),
    Option("-b --batch-size", "n_batch"),
    Option("-ub --ubatch-size", "n_ubatch"),
    Option("-n --predict --n-predict", "n_predict", help="longest answer in tokens; -1: no limit"),
    Option("-ngl --gpu-layers --n-gpu-layers", "n_gpu_layers", layers, "a number, auto or all"),
    Option(
        "-sm --split-mode", "split_mode", one_of("llama_split_mode", "LLAMA_SPLIT_MODE_"), "none, layer, row, tensor"
    ),
    Option("-ts --tensor-split", "tensor_split", shares, "share of each device, as in 3,1"),
    Option("-mg --main-gpu", "main_gpu"),
    Option("-ctk --cache-type-k", "cache_type_k", cache_type, "f16, q8_0, ..."),
    Option("-ctv --cache-type-v", "cache_type_v", cache_type),
    Option("-cram --cache-ram", "cache_ram_mib", help="MiB for prompts kept in host memory"),
    Option("--cache-reuse", "n_cache_reuse"),
    Option(
        "-fa --flash-attn",
        "flash_attn_type",
        one_of("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_", on="enabled", off="disabled"),
        "on, off or auto",
    ),
    Option("--fit", "fit_params", on_or_off, "on or off: adapt what is not set to memory"),
    Option("--pooling", "pooling_type", one_of("llama_pooling_type", "LLAMA_POOLING_TYPE_"), "for embeddings"),
    Option("--numa", "numa", one_of("ggml_numa_strategy", "GGML_NUMA_STRATEGY_")),
    Option("-lm --load-mode", "load_mode", one_of("llama_load_mode", "LLAMA_LOAD_MODE_"), "auto, mmap, mlock, ..."),
    Option("--mmproj", "mmproj.path", str, "file of the vision or audio part"),
    Option("--chat-template", "chat_template", str),
    Option("--reasoning-format", "reasoning_format", one_of("common_reasoning_format", "COMMON_REASONING_FORMAT_")),
    Option("--rope-freq-base", "rope_freq_base", float),
    Option("--rope-freq-scale", "rope_freq_scale", float),
    Option("--sleep-idle-seconds", "sleep_idle_seconds"),
    Option("-to --timeout", "timeout_read timeout_write", help="seconds"),
    Option("-lv --verbosity --log-verbosity", "verbosity"),
)
SWITCHES = (
    Switch("endpoint_slots", "--slots", "--no-slots"),
    Switch("endpoint_props", "--props"),
    Switch("embedding", "--embedding --embeddings"),
    Switch("warmup", "--warmup", "--no-warmup"),
    Switch("use_jinja", "--jinja", "--no-jinja"),
    Switch("cont_batching", "-cb --cont-batching", "-nocb --no-cont-batching"),
    Switch("cache_prompt", "--cache-prompt", "--no-cache-prompt"),
    Switch("ctx_shift", "--context-shift", "--no-context-shift"),
    Switch("kv_unified", "-kvu --kv-unified", "-no-kvu --no-kv-unified"),
    Switch("no_kv_offload", "-nkvo --no-kv-offload", "-kvo --kv-offload"),
    Switch("swa_full", "--swa-full"),
    Switch("ui", "--ui --webui", "--no-ui --no-webui"),
)


class Parser(argparse.ArgumentParser):
    """A parser whose complaint is one line with the status that systemd calls USAGE."""

    def error(self, message: str) -> NoReturn:
        """Ends the program with the message."""
        say(f"error: {message}")
        sys.exit(USAGE)


def parse(argv: list[str]) -> argparse.Namespace:
    """The options. Exits 64 with a message for what is not understood."""
    parser = Parser("llama-server", "llama-server -m FILE [options]; --help lists them", __doc__, allow_abbrev=False)
    version = f"llama-server {importlib.metadata.version('xllamacpp')} (xllamacpp)"
    parser.add_argument("--version", action="version", version=version)
    parser.add_argument("-m", "--model", required=True, type=Path, help="GGUF file; of a split model the first")
    parser.add_argument("-a", "--alias", help="names that clients use, with commas between (default: the file's path)")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--api-key-file", type=Path, metavar="FILE", help="keys that clients need, one a line")
    parser.add_argument("--metrics", action="store_true", help="for llama-server's sake: /metrics is always served")
    parser.add_argument(
        "--stop-timeout", type=float, default=12.0, metavar="S", help="time for what is in flight on SIGTERM"
    )
    for option in OPTIONS:
        flags = option.flags.split()
        parser.add_argument(*flags, dest=option.target, type=option.convert, metavar="VALUE", help=option.help or None)
    for switch in SWITCHES:
        for names, value in ((switch.on, True), (switch.off, False)):
            if names:
                parser.add_argument(*names.split(), dest=switch.target, action="store_const", const=value)
    options, unknown = parser.parse_known_args(argv)
    if unknown:  # named without their values, one of which may be a secret
        named = [word.partition("=")[0] for word in unknown if word.startswith("-")]
        parser.error(f"unknown: {', '.join(named) or 'words that belong to no option'}")
    if not 0 < options.port < 1 << 16:
        parser.error(f"argument --port: {options.port} is not from 1 to 65535")
    try:
        options.api_keys = options.api_key_file.read_text(encoding="utf-8").split() if options.api_key_file else []
    except OSError as error:
        parser.error(f"--api-key-file: {error}")
    # Not left in the environment, which llama.cpp reads too, and every library that it loads.
    options.api_keys += [key for key in os.environ.pop(KEY_VARIABLE, "").split(",") if key]
    return options


def parameters(options: argparse.Namespace) -> xllamacpp.CommonParams:
    """llama.cpp's parameters: its own defaults, but for what was given."""
    params = xllamacpp.CommonParams()
    params.model.path = str(options.model)
    params.model_alias = set(options.alias.split(",")) if options.alias else set()
    params.hostnames = [options.host]
    params.port = options.port
    params.api_keys = options.api_keys
    params.endpoint_metrics = True
    given = vars(options)
    # As in llama-server, prompts are read by as many threads as generate, unless their number is given too.
    given["cpuparams_batch.n_threads"] = given["cpuparams_batch.n_threads"] or given["cpuparams.n_threads"]
    for name in [entry.target for entry in (*OPTIONS, *SWITCHES)]:
        if given[name] is not None:
            for target in name.split():
                *owners, attribute = target.split(".")
                owner = params
                for part in owners:
                    owner = getattr(owner, part)
                setattr(owner, attribute, given[name])
    return params


def say(message: str) -> None:
    """One line to the log, among llama.cpp's."""
    sys.stderr.write(f"llama-server: {message}\n")


def unusable(model: Path) -> tuple[int, str] | None:
    """Status and sentence about a file that cannot be a model; None when its first bytes look like one."""
    if model.exists() and not model.is_file():  # a pipe is not even opened: that would wait for its other end
        return NO_INPUT, f"{model} is no file"
    try:
        with model.open("rb") as file:
            begin = file.read(len(MAGIC))
    except FileNotFoundError:
        return NO_INPUT, f"there is no file {model}"
    except OSError as error:
        return NO_INPUT, f"{model} cannot be read: {error.strerror}"
    if begin != MAGIC:
        return DATA, f"{model} is no GGUF file: it begins with {begin!r} where a model has {MAGIC!r}"
    return None


def unloaded(model: Path) -> tuple[int, str]:
    """Status and sentence about a file that begins like a model and was not loaded, as far as its header tells."""
    try:
        with model.open("rb") as file:
            end = Header(file).last_tensor()
    except (OSError, ValueError, RecursionError):
        return DATA, f"{model} is damaged or cut off: its header cannot be read to the end"
    size = model.stat().st_size
    if end >= size:
        return DATA, f"{model} is cut off: it has {size} bytes, and its last tensor begins at {end}"
    reasons = "it is damaged, or of a kind that this llama.cpp does not know, or memory ran out"
    return SOFTWARE, f"{model} was not loaded, and the lines above say why: {reasons}"


class Header:
    """The header of a GGUF file, as far as it tells where tensors lie. Raises ValueError when it is broken."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def last_tensor(self) -> int:
        """Where the last tensor begins, in bytes."""
        self._bytes(len(MAGIC) + 4)
        tensors, values = self._number(8), self._number(8)
        alignment = 32
        for _value in range(values):
            name = self._bytes(self._number(8))
            kind = self._number(4)
            if name == b"general.alignment" and kind == NUMBER:
                alignment = self._number(4) or alignment
            else:
                self._pass_over(kind)
        furthest = 0
        for _tensor in range(tensors):
            self._bytes(self._number(8))
            self._bytes(8 * self._number(4) + 4)
            furthest = max(furthest, self._number(8))
        return -(-self._file.tell() // alignment) * alignment + furthest

    def _pass_over(self, kind: int) -> None:
        if kind in SCALARS:
            self._bytes(SCALARS[kind])
        elif kind == TEXT:
            self._bytes(self._number(8))
        elif kind == ARRAY:
            inner, count = self._number(4), self._number(8)
            if inner in SCALARS:
                self._bytes(SCALARS[inner] * count)
            else:
                for _item in range(count):
                    self._pass_over(inner)
        else:
            raise ValueError(kind)

    def _number(self, size: int) -> int:
        return int.from_bytes(self._bytes(size), "little")

    def _bytes(self, count: int) -> bytes:
        """The next bytes. A count that no header has is the sign of a broken one, and not read."""
        if count > MOST_BYTES:
            raise ValueError(count)
        found = self._file.read(count)
        if len(found) < count:
            raise ValueError(count)
        return found


def port_trouble(host: str, port: int) -> str | None:
    """Why nobody could listen there now; None when it can be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
            probe.listen(1)
    except OSError as error:
        words = {
            errno.EADDRINUSE: "is taken by another process",
            errno.EADDRNOTAVAIL: "cannot be had: the address is not of this machine",
        }
        return f"port {port} of {host} {words.get(error.errno or 0, f'cannot be had: {error.strerror}')}"
    return None


def in_flight(server: xllamacpp.Server) -> int:
    """Requests that run or wait for a slot."""
    counts = re.findall(r"^llamacpp:requests_(?:processing|deferred) (\d+)", server.handle_metrics(), re.MULTILINE)
    return sum(map(int, counts))


def failure(options: argparse.Namespace) -> tuple[int, str]:
    """Status and sentence about a server that llama.cpp did not bring up."""
    trouble = port_trouble(options.host, options.port)
    if trouble is not None:
        return UNAVAILABLE, trouble
    return unusable(options.model) or unloaded(options.model)


def main() -> int:
    """The exit status of the command line."""
    # While it loads, llama.cpp never returns to Python, which could not carry out a handler of its own.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    options = parse(sys.argv[1:])
    trouble = port_trouble(options.host, options.port)
    found = (UNAVAILABLE, trouble) if trouble is not None else unusable(options.model)
    server = None
    begun = time.monotonic()
    if found is None:
        say(f"loading {options.model} for {options.host}:{options.port}")
        try:
            server = xllamacpp.Server(parameters(options))
        except RuntimeError:
            found = failure(options)
        except (TypeError, ValueError, OverflowError) as error:
            found = (USAGE, f"llama.cpp does not take an option: {error}")
    if server is None:
        status, sentence = found or (SOFTWARE, "llama.cpp gave no server")
        say(f"error: {sentence}")
        return status
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    say(f"listening on {server.listening_address}, {time.monotonic() - begun:.1f} s after the start")
    stop.wait()
    # llama.cpp's code may keep Python from running: then the kernel's timer, which needs no Python, ends the process.
    signal.setitimer(signal.ITIMER_REAL, options.stop_timeout + GRACE_S)
    deadline = time.monotonic() + options.stop_timeout
    left = busy = in_flight(server)
    say(f"stopping; {busy} requests in flight get {options.stop_timeout:g} s")
    while busy and time.monotonic() < deadline:
        time.sleep(POLL_S)
        busy = in_flight(server)
    if busy:
        say(f"{busy} requests cut off, {options.stop_timeout:g} s after the signal")
    else:
        time.sleep(LINGER_S if left else 0)
        say("stopped")
    sys.stderr.flush()
    # Not by way of the server's destructor: it waits until every client has hung up, idle ones too.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Configurations of nginx: as an engine that answers from memory, and as the plain proxy that is the floor."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.bench.gateway_engine import ANSWER, METRICS, MODELS

OPEN_FILES = 1 << 15


def engine(folder: Path, ports: Iterable[int]) -> list[str]:
    """The command of an engine on all of `ports`: every question has the same small answer."""
    listens = " ".join(f"listen 127.0.0.1:{port} backlog=4096;" for port in ports)
    metrics = METRICS.decode().replace("\n", "\\n").replace('"', '\\"')
    server = f"""server {{
      {listens}
      default_type application/json;
      location = /v1/models {{ return 200 '{MODELS.decode()}'; }}
      location = /health {{ return 200 'ok'; }}
      location = /metrics {{ default_type text/plain; return 200 "{metrics}"; }}
      location / {{ return 200 '{ANSWER.decode()}'; }}
    }}"""
    return _command(folder, "engine", server)


def proxy(folder: Path, port: int, engines: Sequence[int]) -> list[str]:
    """The command of a proxy that reads and decides nothing."""
    servers = " ".join(f"server 127.0.0.1:{engine_port};" for engine_port in engines)
    server = f"""upstream engines {{ {servers} keepalive 512; keepalive_requests 10000000; }}
    server {{
      listen 127.0.0.1:{port} backlog=4096;
      client_max_body_size 64m;
      location / {{
        proxy_pass http://engines;
        proxy_http_version 1.1;
        proxy_buffering off;
        proxy_read_timeout 600s;
        proxy_set_header Connection "";
      }}
    }}"""
    return _command(folder, "proxy", server)


def _command(folder: Path, name: str, servers: str) -> list[str]:
    """One worker process in the foreground, all of its files in `folder`."""
    path = folder / f"nginx-{name}.conf"
    path.write_text(f"""daemon off; worker_processes 1; worker_rlimit_nofile {OPEN_FILES};
    pid {folder}/nginx-{name}.pid; error_log {folder}/nginx-{name}.err;
    events {{ worker_connections {OPEN_FILES}; }}
    http {{
      access_log off; keepalive_requests 10000000; keepalive_timeout 300; client_body_buffer_size 1m;
      client_body_temp_path {folder}/nginx-body; proxy_temp_path {folder}/nginx-temp;
      {servers}
    }}""")
    return ["nginx", "-e", f"{folder}/nginx-{name}.err", "-c", str(path)]

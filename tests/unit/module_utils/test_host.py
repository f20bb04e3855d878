# SPDX-License-Identifier: Apache-2.0
"""The real machine: what it cannot give is None, and nothing that it does hangs or raises."""

from __future__ import annotations

import http.server
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ansible_collections.llmgw.fleet.plugins.module_utils import host
from ansible_collections.llmgw.fleet.plugins.module_utils.host import Host, within

HOST = Host()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers with the path and the Authorization header; `/moved` redirects."""

    def do_GET(self) -> None:
        self.send_response(302 if self.path == "/moved" else 200)
        self.send_header("Location", "/elsewhere")
        self.end_headers()
        self.wfile.write(f"{self.path} {self.headers.get('Authorization')}".encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        del format, args


@pytest.fixture
def url() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join(10)


def test_commands_run_in_the_c_locale_and_find_system_directories(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("PATH", "/nowhere")
    result = HOST.run(["sh", "-c", "echo $LC_ALL; echo $PATH"], 10)
    assert result.stdout == "C\n/nowhere:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"


def test_a_directory_on_the_path_that_hangs_is_left_out_of_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dead = str(tmp_path / "dead")
    good = tmp_path / "good"
    good.mkdir()
    (good / "tool").write_text("#!/bin/sh\necho found\n", encoding="utf-8")
    (good / "tool").chmod(0o755)
    looked = host._stat
    looks: list[str] = []

    def stat(path: str) -> os.stat_result | None:
        if str(path).startswith(dead):
            looks.append(str(path))
            time.sleep(60)
        return looked(path)

    monkeypatch.setattr(host, "_stat", stat)
    monkeypatch.setattr(host, "_SEARCH_TIMEOUT_S", 0.05)
    monkeypatch.setenv("PATH", f"{dead}:{good}")
    assert Host().run(["tool"], 10).stdout == "found\n"
    assert Host().which("tool") == str(good / "tool")
    assert dead not in Host().run(["sh", "-c", "echo $PATH"], 10).stdout
    assert looks == [dead]


def test_commands_find_the_user_manager_where_a_login_did_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_stat", lambda _path: Path("/").stat())
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/mine")
    assert HOST.run(["sh", "-c", "echo $XDG_RUNTIME_DIR"], 10).stdout == "/run/mine\n"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert HOST.run(["sh", "-c", "echo $XDG_RUNTIME_DIR"], 10).stdout == f"/run/user/{os.getuid()}\n"
    monkeypatch.setattr(host, "_stat", lambda _path: None)
    assert HOST.run(["sh", "-c", "echo $XDG_RUNTIME_DIR"], 10).stdout == "\n"


def test_files_are_read_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")
    assert HOST.read(str(path)) == b"0123456789"
    assert HOST.read(str(path), 4) == b"0123"
    assert HOST.size(str(path)) == 10


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert HOST.read(missing) is None
    assert HOST.list(missing) is None
    assert HOST.readlink(missing) is None
    assert HOST.statfs(missing) is None
    assert HOST.size(missing) is None
    assert not HOST.exists(missing)
    assert HOST.read(str(tmp_path)) is None
    assert HOST.read("zero\0byte") is None


@pytest.mark.parametrize("odd", ["pipe", "/dev/zero", "/"])
def test_what_is_no_file_is_not_even_opened(tmp_path: Path, odd: str, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(odd)
    opened: list[object] = []
    monkeypatch.setattr(os, "open", lambda *arguments: opened.append(arguments))
    assert HOST.read(str(tmp_path / "link"), 10) is None
    assert HOST.extract(str(tmp_path / "link"), "all", lambda stream: stream.read(10)) is None
    assert opened == []


def test_a_pipe_without_a_writer_does_not_block_a_read(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert within(5, lambda: HOST.read(str(path))) is None


def test_directories_are_listed_in_order_and_links_are_told(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a").symlink_to("b")
    assert HOST.list(str(tmp_path)) == ("a", "b")
    assert HOST.readlink(str(tmp_path / "a")) == "b"
    assert HOST.realpath(str(tmp_path / "a")) == str((tmp_path / "b").resolve())
    assert HOST.is_directory(str(tmp_path / "a"))


def test_space_is_told_in_bytes() -> None:
    total, free = HOST.statfs("/") or (0, 0)
    assert total >= free >= 0
    assert total > 1_000_000


def test_a_call_that_hangs_is_given_up() -> None:
    begun = time.monotonic()
    with pytest.raises(TimeoutError):
        within(0.1, lambda: time.sleep(30))
    assert time.monotonic() - begun < 20


def test_what_a_bounded_call_raises_arrives() -> None:
    with pytest.raises(ZeroDivisionError):
        within(5, lambda: 1 // 0)


def test_a_url_is_fetched_with_its_headers(url: str) -> None:
    answer = HOST.fetch(f"{url}/x?y=1", 5, {"Authorization": "Bearer t"})
    assert (answer.status, answer.body) == (200, b"/x?y=1 Bearer t")


def test_redirects_and_proxies_are_not_followed(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    assert HOST.fetch(f"{url}/moved", 5, {}).status == 302


@pytest.mark.parametrize(
    "bad", ["http://127.0.0.1:1/", "file:///etc/passwd", "http://[", "http://h:99999/", "nonsense"]
)
def test_a_url_that_cannot_be_fetched_says_why(bad: str) -> None:
    answer = HOST.fetch(bad, 2, {})
    assert answer.status is None
    assert answer.error


def test_an_answer_that_comes_drop_by_drop_ends_with_its_time() -> None:
    hung_up = threading.Event()

    def drip(listener: socket.socket) -> None:
        sock, _address = listener.accept()
        with sock, suppress(OSError):
            sock.recv(1000)
            sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
            while True:
                sock.sendall(b"x")
                time.sleep(0.1)
        hung_up.set()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        begun = time.monotonic()
        answer = HOST.fetch(f"http://127.0.0.1:{listener.getsockname()[1]}/", 0.5, {})
        assert time.monotonic() - begun < 20
        assert (answer.status, answer.error) == (None, "no answer within 0.5 s")
        assert hung_up.wait(20)

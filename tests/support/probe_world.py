"""kind/probe compiled for real, and its server on this machine."""

from __future__ import annotations

import http.client
import json
import os
import shutil
import signal
import socket
import subprocess  # noqa: TID251 - the program under test, from outside
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lab.gpu.simulated.nvml_build import PRODUCTS
from lab.supply.recipes import compile_into
from lab.tools.go import MINIMUM, Go
from lab.tools.process import HostRunner

COMPILER = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), "")
SECONDS = 20.0

Json = dict[str, Any]


def compiled(folder: Path) -> Path:
    """The program; skips if no Go compiler exists."""
    host = HostRunner()
    if (Go(host).version() or (0, 0)) < MINIMUM:
        pytest.skip(f"no Go {MINIMUM[0]}.{MINIMUM[1]}")
    return compile_into(folder, "probe", host)


def simulated_nvml(folder: Path) -> Path:
    """A folder with nvidia-smi over the simulated libnvidia-ml.so.1; skips if no C compiler exists."""
    if not COMPILER:
        pytest.skip("no C compiler")
    for product in PRODUCTS:
        if product.name != "gpu-usage":
            run(COMPILER, *product.command(folder, ("-ldl",)))
    return folder


def run(*argv: object, env: Mapping[str, str] | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run a command and check its exit code."""
    done = subprocess.run(
        [str(word) for word in argv],
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
        env={**os.environ, **(env or {})},
    )
    assert done.returncode == code, done.stderr
    return done


class Served:
    """The server, on a free port of 127.0.0.1."""

    def __init__(self, program: Path, *args: str) -> None:
        self.process = subprocess.Popen(
            [program, "serve", *args, "--host", "127.0.0.1", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split()[-1])

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[http.client.HTTPResponse, bytes]:
        """Send one request and return its answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def post(self, path: str, body: object, status: int = 200) -> Json:
        """Post a JSON body and return the JSON of the answer."""
        answer, content = self.ask("POST", path, json.dumps(body).encode())
        assert answer.status == status, content
        return dict(json.loads(content))

    def connect(self) -> socket.socket:
        """Open a connection without sending anything."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=SECONDS)

    def raw(self, *parts: bytes) -> bytes:
        """Send each part separately and return all that comes back."""
        with self.connect() as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                connection.sendall(part)
            return received(connection)

    def stop(self) -> int:
        """Ask the server to end, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(SECONDS)

    def close(self) -> None:
        """End the server in any state."""
        self.process.kill()
        self.process.wait(SECONDS)
        if self.process.stdout is not None:
            self.process.stdout.close()


def received(connection: socket.socket) -> bytes:
    """Read until the server closes its side."""
    got = b""
    while more := connection.recv(65536):
        got += more
    return got

"""Serves metrics over HTTP: to a few clients at a time, each for a few seconds, so that none can hold the exporter up.

The same bounds as a member's (docs/decisions/2026-11-26-metrics-server.md): eight connections, five seconds each, none
kept alive; others wait in the kernel's queue and take no thread.
"""

import errno
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from stealtime.capacity.exporter.exposition import CONTENT_TYPE
from stealtime.vocabulary.errors import StealtimeError, UsageError

LOOPBACK = "127.0.0.1"
_HIGHEST_PORT = 65535
_MOST_CONNECTIONS = 8
_PATIENCE_S = 5.0
_POLL_S = 0.2
"""How soon it notices that it is to end."""
_PATHS = ("/metrics", "/")
Render = Callable[[], bytes | None]
"""Gives the text of the metrics; None while there are none yet."""


def read_address(text: str) -> tuple[str, int]:
    """Read where to serve: ``127.0.0.1:9105``, ``[::1]:9105``, or a port alone, which is served on loopback.

    Raises:
        UsageError: It is no such address.
    """
    host, _, port = text.rpartition(":")
    if port.isdigit() and not 0 < int(port) <= _HIGHEST_PORT:
        raise UsageError(
            f"--prometheus: {text!r} has the port {port}, which is none from 1 to {_HIGHEST_PORT}",
            hint=f"write {LOOPBACK}:9105, or 9105 alone",
        )
    if not port.isdigit():
        raise UsageError(f"--prometheus: {text!r} is no address with a port", hint=f"write {LOOPBACK}:9105")
    return host.strip("[]") or LOOPBACK, int(port)


@contextmanager
def serving(render: Render, address: tuple[str, int]) -> Iterator[str]:
    """Serve metrics while the context lasts; give the address.

    Raises:
        StealtimeError: It cannot be had: the port is taken, or the host has no such address.
    """
    host, port = address
    try:
        server = _Server(render, host, port)
    except OSError as error:
        hint = "choose another port" if error.errno == errno.EADDRINUSE else "choose an address of this host"
        why = error.strerror or error
        raise StealtimeError(f"metrics cannot be served at {host}:{port}: {why}", hint=hint) from error
    thread = threading.Thread(target=server.serve_forever, args=[_POLL_S], name="metrics", daemon=True)
    thread.start()
    try:
        named = f"[{host}]" if ":" in host else host
        yield f"http://{named}:{port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, render: Render, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.render = render
        self._free = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__((host, port), _Handler)

    def process_request(self, request: socket.socket | tuple[bytes, socket.socket], client_address: object) -> None:
        self._free.acquire()
        super().process_request(request, client_address)

    def process_request_thread(
        self, request: socket.socket | tuple[bytes, socket.socket], client_address: object
    ) -> None:
        # The time-out of a socket begins anew with each byte; this one does not.
        timer = threading.Timer(_PATIENCE_S, _hang_up, [request])
        timer.daemon = True
        timer.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            timer.cancel()
            self._free.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of a client that has hung up."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    server_version = "stealtime"
    sys_version = ""

    def do_GET(self) -> None:
        if self.path.partition("?")[0] not in _PATHS:
            self.send_error(HTTPStatus.NOT_FOUND, "the metrics are at /metrics")
            return
        text = self.server.render()
        if text is None:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "the counters are read for the first time")
            return
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the library names it
        """Write no line for each answer."""

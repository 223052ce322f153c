"""Connections with time limits: for the headers of a request, and for clients that do not read their answer."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from equilibria.explorer.reading import CHECK_SECONDS, ReadingCheck, look_at

HEADER_SECONDS = 8.0  # from the connection to the end of the headers
BODY_SECONDS = 8.0  # from the end of the headers to the end of the body
WRITE_SECONDS = 8.0  # in which a client must read something of what is waiting for it
SEND_BUFFER = 2**16  # bytes that the system holds for a client; a larger buffer would hide that nobody reads
MAX_HEADERS = 2**14  # bytes
MAX_CONNECTIONS = 512
MAX_UNCHECKED = 8  # streams over HTTP. If there are more, each is checked whether its client reads
PING_SECONDS, PONG_SECONDS = 3.0, 5.0  # between pings of a WebSocket, and for its answer
PADDED_STREAM = "equilibria.padded_stream"  # the ASGI extension with which an answer allows spaces between its parts


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP connection, aborted when a limit is exceeded."""

    _timer: asyncio.TimerHandle | None = None
    _check_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._limit(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
        if self.cycle is not None and self.cycle is not before:
            self.cycle.scope.setdefault("extensions", {})[PADDED_STREAM] = self._start_checks  # pyright: ignore[reportArgumentType]
        if self.flow.write_paused:
            return  # the limit for reading the answer stays, whatever the client sends
        if self.cycle is None or self.cycle.response_complete:  # these are headers
            if self._timer is None:
                self._limit(HEADER_SECONDS)
        elif not self.cycle.more_body:
            self._limit(None)
        elif self.cycle is not before:
            self._limit(BODY_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_writing()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._limit(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        self._stop_checks()
        super().connection_lost(exc)

    def on_response_complete(self) -> None:
        self._stop_checks()
        super().on_response_complete()

    def handle_websocket_upgrade(self, event: Any) -> None:
        super().handle_websocket_upgrade(event)
        self.loop.call_soon(self._limit, None)  # later, because `data_received` sets a limit for the next headers

    def _limit(self, seconds: float | None, then: Callable[[], None] | None = None) -> None:
        """Abort the connection, or call `then`, after this time; None removes the limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, then or self.transport.abort)

    def _reset(self) -> None:
        """Abort the connection, and drop what the client has not read. The system would keep that for minutes."""
        connection: socket.socket | None = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError, ValueError):  # it has just been closed
            if connection is not None:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def _limit_writing(self) -> None:
        """Abort the connection if nothing leaves this system for some time."""
        before = look_at(self.transport)

        def check() -> None:
            now = look_at(self.transport)
            if before is None or now is None or now.accepted <= before.accepted:
                self._reset()
            else:
                self._limit_writing()

        self._limit(WRITE_SECONDS, check)

    def _start_checks(self) -> Callable[[], None]:
        """Check from now on whether the client reads; returns what ends this. The answer calls it before it begins."""
        self._check = ReadingCheck()
        self._check_timer = self.loop.call_later(CHECK_SECONDS / 4, self._check_reading)
        return self._stop_checks

    def _stop_checks(self) -> None:
        if self._check_timer is not None:
            self._check_timer.cancel()
        self._check_timer = None

    def _check_reading(self) -> None:
        self._check_timer = self.loop.call_later(CHECK_SECONDS, self._check_reading)
        look = look_at(self.transport)
        if (
            look is None
            or self.conn.our_state is not h11.SEND_BODY
            or not (self._check.under_way or self._is_crowded())
        ):
            return
        padding = self._check.next_padding(look, full=self.flow.write_paused)
        if self._check.failed:
            self._reset()
        elif padding:
            self.transport.write(self.conn.send(h11.Data(data=b" " * padding)) or b"")

    def _is_crowded(self) -> bool:
        checked = [one for one in self.connections if isinstance(one, LimitedProtocol) and one._check_timer is not None]
        return len(checked) > MAX_UNCHECKED


class LimitedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, aborted when its client does not answer a ping."""

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # closing waits for a client that does not read

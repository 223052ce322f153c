"""Connections with time limits: for the headers of a request, and for clients that do not read their answer."""

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HEADER_SECONDS = 8.0  # from the connection to the end of the headers
BODY_SECONDS = 8.0  # from the end of the headers to the end of the body
WRITE_SECONDS = 8.0  # in which a client must read something of what is waiting for it
SEND_BUFFER = 2**16  # bytes that the system holds for a client; a larger buffer would hide that nobody reads
MAX_HEADERS = 2**14  # bytes
MAX_CONNECTIONS = 512
PING_SECONDS, PONG_SECONDS = 3.0, 5.0  # between pings of a WebSocket, and for its answer


class LimitedProtocol(H11Protocol):
    """uvicorn's HTTP connection, aborted when a limit is exceeded."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        connection: socket.socket | None = transport.get_extra_info("socket")
        if connection is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BUFFER)
        self._limit(HEADER_SECONDS)

    def data_received(self, data: bytes) -> None:
        before = self.cycle
        super().data_received(data)
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
        self._limit(WRITE_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._limit(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limit(None)
        super().connection_lost(exc)

    def handle_websocket_upgrade(self, event: Any) -> None:
        super().handle_websocket_upgrade(event)
        self.loop.call_soon(self._limit, None)  # later, because `data_received` sets a limit for the next headers

    def _limit(self, seconds: float | None) -> None:
        """Abort the connection after this time; None removes the limit."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if seconds is None else self.loop.call_later(seconds, self.transport.abort)


class LimitedWebSocket(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket, aborted when its client does not answer a ping."""

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self.transport.abort()  # closing waits for a client that does not read

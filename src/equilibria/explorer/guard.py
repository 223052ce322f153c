"""Who may talk to the server: pages that it served itself, and scripts that call it by its own name."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse

from equilibria.explorer.limits import Refused

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


class Guard:
    """Refuses foreign Host headers (a page elsewhere whose name was made to lead here) and foreign Origins."""

    def __init__(self, app: Any, host: str) -> None:
        self._app = app
        self._names = {*LOCAL_NAMES, host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        refused = self._refused(Headers(scope=scope))
        if refused is None:
            await self._app(scope, receive, _with_headers(send))
        elif scope["type"] == "websocket":
            await receive()  # the handshake, which is answered with 403
            await send({"type": "websocket.close", "code": 1008, "reason": refused.reason})
        else:
            await JSONResponse(refused.data(), refused.status)(scope, receive, send)

    def _refused(self, headers: Headers) -> Refused | None:
        host, origin = headers.get("host", ""), headers.get("origin")
        called, page = _parts(f"//{host}"), _parts(origin or "")
        if called is None or called.hostname not in self._names:
            return Refused(403, f"this explorer is not called {host[:100]!r}; open it by the address it has printed")
        if origin is not None and (page is None or page.netloc.lower() != host.lower()):
            return Refused(403, f"a page of {origin[:100]!r} may not use this explorer")
        return None


def _parts(address: str) -> SplitResult | None:
    """Of the address in a header; None if it is none."""
    try:
        return urlsplit(address)
    except ValueError:
        return None


def _with_headers(send: Send) -> Send:
    async def sending(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            there = {name.lower() for name, _ in message["headers"]}
            more = [(name.encode(), value.encode()) for name, value in HEADERS.items() if name.encode() not in there]
            message["headers"] = [*message["headers"], *more]
        await send(message)

    return sending

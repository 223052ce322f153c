"""What protects the server: security headers on every answer, and checks of the Host and Origin of every request."""

import re

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from equilibria.explorer.requests import Refused

LOCAL_NAMES = ("127.0.0.1", "localhost", "::1")
HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
        "connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
RESPONSE_STARTS = ("http.response.start", "websocket.http.response.start")


class Guard:
    """Refuses foreign Host headers (DNS rebinding) and foreign Origins (other pages in the same browser).

    Starlette's `TrustedHostMiddleware` checks only the Host, and gives no reason.
    """

    def __init__(self, app: ASGIApp, host: str) -> None:
        self._app = app
        self._names = {*LOCAL_NAMES, host.lower()}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] in RESPONSE_STARTS:
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        try:
            if scope["type"] != "lifespan":
                self._check(Headers(scope=scope))
        except Refused as refused:
            await JSONResponse(refused.data(), refused.status)(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _check(self, headers: Headers) -> None:
        host, origin = headers.get("host", "").lower(), headers.get("origin")
        name = re.sub(r":\d+$", "", host).strip("[]")
        if name not in self._names:
            raise Refused(403, f"this explorer does not serve {host[:100]!r}; open the address that it printed")
        if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
            raise Refused(403, f"a page from {origin[:100]!r} may not use this explorer")

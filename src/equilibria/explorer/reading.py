"""Whether a client reads, long before the buffers between the server and the client are full.

The system of a client acknowledges what arrives, whether or not the client reads it. It also tells how many more bytes
it accepts, its receive window. While a client reads, the end of that window moves on with everything that is sent.
If the client does not read, the end stays where it is, except for rounding: the window is a multiple of a power of
two, and every acknowledgement may round it up. Small packets therefore prove nothing. To tell a client that reads a
stream of small packets from one that does not, the server sends padding, larger than any rounding.
"""

import asyncio
import socket
import struct
import sys
from typing import NamedTuple

if sys.platform != "win32":
    import fcntl
    import termios

CHECK_SECONDS = 1.0  # between two looks
MAX_FAILED = 4  # looks in a row that show no reading; then the client is disconnected
RESTING = 5  # looks that are skipped after one that shows reading
LEAST_PADDING, MOST_PADDING = 2**12, 2**16  # bytes
PADDING_STEPS = 8  # the padding, in multiples of what a window is rounded to
ROUNDED_STEPS = 2  # by which one acknowledgement moves the window of a client that does not read, at most (measured)
# Linux's struct tcp_info, of which Linux 5.4 and later fill all of this.
INFO = struct.Struct("=6xB113xQ12xI84xI")  # window scale, bytes acknowledged, packets received, send window


class WindowLook(NamedTuple):
    """What the systems of both sides hold, at one moment."""

    accepted: int  # bytes that the client's system has received or still accepts: the end of its window
    behind: int  # bytes that were sent, minus those
    step: int  # what the window is rounded up to
    packets: int  # that came from the client; each may have rounded the window

    @property
    def padding(self) -> int:
        """The bytes that show whether the client reads."""
        return min(max(PADDING_STEPS * self.step, LEAST_PADDING), MOST_PADDING)

    def shows_reading(self, before: "WindowLook", *, full: bool) -> bool:
        """Whether the client has read since `before`, when it was sent padding, unless the buffers were `full`."""
        kept_up = self.behind - before.behind < before.padding / 2
        read = self.accepted - before.accepted > ROUNDED_STEPS * self.step * (self.packets - before.packets)
        return read or (kept_up and not full)


def look_at(transport: asyncio.Transport) -> WindowLook | None:
    """A look at a connection; None where the system does not tell."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is None or not sys.platform.startswith("linux"):
        return None
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, INFO.size)
        (queued,) = struct.unpack("=i", fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0" * 4))
    except (OSError, ValueError):  # it has just been closed
        return None
    if len(info) < INFO.size:
        return None
    scales, acknowledged, packets, window = INFO.unpack(info)
    scale = scales & 15 if sys.byteorder == "little" else scales >> 4
    behind = transport.get_write_buffer_size() + queued - window
    return WindowLook(acknowledged + window, behind, 2**scale, packets)


class ReadingCheck:
    """Looks at one connection again and again."""

    def __init__(self) -> None:
        self._before: WindowLook | None = None
        self._failed = 0
        self._resting = 0

    @property
    def under_way(self) -> bool:
        """Whether the client has been sent padding, and has not been seen to read it."""
        return self._before is not None

    @property
    def failed(self) -> bool:
        """Whether the client has not read for `MAX_FAILED` looks."""
        return self._failed >= MAX_FAILED

    def next_padding(self, look: WindowLook, *, full: bool) -> int:
        """Judge a look, and return the number of bytes to send before the next one."""
        if self._resting:
            self._resting -= 1
            return 0
        if self._before is None:
            self._failed = -1  # the first padding may enlarge the window
        elif self._failed >= 0 and look.shows_reading(self._before, full=full):
            self._before, self._failed, self._resting = None, 0, RESTING
            return 0
        else:
            self._failed += 1
        self._before = look
        return 0 if full else look.padding

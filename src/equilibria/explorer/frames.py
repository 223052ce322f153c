"""Steps of a solve on their way to a page: gathered for a moment, and packed as numbers and bytes."""

import time
from typing import Any

import numpy as np
from torch import Tensor

OFTEN = 1 / 30  # seconds between two packets
LARGE = 2**18  # bytes at which a packet is sent earlier


class Packer:
    """Packs steps: first all float32 numbers, (count, width), then all painted answers, (count, places) uint8."""

    def __init__(self) -> None:
        self._first = 0
        self._numbers: list[np.ndarray] = []
        self._painted: list[np.ndarray] = []
        self._bytes, self._sent = 0, -1.0

    def add(self, numbers: Tensor, painted: Tensor | None = None) -> None:
        """One more step: (width,) and (places,)."""
        self._numbers.append(numbers.float().numpy())
        self._bytes += 4 * len(numbers)
        if painted is not None:
            self._painted.append(painted.numpy())
            self._bytes += len(painted)

    def due(self) -> bool:
        """Whether to send now: the first step at once, later ones a few dozen times a second."""
        return time.monotonic() - self._sent > OFTEN or self._bytes > LARGE

    def packet(self) -> dict[str, Any]:
        """The event that carries what has been added; the next one goes on from there."""
        data = b"".join(part.tobytes() for part in (*self._numbers, *self._painted))
        event = {"event": "frames", "first": self._first, "count": len(self._numbers), "data": data}
        self._first += len(self._numbers)
        self._numbers, self._painted, self._bytes, self._sent = [], [], 0, time.monotonic()
        return event

    def rest(self) -> list[dict[str, Any]]:
        """The last packet, if anything is left."""
        return [self.packet()] if self._numbers else []


def plain(value: Any) -> Any:
    """As JSON can hold it: tensors become lists, and numbers that are not finite null."""
    if isinstance(value, Tensor):
        return plain(value.tolist())
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value

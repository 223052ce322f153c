"""What a page may ask for, and how it is told that it may not."""

MOST_STEPS = 2000  # of a solve
MOST_OTHERS = 10  # solves from other inputs' states (paper, Algorithm 1)
MOST_NOISES = 4  # solves from noise beside them
MOST_FLIPS = 20_000  # places of an input that are changed by hand
MOST_REQUEST_BYTES = 200_000
MOST_STREAMS_PER_PAGE = 8
MOST_STREAMS = 96  # of all pages together
MOST_PAGES = 64
LARGEST_NOISE = 1e3
LARGEST_SEED = 2**31 - 1


class Refused(Exception):
    """A request that is not carried out, with the HTTP status and a reason for people."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason

    def data(self) -> dict[str, object]:
        """As the page and scripts get it."""
        return {"status": self.status, "reason": self.reason}

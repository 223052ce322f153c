"""With what a reproduction was made: versions, processor, memory."""

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("equilibria", "torch", "numpy", "scipy", "matplotlib")


def environment() -> dict[str, Any]:
    """As plain data."""
    return {
        "python": platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count(),
    }


def processor() -> str:
    """The name of the processor's model, as far as the system tells."""
    listing = Path("/proc/cpuinfo")
    if listing.is_file():
        for line in listing.read_text().splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name" and value.strip():
                return value.strip()
    return platform.processor() or platform.machine() or sys.platform


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:  # used from its source, without being installed
        return "not installed"

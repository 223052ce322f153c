"""What several commands share."""

import torch
import tyro

Flag = tyro.conf.FlagCreatePairsOff[bool]  # --json, without a --no-json


def use_threads(threads: int) -> None:
    """0 leaves torch's choice."""
    if threads < 0:
        raise ValueError(f"--threads must be >= 0, got {threads}; 0 leaves torch's choice")
    if threads:
        torch.set_num_threads(threads)

"""Options that several commands share."""

import os
from typing import Literal

import torch
import tyro

TrackerName = Literal["tensorboard", "wandb", "trackio"]
Flag = tyro.conf.FlagCreatePairsOff[bool]  # --json, without a --no-json


def use_threads(threads: int) -> None:
    """Set the number of torch threads; 0 leaves it unchanged."""
    most = 8 * (os.cpu_count() or 1)
    if not 0 <= threads <= most:
        raise ValueError(f"--threads must be from 0 to {most}, got {threads}; 0: chosen by torch")
    if threads:
        torch.set_num_threads(threads)

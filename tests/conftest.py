"""Tests run two at a time on two cores: one thread each, or they wait for one another."""

import os

import torch
from explorer_server import browser, explorer, page, runs
from small_digits import digit_folder
from small_reproduction import copy, made

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)

# Fixtures: digits, a running explorer, a real browser, and a finished reproduction.
__all__ = ["browser", "copy", "digit_folder", "explorer", "made", "page", "runs"]

"""Tests run two at a time on two cores: one thread each, or they wait for one another."""

import os

import torch
from explorer_server import browser, explorer, page, runs

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)

__all__ = ["browser", "explorer", "page", "runs"]  # fixtures: a running explorer, and a real browser

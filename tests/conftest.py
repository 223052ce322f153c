"""Tests run two at a time on two cores: one thread each, or they wait for one another."""

import os

import torch

os.environ.setdefault("OMP_NUM_THREADS", "1")  # for the processes that tests start
torch.set_num_threads(1)

pytest_plugins = ["explorer_server"]  # fixtures: a running explorer, and a browser

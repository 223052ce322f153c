"""Looped models with known limits, as objects that know nothing of this library."""

import math

import torch
from problems import rng

N = 6  # numbers in a state


class Looped:
    """A model of three methods, with a given step."""

    def __init__(self, step):
        self.step = step

    def init(self, x):
        return torch.zeros_like(x)

    def readout(self, z):
        return z


def inputs(count=24):
    """Random inputs, (count, N)."""
    return torch.randn(count, N, generator=rng(3))


def turned(z, degrees):
    """Rotate every pair of numbers of z, (batch, N)."""
    a = math.radians(degrees)
    rotation = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    return (z.view(-1, N // 2, 2) @ rotation.T).flatten(1)


CONTRACTION = Looped(lambda z, x: 0.5 * z + x)
QUICK = {"budget": 64, "restarts": 3, "attacks": False, "seconds": math.inf}

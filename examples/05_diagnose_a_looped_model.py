"""Somebody else's looped model: does it settle, will more steps help, which answers can be trusted?"""

import rich
import torch

import equilibria


class Theirs(torch.nn.Module):
    """Newton's iteration for square roots, which knows nothing of this library."""

    def init(self, x):
        return torch.ones_like(x)

    def step(self, z, x):
        return 0.5 * (z + x / z)

    def readout(self, z):
        return z


x = 0.1 + torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
report = equilibria.diagnose(Theirs(), x, x.sqrt(), budget=30)
rich.print(report)  # other starts lead to the other root: it is path dependent
# report.save_html("diagnosis.html") writes the same with figures

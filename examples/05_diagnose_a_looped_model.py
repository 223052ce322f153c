"""Diagnose a looped model that does not use this library: does it settle, and will more steps help?"""

import rich
import torch

import equilibria


class Newton(torch.nn.Module):
    """Newton's iteration for square roots. The class does not use this library."""

    def init(self, x):
        return torch.ones_like(x)

    def step(self, z, x):
        return 0.5 * (z + x / z)

    def readout(self, z):
        return z


x = 0.1 + torch.rand(50, 3, generator=torch.Generator().manual_seed(0))
diagnosis = equilibria.diagnose(Newton(), x, x.sqrt(), budget=30)
rich.print(diagnosis)  # path dependent: negative starts lead to the negative root
# diagnosis.save_html("diagnosis.html") writes a page with figures

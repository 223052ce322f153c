"""An LSTM cell with a constant input, iterated until it settles: its state is a tuple of two tensors."""

import torch

from equilibria import Budget, Picard, solve

torch.manual_seed(0)
cell = torch.nn.LSTMCell(4, 8)
x = torch.randn(10, 4)
with torch.no_grad():
    solution = solve(lambda z, x: cell(x, z), (torch.zeros(10, 8), torch.zeros(10, 8)), x, solver=Picard(), budget=500)
hidden, memory = solution.z
print(solution, hidden.shape, memory.shape)
assert solution.settled.all()
assert Budget(500).steps == 500

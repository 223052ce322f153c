"""Descriptions of nets that build a model for a task. To add one, define a `Net` in a new file and add it to `NETS`."""

from equilibria.nets.conv import ConvNet
from equilibria.nets.deep_thinking import DeepThinking
from equilibria.nets.dense import DenseNet
from equilibria.nets.feedforward import Feedforward
from equilibria.nets.graph import GraphNet
from equilibria.nets.matrix import MatrixNet
from equilibria.nets.net import Net, count_parameters
from equilibria.plugins import extensible

NETS: dict[str, type[Net]] = {
    "conv": ConvNet,
    "dense": DenseNet,
    "graph": GraphNet,
    "matrix": MatrixNet,
    "feedforward": Feedforward,
    "deep_thinking": DeepThinking,
}
extensible("nets", Net, NETS)

__all__ = [
    "NETS",
    "ConvNet",
    "DeepThinking",
    "DenseNet",
    "Feedforward",
    "GraphNet",
    "MatrixNet",
    "Net",
    "count_parameters",
]

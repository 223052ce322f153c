"""Evaluate looped models on data, spending steps only where they are needed."""

from equilibria.evaluation._evaluate import evaluate
from equilibria.evaluation.monitor import TrainingMonitor, TrainingState
from equilibria.evaluation.results import (
    EvaluationResult,
    ExampleResults,
    RestartScore,
    RiskCurve,
    StepScore,
)

__all__ = [
    "EvaluationResult",
    "ExampleResults",
    "RestartScore",
    "RiskCurve",
    "StepScore",
    "TrainingMonitor",
    "TrainingState",
    "evaluate",
]

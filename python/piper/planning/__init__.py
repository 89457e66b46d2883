"""Pipeline planning: from a model, a cluster and restrictions to a plan with its proof."""

from piper.planning.frontier import Frontier, FrontierPoint, frontier
from piper.planning.judge import InternalError
from piper.planning.plan import plan
from piper.planning.result import Baseline, Plan, PlannedLayer, PlannedStage

__all__ = [
    "Baseline",
    "Frontier",
    "FrontierPoint",
    "InternalError",
    "Plan",
    "PlannedLayer",
    "PlannedStage",
    "frontier",
    "plan",
]

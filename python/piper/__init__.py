"""Piper: plan how to train and serve large neural networks, with proof of optimality.

>>> import piper
>>> plan = piper.plan("llama3-70b", "8x8:h100-80gb", microbatches=512)
>>> plan.optimal, plan.tokens_per_second
>>> print(plan)
>>> plan.save("plan.json")
>>> piper.place("resnet50.onnx", accelerators=4, device="t4", cpus=1)

Times are seconds (in a workload file whatever its makers measured in), sizes are bytes. Everything that Piper raises
on purpose is a `PiperError`, whose text is one line that says what is wrong and where.
"""

from piper._core import __version__
from piper.costs.cluster import Cluster
from piper.costs.devices import use_devices
from piper.errors import InfeasibleError, InputError, LimitError, PiperError
from piper.evaluation import Evaluation, evaluate
from piper.inspection import inspect
from piper.loading import load
from piper.model import Model
from piper.placement.place import place
from piper.placement.result import Placement, SplitEvaluation
from piper.placement.workload import PlacementWorkload
from piper.planning import Frontier, Plan, frontier, plan
from piper.prediction import Configuration, Prediction
from piper.workload import Limits, Workload

__all__ = [
    "Cluster",
    "Configuration",
    "Evaluation",
    "Frontier",
    "InfeasibleError",
    "InputError",
    "LimitError",
    "Limits",
    "Model",
    "PiperError",
    "Placement",
    "PlacementWorkload",
    "Plan",
    "Prediction",
    "SplitEvaluation",
    "Workload",
    "__version__",
    "evaluate",
    "frontier",
    "inspect",
    "load",
    "place",
    "plan",
    "use_devices",
]

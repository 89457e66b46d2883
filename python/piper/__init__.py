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

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from piper._core import __version__
    from piper.costs.cluster import Cluster
    from piper.costs.devices import use_devices
    from piper.errors import InfeasibleError, InputError, LimitError, PiperError
    from piper.evaluation import Evaluation, evaluate
    from piper.inspection.inspect import inspect
    from piper.loading import load
    from piper.model import Model
    from piper.placement.place import place
    from piper.placement.result import Placement, SplitEvaluation
    from piper.placement.workload import PlacementWorkload
    from piper.planning.frontier import Frontier, frontier
    from piper.planning.plan import plan
    from piper.planning.result import Plan
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

# Nothing is loaded before it is used: the command line starts at once, and answers Ctrl-C from then on.
_HOMES = {
    "Cluster": "piper.costs.cluster",
    "Configuration": "piper.prediction",
    "Evaluation": "piper.evaluation",
    "Frontier": "piper.planning.frontier",
    "InfeasibleError": "piper.errors",
    "InputError": "piper.errors",
    "LimitError": "piper.errors",
    "Limits": "piper.workload",
    "Model": "piper.model",
    "PiperError": "piper.errors",
    "Placement": "piper.placement.result",
    "PlacementWorkload": "piper.placement.workload",
    "Plan": "piper.planning.result",
    "Prediction": "piper.prediction",
    "SplitEvaluation": "piper.placement.result",
    "Workload": "piper.workload",
    "__version__": "piper._core",
    "evaluate": "piper.evaluation",
    "frontier": "piper.planning.frontier",
    "inspect": "piper.inspection.inspect",
    "load": "piper.loading",
    "place": "piper.placement.place",
    "plan": "piper.planning.plan",
    "use_devices": "piper.costs.devices",
}
_MODULES = frozenset(
    {
        "costs",
        "errors",
        "evaluation",
        "formats",
        "inspection",
        "loading",
        "model",
        "placement",
        "planning",
        "prediction",
        "workload",
    }
)

if not TYPE_CHECKING:  # A checker knows the names above, and must not take any other one for known.

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"piper.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})

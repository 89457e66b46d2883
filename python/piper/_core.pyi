"""The compiled half of Piper."""

from collections.abc import Callable
from typing import Literal, final

from piper.workload import Limits, Schedule, Stage, Workload

__version__: str

@final
class Solution:
    """What a search ended with."""

    @property
    def stages(self) -> list[tuple[list[int], int, int, list[int]]] | None:
        """``(layers, data_parallel, tensor_parallel, choices)`` by stage; None when no plan was found."""
    @property
    def lower_bound(self) -> float:
        """No plan is better than this; infinite when there is provably no plan."""
    @property
    def status(self) -> Literal["done", "gap", "interrupted", "time limit", "memory limit"]:
        """Why the search ended; ``done``: the bound is the value, or infeasibility is proven."""
    @property
    def downsets(self) -> int:
        """Number of downsets that the search looked at."""
    @property
    def complete(self) -> bool:
        """Whether these are all downsets of the graph."""

@final
class StageScore:
    """The judge's view of one stage, in the units of the workload."""

    @property
    def load(self) -> float: ...
    @property
    def compute(self) -> float: ...
    @property
    def transfer(self) -> float: ...
    @property
    def resync(self) -> float: ...
    @property
    def memory(self) -> float: ...
    @property
    def in_flight(self) -> int: ...

@final
class Violation:
    """A rule that a plan breaks."""

    @property
    def rule(self) -> str: ...
    @property
    def where(self) -> str: ...
    @property
    def by(self) -> float: ...

@final
class Score:
    """The judge's verdict on a plan."""

    @property
    def value(self) -> float:
        """Time per microbatch: the largest load, or the batch time divided by the microbatches for a flush."""
    @property
    def devices(self) -> int: ...
    @property
    def stages(self) -> list[StageScore]: ...
    @property
    def violations(self) -> list[Violation]: ...

def solve(
    workload: Workload,
    limits: Limits,
    schedule: Schedule,
    *,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    gap: float = 0.0,
    progress: Callable[[float, float], None] | None = None,
) -> Solution:
    """Find an optimal plan. `progress` gets best value and bound about ten times a second."""

def frontier(
    workload: Workload,
    limits: Limits,
    schedule: Schedule,
    *,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> list[tuple[int, float]]:
    """Best value for every number of devices at which it improves, increasing in devices."""

def needs(workload: Workload, limits: Limits, schedule: Schedule) -> tuple[float | None, int | None]:
    """Least memory per device, and least number of devices, that make a plan possible; None where none does."""

def score(workload: Workload, limits: Limits, schedule: Schedule, stages: list[Stage]) -> Score:
    """Judge a plan by the formulas of the problem."""

def baselines(workload: Workload, limits: Limits, schedule: Schedule) -> list[tuple[str, list[tuple[list[int], int, int, list[int]]] | None]]:
    """Plans of simpler planners, by name; None where one of them finds none."""

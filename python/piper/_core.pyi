"""The compiled half of Piper."""

from collections.abc import Callable
from typing import Literal, final

from piper.placement.workload import Part, PlacementWorkload, Rules
from piper.workload import Limits, Schedule, Stage, Workload

__all__ = [
    "PartScore",
    "PassScore",
    "PlacementScore",
    "PlacementSolution",
    "PlacementViolation",
    "Score",
    "Solution",
    "StageScore",
    "Violation",
    "__version__",
    "baselines",
    "frontier",
    "needs",
    "place",
    "place_local_search",
    "place_score",
    "place_single",
    "score",
    "solve",
]

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
    def load(self) -> float:
        """Time per microbatch of the whole stage: the sum of the next three."""
    @property
    def compute(self) -> float:
        """Time of the layers."""
    @property
    def transfer(self) -> float:
        """Time to exchange activations and gradients with other stages."""
    @property
    def resync(self) -> float:
        """Time to synchronise weights, spread over the microbatches of a batch."""
    @property
    def memory(self) -> float:
        """Bytes on each device."""
    @property
    def in_flight(self) -> int:
        """Microbatches whose activations a replica keeps at a time."""

@final
class Violation:
    """A rule that a plan breaks."""

    @property
    def rule(self) -> str:
        """Name of the rule.

        Form of the plan: ``stage-empty``, ``choice-count``, ``layer-unknown``, ``layer-repeated``, ``layer-missing``,
        ``tmpc-unknown``, ``degree-zero``. Constraints of the problem: ``edge-backward``, ``data-parallel-divides``,
        ``tensor-parallel-in-node``, ``devices``, ``replicas`` (more of them than microbatches), ``memory``. The
        user's limits: ``max-data-parallel``, ``max-tensor-parallel``, ``data-parallel``, ``tensor-parallel``,
        ``stages``, ``max-stages``, ``recompute``, ``pin``, ``together``, ``apart``.
        """
    @property
    def where(self) -> str:
        """Such as ``plan``, ``stage 2``, ``stage 2, layer 5``, ``layer 5``, ``edge 3 -> 5``.

        Stages count from 0 at the input; layers are positions in `Workload.layers`.
        """
    @property
    def by(self) -> float:
        """Amount of the excess, for ``memory`` in bytes; 1 where the rule is not about a quantity."""

@final
class Score:
    """The judge's verdict on a plan.

    Any plan gets one; where it is malformed the numbers count what can be counted.
    """

    @property
    def value(self) -> float:
        """Time per microbatch: the largest load, or the batch time divided by the microbatches for a flush."""
    @property
    def devices(self) -> int:
        """Devices that the plan uses."""
    @property
    def stages(self) -> list[StageScore]:
        """By stage, in the plan's order."""
    @property
    def violations(self) -> list[Violation]:
        """Every rule that the plan breaks; a plan is feasible when there is none."""

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
    """Find an optimal plan.

    Args:
        workload: the problem.
        limits: restrictions on plans.
        schedule: when replicas exchange gradients.
        threads: how many to use, 1 to 1024; None: all cores. The result does not depend on it.
        time_limit: seconds after which the best plan so far is returned.
        memory_limit: bytes that the search itself may use; the best plan so far is returned when it needs more.
        gap: the search may stop once ``value / bound - 1`` is at most this.
        progress: gets best value and lower bound about ten times a second, on the calling thread.

    Returns:
        The best plan with its bound. Ctrl-C ends the search with the best so far, not with an exception.

    Raises:
        InputError: an argument cannot be used, or a limit names a layer or a stage that cannot be.
        PiperError: an error of Piper's own.
        Exception: what `progress` raises; `KeyboardInterrupt` from it counts as Ctrl-C.
    """

def frontier(
    workload: Workload,
    limits: Limits,
    schedule: Schedule,
    *,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> tuple[list[tuple[int, float, float]], Literal["interrupted", "time limit", "memory limit"] | None]:
    """Devices, best value and lower bound for every number of devices at which it improves, increasing in devices.

    Arguments and errors are those of `solve`. The second part says why the search ended early: then it did not come
    down to the smallest numbers of devices, and the first point may not be proven.
    """

def needs(
    workload: Workload,
    limits: Limits,
    schedule: Schedule,
    *,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
) -> tuple[float | None, int | None, Literal["interrupted", "time limit", "memory limit"] | None]:
    """Least memory per device, and least number of devices, that make a plan possible; None where none does.

    The third part says why the search for them ended early: then the amounts would do but may not be the least, and
    None may only mean that none was found.
    """

def score(workload: Workload, limits: Limits, schedule: Schedule, stages: list[Stage]) -> Score:
    """Judge a plan by the formulas of the problem."""

def baselines(
    workload: Workload,
    limits: Limits,
    schedule: Schedule,
    *,
    threads: int | None = None,
    time_limit: float | None = None,
) -> list[tuple[str, list[tuple[list[int], int, int, list[int]]] | None]]:
    """Plans of simpler planners, by name; None where one of them finds none.

    ``equal split``: stages of equal layer counts with the same degrees and kind of TMPC everywhere; ``data and tensor
    parallel``: one stage; ``data parallel``: one stage on whole devices.
    """

@final
class PlacementSolution:
    """What a search for a split ended with."""

    @property
    def parts(self) -> list[tuple[int | None, int, list[int]]] | None:
        """``(class, replicas, nodes)`` by part, the class None for a CPU; None when no split was found."""
    @property
    def lower_bound(self) -> float:
        """No contiguous split is better than this; infinite when there is provably none."""
    @property
    def status(self) -> Literal["done", "gap", "interrupted", "time limit", "memory limit"]:
        """Why the search ended; ``done``: the bound is the value, or infeasibility is proven."""
    @property
    def downsets(self) -> int:
        """Number of downsets that the search looked at."""
    @property
    def complete(self) -> bool:
        """Whether all contiguous splits are covered by the bound, so that the value is the optimum (to the gap)."""

@final
class PassScore:
    """One pass (forward or backward) of one part, in the units of the workload; of replicas, the part as one."""

    @property
    def compute(self) -> float:
        """Time of the nodes."""
    @property
    def read(self) -> float:
        """Time to read what other devices made; 0 for a CPU."""
    @property
    def write(self) -> float:
        """Time to write what other devices need; 0 for a CPU."""
    @property
    def sync(self) -> float:
        """Time to synchronise the weights of replicas, before the factor ``(r - 1) / r``."""
    @property
    def load(self) -> float:
        """All of it by the load rule, shared out over the replicas."""

@final
class PartScore:
    """The judge's view of one part."""

    @property
    def load(self) -> float:
        """Load of both passes."""
    @property
    def forward(self) -> PassScore:
        """The forward pass."""
    @property
    def backward(self) -> PassScore:
        """The backward pass."""
    @property
    def memory(self) -> float:
        """Bytes on each accelerator; 0 for a CPU."""

@final
class PlacementViolation:
    """A rule that a split breaks."""

    @property
    def rule(self) -> str:
        """Name of the rule.

        Form of the split: ``node-unknown``, ``node-repeated``, ``node-missing``, ``class-unknown``, ``replicas``.
        Constraints of the problem: ``cpus``, ``accelerators``, ``memory``, ``unsupported``, ``color-class``,
        ``contiguous``.
        """
    @property
    def part(self) -> int | None:
        """Position of the part; None where it takes several."""
    @property
    def nodes(self) -> list[int]:
        """Positions of the nodes that break it; for ``contiguous`` the ends of the edges along a cycle of parts."""
    @property
    def by(self) -> float:
        """By how much: bytes, devices or nodes."""

@final
class PlacementScore:
    """The judge's verdict on a split.

    Any split gets one; where it is malformed the numbers count what can be counted.
    """

    @property
    def value(self) -> float:
        """The largest load, or the largest forward plus the largest backward load."""
    @property
    def parts(self) -> list[PartScore]:
        """By part, in the split's order."""
    @property
    def violations(self) -> list[PlacementViolation]:
        """Every rule that the split breaks; a split is feasible when there is none."""

def place(
    workload: PlacementWorkload,
    rules: Rules,
    *,
    algorithm: Literal["dp", "dpl", "pipedream"] | None = None,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    gap: float = 0.0,
    progress: Callable[[float, float], None] | None = None,
) -> PlacementSolution:
    """Find a contiguous split with the smallest largest load.

    Args:
        workload: the problem.
        rules: its variant; what is found is always contiguous.
        algorithm: ``dp`` (the default) looks at all contiguous splits, ``dpl`` at those along linear orders,
            ``pipedream`` at the same once branches are contracted (its bound is 0).
        threads: how many to use, 1 to 1024; None: all cores. The result does not depend on it.
        time_limit: seconds after which the best split so far is returned.
        memory_limit: bytes that the search itself may use; the best split so far is returned when it needs more.
        gap: the search may stop once ``value / bound - 1`` is at most this.
        progress: gets best value and lower bound about ten times a second, on the calling thread.

    Returns:
        The best split with its bound. Ctrl-C ends the search with the best so far, not with an exception.

    Raises:
        InputError: an argument cannot be used.
        PiperError: an error of Piper's own.
        Exception: what `progress` raises; `KeyboardInterrupt` from it counts as Ctrl-C.
    """

def place_score(workload: PlacementWorkload, rules: Rules, parts: list[Part]) -> PlacementScore:
    """Judge a split by the definition of the problem."""

def place_single(workload: PlacementWorkload, rules: Rules) -> list[tuple[int | None, int, list[int]]] | None:
    """All nodes on one accelerator, of the class where that is best; None without accelerators."""

def place_local_search(
    workload: PlacementWorkload,
    rules: Rules,
    *,
    restarts: int = 10,
    seed: int = 0,
    time_limit: float | None = None,
    progress: Callable[[float, float], None] | None = None,
) -> tuple[list[tuple[int | None, int, list[int]]] | None, Literal["done", "interrupted", "time limit"]]:
    """Move colour classes one at a time from random assignments as long as that helps.

    Contiguity and replicas are left aside, and the memory where no assignment was found that fits.

    Returns:
        The best split, None where some node can be nowhere; and why the search ended.
    """

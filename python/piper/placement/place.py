"""`piper.place`: the best way to put operators on accelerators and CPUs."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from os import PathLike

from piper.costs.placement import Granularity
from piper.placement.problem import PlacementSetting, Subject, posed
from piper.placement.result import ALGORITHMS, Algorithm, Placement
from piper.placement.search import compared, search
from piper.placement.workload import LoadRule, Rules, TrainingObjective
from piper.planning.effort import Effort, ProgressCallback
from piper.planning.limits import check_count
from piper.planning.problem import check_choice

MAX_SEED = 2**64 - 1
RESTARTS = 10
"""Random assignments that local search starts from."""


def place(
    model: Subject,
    *,
    accelerators: int | Mapping[str, int] | None = None,
    cpus: int | None = None,
    device: str | None = None,
    memory: float | str | None = None,
    bandwidth: float | str | None = None,
    granularity: Granularity | None = None,
    unsupported: Collection[str] | None = None,
    profile: str | PathLike[str] | None = None,
    load: LoadRule = "sequential",
    training_objective: TrainingObjective = "sum",
    max_replicas: int = 1,
    algorithm: Algorithm = "auto",
    seed: int = 0,
    restarts: int = RESTARTS,
    threads: int | None = None,
    time_limit: float | None = None,
    memory_limit: int | None = None,
    gap: float = 0.0,
    progress: ProgressCallback | None = None,
    compare: bool = False,
) -> Placement:
    """Place operators on devices for maximum throughput, and prove that no contiguous split is better.

    The problem is that of Tarnawski, Phanishayee, Devanur, Mahajan and Nina Paravecino, "Efficient Algorithms for
    Device Placement of DNN Graph Operators", NeurIPS 2020, section 3: samples stream through the devices, so the
    busiest one sets the pace. Before a split is returned a judge, which shares no code with the solver, confirms it.
    Sizes are bytes, as numbers or as text like ``"8GiB"`` or ``"80GB"``.

    Args:
        model: a `Model` or `PlacementWorkload`, or what `piper.load` takes.
        accelerators: how many there are, of each class where there are several. Models and profiles need it.
        cpus: number of CPUs. Default: the workload's own, 0 for models and profiles.
        device: what the accelerators are, as ``"t4"``. Models only, which need it.
        memory: bytes of one accelerator. Default: the workload's own or the device's; for profiles no limit.
        bandwidth: bytes per second between an accelerator and host memory. Profiles need it; for models the
            device's own is the default.
        granularity: whether a model's ``"operator"`` or ``"layer"`` is a node. Default: operators where their graph
            is known, as in ONNX files.
        unsupported: types of operators that accelerators cannot run. Default: the list of the device.
        profile: ONNX Runtime's profile with measured times of a model's operators.
        load: how compute and transfers of an accelerator add up: ``"sequential"`` (their sum), ``"overlap"`` (the
            larger of both) or ``"duplex"`` (the largest of compute, transfers in and transfers out).
        training_objective: ``"sum"`` (the largest load of both passes together, as 1F1B has it) or ``"split"`` (the
            largest forward plus the largest backward load, as GPipe has it).
        max_replicas: most accelerators that may hold the same part and share its load.
        algorithm: ``"auto"`` and ``"dp"`` prove the optimum where time and memory allow; ``"dpl"`` looks along linear
            orders only; ``"local-search"``, ``"pipedream"``, ``"partition"`` (needs pymetis) and ``"single"`` are
            what they are compared with. The splits of local search and partition need not be contiguous.
        seed: of local search.
        restarts: random assignments that local search starts from.
        threads: threads of the search; the result does not depend on it. Default: one for each processor.
        time_limit: seconds after which the best split so far is returned.
        memory_limit: bytes that the search may take. Default: half of what is free.
        gap: the search may stop at a split this close to the proven bound, relative.
        progress: called about ten times a second with the best value and the bound.
        compare: fill `Placement.baselines` with the splits of simpler placers.

    Returns:
        The best split. When a limit or Ctrl-C ended the search it is the best so far: see `Placement.status` and
        `Placement.gap`.

    Raises:
        InputError: an argument cannot be used.
        InfeasibleError: there is provably no contiguous split; it says which node or limit is in the way, and what
            would do. Or the split of a simple algorithm breaks a rule.
        LimitError: a limit was reached before there was any split, or a simple algorithm finds none, which proves
            nothing.
        KeyboardInterrupt: Ctrl-C came before there was any split.
    """
    check_choice("algorithm", algorithm, ALGORITHMS)
    check_count("restarts", restarts)
    check_count("seed", None if seed == 0 else seed, MAX_SEED)
    rules = rules_of(load, training_objective, max_replicas)
    setting = PlacementSetting(
        accelerators=accelerators,
        cpus=cpus,
        memory=memory,
        bandwidth=bandwidth,
        device=device,
        granularity=granularity,
        unsupported=unsupported,
        profile=profile,
    )
    effort = Effort(threads=threads, time_limit=time_limit, memory_limit=memory_limit, gap=gap, progress=progress)
    running = effort.started()
    workload = posed(model, setting)
    found = search(workload, rules, algorithm, running, seed, restarts)
    return compared(found, workload, rules, effort, seed, restarts) if compare else found


def rules_of(load: LoadRule, training_objective: TrainingObjective, max_replicas: int) -> Rules:
    """The variant of the problem.

    Raises:
        InputError: a word or number cannot be.
    """
    check_choice("load", load, ("sequential", "overlap", "duplex"))
    check_choice("training_objective", training_objective, ("sum", "split"))
    check_count("max_replicas", max_replicas)
    return Rules(load, training_objective, contiguous=True, max_replicas=max_replicas)

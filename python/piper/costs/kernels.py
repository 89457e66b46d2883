"""The kernels that run the operators of a layer, forward and backward, and the sums between devices."""

from __future__ import annotations

from collections.abc import Sequence

from piper.costs.roofline import Kernel
from piper.costs.sharding import Share
from piper.costs.training import Attention
from piper.model import Partition

FUSED_BACKWARD = 2.5
"""Arithmetic of the backward pass of fused attention, by that of its forward pass: five products for two, since the
scores are computed again (Dao et al., "FlashAttention", 2022, appendix B)."""

_FLOATING = ("float", "bfloat", "complex")


def forward_kernels(shares: Sequence[Share], attention: Attention) -> list[Kernel]:
    """Kernels of the forward pass."""
    return [_forward(group) for group in _groups(shares, attention)]


def backward_kernels(shares: Sequence[Share], attention: Attention) -> list[Kernel]:
    """Kernels of the backward pass, without any recomputation."""
    return [kernel for group in _groups(shares, attention) for kernel in _backward(group)]


def recomputed_kernels(shares: Sequence[Share], attention: Attention) -> list[Kernel]:
    """Kernels that selective recomputation runs once more: the core of attention."""
    return [_forward(group) for group in _groups(shares, attention) if group[0].operator.selective]


def forward_sums(shares: Sequence[Share]) -> list[float]:
    """Bytes of each all-reduce of the forward pass (Megatron-LM's ``g``)."""
    return [s.output_bytes for s in shares if s.partition in (Partition.ROW, Partition.VOCABULARY)]


def backward_sums(shares: Sequence[Share]) -> list[float]:
    """Bytes of each all-reduce of the backward pass (Megatron-LM's ``f``).

    Column-parallel products that read the same tensor, such as those for query, key and value, add up its gradient
    first and share one all-reduce. They are taken to read the same tensor when it has the same size and only
    operators on divided tensors are between them.
    """
    sums: list[float] = []
    run: set[float] = set()
    for item in shares:
        if item.partition is Partition.COLUMN:
            if item.input_bytes not in run:
                sums.append(item.input_bytes)
            run.add(item.input_bytes)
        elif item.partition not in (Partition.SHARDED, Partition.EXPERT):
            run.clear()
    return sums


def _groups(shares: Sequence[Share], attention: Attention) -> list[list[Share]]:
    """Operators that run as one kernel: with fused attention the core of attention, otherwise each for itself.

    Operators without arithmetic, such as transpositions, may stand between those of the core.
    """
    groups: list[list[Share]] = []
    core: list[Share] | None = None
    for item in shares:
        if item.operator.selective and core is not None:
            core.append(item)
            continue
        groups.append([item])
        if item.operator.selective and attention == "fused":
            core = groups[-1]
        elif item.flops:
            core = None
    return groups


def _forward(group: Sequence[Share]) -> Kernel:
    """One kernel for a group; what its operators hand to each other never reaches memory."""
    inner = sum(item.output_bytes for item in group[:-1])
    outer = sum(item.input_bytes for item in group) - inner
    size = max(outer, 0.0) + group[-1].output_bytes + sum(_weights_read(item) for item in group)
    return Kernel(sum(item.flops for item in group), size, _dtype(group))


def _backward(group: Sequence[Share]) -> list[Kernel]:
    forward = _forward(group)
    if len(group) > 1:
        return [Kernel(FUSED_BACKWARD * forward.flops, 2 * forward.bytes, forward.dtype)]
    (item,) = group
    if item.flops:
        # The gradient of one operand each, at the size of the forward product; none for a weight that is not trained.
        if not item.operator.weights:
            return [forward, forward]
        if not item.operator.trainable:
            return [forward]
        return [forward, forward, _accumulation(item), *_vector_gradients(item)]
    if not item.operator.dtype.startswith(_FLOATING) or not forward.bytes:
        return []
    traffic = forward.bytes + item.saved_bytes + item.saved_bytes_unfused
    return [Kernel(0.0, traffic, forward.dtype), *_vector_gradients(item)]


def _accumulation(item: Share) -> Kernel:
    """The gradient of the weights is added to that of the microbatches before: two are read, one is written."""
    return Kernel(0.0, 3 * item.weight_bytes, item.operator.dtype)


def _vector_gradients(item: Share) -> list[Kernel]:
    """Gradients of biases and scales: sums over all tokens of what is read once more.

    That is the gradient of the output, for a scale with the input that is kept.
    """
    operator = item.operator
    if not operator.trainable or not any(len(weight.shape) == 1 for weight in operator.weights):
        return []
    kept = 0.0 if item.flops else item.saved_bytes
    return [Kernel(0.0, item.output_bytes + kept, operator.dtype)]


def _weights_read(item: Share) -> float:
    """A product reads its weights; a look-up or an elementwise operator no more of them than it writes."""
    return item.weight_bytes if item.flops else min(item.weight_bytes, item.output_bytes)


def _dtype(group: Sequence[Share]) -> str:
    """The type of the largest product."""
    return max(group, key=lambda item: item.flops).operator.dtype

"""Joined nodes: what exporters write out as several."""

from __future__ import annotations

import dataclasses
import math

from onnx import TensorProto

from dmlvk.dynamic.sizes import is_dynamic
from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.joining.pattern import JOINED
from dmlvk.onnx.nodes.operators.activation import gelu_by_tanh
from dmlvk.onnx.nodes.operators.heads import AttentionSizes, attention, headed, merged, rows_without_keys
from dmlvk.onnx.nodes.operators.normalization import normalized
from dmlvk.onnx.nodes.operators.shape import shape_asked_for
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, Tensor, broadcast_shape

_GUARD = 4  # The input of a joined attention that says which rows of shares become zeros
_WINDOWS = 5  # That of masks of windows, before the shapes that scores have for these and behind


@translates(
    "LayerNormalization",
    "RMSNormalization",
    by=["MEAN_VARIANCE_NORMALIZATION2"],
    domain=JOINED,
    batch=batches.outside_of_axes(9),
)
def normalization(node: Node) -> None:
    """Less the mean, or not, divided by the root of the mean square along some axes, with scale and bias."""
    tensor = node.tensor(0)
    node.check_element(0, *FLOATS)
    axes = sorted({node.axis(axis, tensor.rank) for axis in node.list("axes") or []})
    made = node.apply(
        "MEAN_VARIANCE_NORMALIZATION2",
        input_tensor=tensor,
        scale_tensor=_like(node, 1, tensor),
        bias_tensor=_like(node, 2, tensor),
        axes=axes,
        use_mean=node.op_type == "LayerNormalization",
        use_variance=True,
        epsilon=node.real("epsilon"),
    )
    node.set(node.cast(made, node.integer("to", tensor.element)))


def _like(node: Node, index: int, tensor: Tensor) -> Tensor | None:
    """A scale or a bias as it stands over the values."""
    if not node.has(index):
        return None
    given = node.tensor(index)
    if given.rank > tensor.rank:
        raise NotOnDevice(f"{list(given.shape)} has more dimensions than {list(tensor.shape)}")
    return node.cast(given, tensor.element).broadcast(tensor.shape)


@translates(
    "GroupNormalization", by=["MEAN_VARIANCE_NORMALIZATION1"], domain=JOINED, batch=batches.groups, reads_sizes=True
)
def group_normalization(node: Node) -> None:
    """Over groups of channels, and what is multiplied and added behind that."""
    tensor = node.tensor(0)
    node.check_element(0, *FLOATS)
    grouped = node.packed(tensor).viewed(shape_asked_for(node, node.integers(3), tensor.shape))
    axes = sorted({node.axis(axis, grouped.rank) for axis in node.list("axes") or range(2, grouped.rank)})
    if not axes or axes != list(range(2, grouped.rank)) or grouped.shape[0] != tensor.shape[0]:
        raise NotOnDevice(f"{list(tensor.shape)} as {list(grouped.shape)} is no division into groups")
    if shape_asked_for(node, node.integers(4), tensor.shape) != tensor.shape:
        raise NotOnDevice("the result has another shape than what is normalized")
    made = normalized(node, grouped, axes, epsilon=node.real("epsilon")).viewed(tensor.shape)
    scale, bias = _like(node, 1, tensor), _like(node, 2, tensor)
    made = made if scale is None else made * scale
    node.set(made if bias is None else made + bias)


@translates("Gelu", by=["ACTIVATION_GELU"], domain=JOINED, batch=batches.elementwise)
def gelu(node: Node) -> None:
    node.check_element(0, *FLOATS)
    node.set(node.apply("ACTIVATION_GELU", input_tensor=node.tensor(0)))


@translates("FastGelu", by=["ELEMENT_WISE_TANH"], domain=JOINED, batch=batches.elementwise)
def fast_gelu(node: Node) -> None:
    """The approximation with tanh, in FLOAT32."""
    node.check_element(0, *FLOATS)
    tensor = node.tensor(0)
    node.set(node.cast(gelu_by_tanh(node, node.cast(tensor, TensorProto.FLOAT)), tensor.element))


@translates("Swish", by=["ACTIVATION_SWISH"], domain=JOINED, batch=batches.elementwise)
def swish(node: Node) -> None:
    """X * sigmoid(alpha * x)."""
    node.check_element(0, *FLOATS)
    node.set(node.apply("ACTIVATION_SWISH", input_tensor=node.tensor(0), sigmoid_input_scale=node.real("alpha", 1.0)))


@translates("SwiGLU", by=["ACTIVATION_SWISH", "ELEMENT_WISE_MULTIPLY"], domain=JOINED, batch=batches.elementwise)
def swiglu(node: Node) -> None:
    """X * sigmoid(alpha * x), multiplied by another tensor."""
    node.check_element(0, *FLOATS)
    made = node.apply("ACTIVATION_SWISH", input_tensor=node.tensor(0), sigmoid_input_scale=node.real("alpha", 1.0))
    node.set(made * node.tensor(1))


@translates("Attention", by=["MULTIHEAD_ATTENTION1"], domain=JOINED, batch=batches.attention)
def joined_attention(node: Node) -> None:
    """Queries, transposed keys and values as [batch, heads, length, size], or without a batch; added masks.

    Scores and shares of FLOAT16 are FLOAT32, as ONNX Runtime has them, but with the device's arithmetic, whose kernel
    does not write them.
    """
    node.check_element(0, *FLOATS)
    query, transposed, value = (node.tensor(index) for index in range(3))
    given = query.element
    if not query.element == transposed.element == value.element:
        raise NotOnDevice("queries, keys and values are of several types")
    if not query.rank == transposed.rank == value.rank or query.rank not in (3, 4):
        raise NotOnDevice(
            f"needs three tensors of 3 or 4 dimensions; got {query.rank}, {transposed.rank}, {value.rank}"
        )
    if node.integer("axis", -1) not in (-1, query.rank - 1):
        raise NotOnDevice("the softmax goes along another axis")
    parts = [query, transposed.transposed([*range(query.rank - 2), query.rank - 1, query.rank - 2]), value]
    wide = given if node.device.arithmetic == "device" else TensorProto.FLOAT
    # What comes first without a batch is heads, whose number is plain; an open one is a batch of one head each.
    is_batch = query.rank == 3 and is_dynamic(query.shape[0]) and not node.has(_GUARD) and not node.integer("hides_nan")
    query, key, value = (_whole(node.cast(part, wide), is_batch=is_batch) for part in parts)
    batch, heads, queries, size = query.shape
    sizes = AttentionSizes(batch, heads, heads, queries, key.shape[2], 0, size, value.shape[3])
    if key.shape != (*query.shape[:2], sizes.own, sizes.size) or value.shape[:3] != key.shape[:3]:
        raise NotOnDevice(f"{list(query.shape)}, {list(key.shape)} and {list(value.shape)} are broadcast")
    mask = node.cast(node.tensor(3), query.element) if node.has(3) else None
    if mask is not None and (mask.rank > 4 or (mask.rank > 2 and len(node.shape(0)) == 3)):
        mask = _whole(mask, is_batch=is_batch) if mask.rank == 3 else None
        if mask is None:
            raise NotOnDevice("the mask has more dimensions than the scores")
    rows = {"query": query, "key": key, "value": value}
    if node.has(_WINDOWS):
        mask = _mask_of_windows(node, sizes, mask)
        windows, heads = mask.shape[1] // heads, mask.shape[1]
        sizes = dataclasses.replace(sizes, batch=batch // windows, heads=heads, key_heads=heads)
        rows = {role: node.packed(part).viewed((sizes.batch, heads, *part.shape[2:])) for role, part in rows.items()}
    sources = {f"{role}_tensor": merged(node, part) for role, part in rows.items()}
    made, *_ = attention(node, sources, sizes, node.real("scale", 1.0), added=mask)
    output = _guarded(node, headed(made, sizes.heads), mask)
    if node.has(_WINDOWS):
        output = node.packed(output).viewed((*query.shape[:3], value.shape[3]))
    if len(node.shape(0)) == 3:
        kept = [axis for axis in range(4) if axis != int(is_batch)]
        output = output.viewed([output.shape[axis] for axis in kept], [output.strides[axis] for axis in kept])
    node.set(node.cast(output, node.integer("to", given)))


def _mask_of_windows(node: Node, sizes: AttentionSizes, mask: Tensor | None) -> Tensor:
    """[1, windows * heads, queries, keys]: what is added for each head and what is added for each window.

    Sums of both are rounded before scores are added, not behind: so only for the device's arithmetic.
    """
    shape = (sizes.batch, sizes.heads, sizes.queries, sizes.own)
    of_windows = node.tensor(_WINDOWS)
    windows = of_windows.shape[1] if of_windows.rank == 5 else 0
    apart = (sizes.batch // max(windows, 1), windows, *shape[1:])
    if node.device.arithmetic != "device" or mask is None or mask.shape[-3:] != shape[1:] or windows == 0:
        raise NotOnDevice("masks of windows are added by themselves")
    if (
        math.prod(mask.shape) != math.prod(shape[1:])
        or of_windows.shape != (1, windows, 1, *shape[2:])
        or shape_asked_for(node, node.integers(_WINDOWS + 1), shape) != apart
        or shape_asked_for(node, node.integers(_WINDOWS + 2), apart) != shape
    ):
        raise NotOnDevice(f"masks of {list(of_windows.shape)} for scores of {list(shape)} are none of windows")
    total = node.packed(mask).viewed((1, 1, *shape[1:])) + node.cast(of_windows, mask.element)
    return total.viewed((1, windows * sizes.heads, *shape[2:]))


def _guarded(node: Node, output: Tensor, mask: Tensor | None) -> Tensor:
    """With zeros for the queries whose shares are made zeros.

    A guard against shares that are no numbers is there for masks that hide every key: a query that is no number itself
    gives none, as PyTorch's own attention does. Hidden rows are zeros whatever the values are, as those of ONNX's
    operator; written out, zero times an infinite value would be no number.
    """
    if node.integer("hides_nan") and mask is not None:
        output = rows_without_keys(mask).where(0.0, output)
    if not node.has(_GUARD):
        return output
    shape, rank = node.shape(_GUARD), len(node.shape(0))
    whole = (*output.shape[4 - rank : 3], 1)
    if (shape and shape[-1] != 1) or broadcast_shape(shape, whole) != whole:
        raise NotOnDevice(f"{list(shape)} does not say which rows of shares become zeros")
    known = node.known(_GUARD)
    if known is not None and not known.any():
        return output
    return node.tensor(_GUARD).where(0.0, output)


def _whole(tensor: Tensor, *, is_batch: bool) -> Tensor:
    """With a batch of one before it, where it has none; or with one head, where what comes first is a batch."""
    if tensor.rank == 4:
        return tensor
    first = int(is_batch)
    shape, strides = tensor.shape, tensor.strides
    step = math.prod(shape[first:])
    return tensor.viewed((*shape[:first], 1, *shape[first:]), (*strides[:first], step, *strides[first:]))

"""Normalizations."""

from __future__ import annotations

import math

from onnx import TensorProto

from dmlvk.kernels.rows.normalization import BUFFERS
from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.translation import FLOATS, MICROSOFT, Node, translates
from dmlvk.onnx.nodes.values import MOST_DIMENSIONS, NotOnDevice, Tensor


def _along_channels(node: Node, index: int, like: Tensor) -> Tensor:
    """An input with one number for each channel, as a tensor that broadcasts."""
    tensor = node.cast(node.tensor(index), like.element)
    channels = like.shape[1] if like.rank > 1 else 1
    if tensor.shape != (channels,):
        raise NotOnDevice(f"{list(tensor.shape)} does not fit {channels} channels")
    return tensor.viewed((1, channels, *[1] * (like.rank - 2)) if like.rank > 1 else (1,))


@translates(
    "BatchNormalization", by=["BATCH_NORMALIZATION", "BATCH_NORMALIZATION_TRAINING"], batch=batches.each_picture
)
def batch_normalization(node: Node) -> None:
    """With mean and variance as they were learned; from version 14 on as they are learned, too."""
    if node.integer("training_mode"):
        return _training(node)
    if any(node.wants(index) for index in range(1, node.output_count)):
        raise NotOnDevice("statistics are asked for, as in training before version 14")
    tensor = node.tensor(0)
    if tensor.rank == 0:
        raise NotOnDevice("a scalar has no channels")
    of_elements = node.version < 9 and not node.integer("spatial", 1)
    numbers = _of_elements if of_elements else _along_channels
    node.set(
        node.apply(
            "BATCH_NORMALIZATION",
            input_tensor=tensor,
            mean_tensor=numbers(node, 3, tensor),
            variance_tensor=numbers(node, 4, tensor),
            scale_tensor=numbers(node, 1, tensor),
            bias_tensor=numbers(node, 2, tensor),
            spatial=True,
            epsilon=node.real("epsilon", 1e-5),
            fused_activation=node.activation(),
        )
    )


def _of_elements(node: Node, index: int, like: Tensor) -> Tensor:
    """An input with one number for each element of an image (spatial=0)."""
    tensor = node.cast(node.tensor(index), like.element)
    if tensor.shape != like.shape[1:]:
        raise NotOnDevice(f"{list(tensor.shape)} does not fit the elements {list(like.shape[1:])}")
    return tensor.viewed((1, *tensor.shape), (0, *tensor.strides))


def _training(node: Node) -> None:
    """With the batch's own mean and variance, which go into those that are learned."""
    given = node.tensor(0)
    elements = {given.element, *(node.element(index) for index in range(1, 5))}
    tensor = node.cast(given, TensorProto.FLOAT if TensorProto.FLOAT in elements else given.element)
    scale, bias, *learned = (_along_channels(node, index, tensor) for index in range(1, 5))
    made, *found = node.apply_all(
        "BATCH_NORMALIZATION_TRAINING",
        input_tensor=tensor,
        scale_tensor=scale,
        bias_tensor=bias,
        fused_add_tensor=None,
        epsilon=node.real("epsilon", 1e-5),
        fused_activation=node.activation(),
    )
    node.set(node.cast(made, given.element))
    momentum = node.real("momentum", 0.9)
    for index, (before, now) in enumerate(zip(learned, found, strict=True), 1):
        if node.wants(index):
            kept = before * momentum
            taken = now * (1 - momentum)
            both = kept + taken
            node.set(node.cast(both.viewed(node.shape(2 + index)), node.element(2 + index)), index)


def normalized(
    node: Node,
    tensor: Tensor,
    axes: list[int],
    *,
    scale: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 0.0,
) -> Tensor:
    """The tensor less its mean along some axes, divided by its standard deviation along them."""
    return node.apply(
        "MEAN_VARIANCE_NORMALIZATION1",
        input_tensor=tensor,
        scale_tensor=scale,
        bias_tensor=bias,
        axes=axes,
        normalize_variance=True,
        epsilon=epsilon,
    )


@translates("InstanceNormalization", by=["MEAN_VARIANCE_NORMALIZATION1"], batch=batches.each_picture)
def instance_normalization(node: Node) -> None:
    """Over the spatial axes of each channel of each image."""
    tensor = node.tensor(0)
    node.set(
        normalized(
            node,
            tensor,
            list(range(2, tensor.rank)),
            scale=_along_channels(node, 1, tensor).broadcast(tensor.shape),
            bias=_along_channels(node, 2, tensor).broadcast(tensor.shape),
            epsilon=node.real("epsilon", 1e-5),
        )
    )


@translates("MeanVarianceNormalization", by=["MEAN_VARIANCE_NORMALIZATION1"])
def mean_variance_normalization(node: Node) -> None:
    """Over some axes, by default all but the channels'; those that a tensor lacks are left out, as by ONNX Runtime."""
    tensor = node.tensor(0)
    given = node.list("axes") or [0, 2, 3]
    axes = [node.axis(axis, tensor.rank) for axis in given if axis < tensor.rank]
    node.set(normalized(node, tensor, axes, epsilon=1e-18))


@translates(
    "LayerNormalization",
    by=["MEAN_VARIANCE_NORMALIZATION1"],
    note="also in models before 17, as ONNX Runtime does",
    batch=batches.along_an_axis(-1),
)
def layer_normalization(node: Node) -> None:
    """Over the axes from one on; the statistics are not given out."""
    if node.wants(1) or node.wants(2):
        raise NotOnDevice("the mean and the deviation are asked for")
    tensor = node.tensor(0)
    first = node.axis(node.integer("axis", -1), tensor.rank)
    scale, bias = node.tensor(1), node.tensor(2) if node.has(2) else None
    shape = tensor.shape
    if tensor.rank > MOST_DIMENSIONS and max(scale.rank, 0 if bias is None else bias.rank) <= tensor.rank - first:
        tensor = node.reshaped(tensor, (_count(shape[:first]), *shape[first:]))
        first = 1
    node.set(layer_normalized(node, tensor, first, scale, bias, node.real("epsilon", 1e-5)).viewed(shape))


def layer_normalized(
    node: Node, tensor: Tensor, first: int, scale: Tensor, bias: Tensor | None, epsilon: float
) -> Tensor:
    """Over the axes from one on; in FLOAT32 where the scale is."""
    element = tensor.element
    if TensorProto.FLOAT in (scale.element, element) and element in FLOATS:
        tensor = node.cast(tensor, TensorProto.FLOAT) if scale.element != element else tensor
        scale = node.cast(scale, tensor.element)
    bias = None if bias is None else node.cast(bias, tensor.element).broadcast(tensor.shape)
    made = normalized(
        node, tensor, list(range(first, tensor.rank)), scale=scale.broadcast(tensor.shape), bias=bias, epsilon=epsilon
    )
    return node.cast(made, element)


@translates(
    "GroupNormalization",
    by=["MEAN_VARIANCE_NORMALIZATION1", "ELEMENT_WISE_MULTIPLY", "ELEMENT_WISE_ADD"],
    since=18,
    batch=batches.each_picture,
    reads_sizes=True,
)
def group_normalization(node: Node) -> None:
    """Over groups of channels; scale and bias have a number for each group, from version 21 on for each channel."""
    tensor, scale, bias = node.tensors()
    groups, channels = node.integer("num_groups"), tensor.shape[1]
    if groups < 1 or channels % groups:
        raise NotOnDevice(f"{groups} groups of {channels} channels")
    grouped = node.reshaped(tensor, (tensor.shape[0], groups, _count(tensor.shape[1:]) // groups))
    made = normalized(node, grouped, [2], epsilon=node.real("epsilon", 1e-5))
    parts = groups if scale.shape == (groups,) and node.version < 21 else channels
    shape = (tensor.shape[0], parts, _count(tensor.shape[1:]) // parts)
    made = made.viewed(shape) * node.cast(scale, tensor.element).viewed((parts, 1))
    made = made + node.cast(bias, tensor.element).viewed((parts, 1))
    node.set(made.viewed(tensor.shape))


@translates("SkipLayerNormalization", by=["ELEMENT_WISE_ADD", "MEAN_VARIANCE_NORMALIZATION1"], domain=MICROSOFT)
def skip_layer_normalization(node: Node) -> None:
    """Of the sum of input, skip and bias."""
    if node.wants(1) or node.wants(2):
        raise NotOnDevice("the mean and the deviation are asked for")
    added = node.tensor(0) + node.tensor(1)
    if node.has(4):
        added = added + node.tensor(4)
    bias = node.tensor(3) if node.has(3) else None
    epsilon = node.real("epsilon", 1e-12)
    node.set(layer_normalized(node, added, added.rank - 1, node.tensor(2), bias, epsilon))
    if node.wants(3):
        node.set(added, 3)


@translates("SimplifiedLayerNormalization", by=["RESIDUAL_NORMALIZATION"])
def simplified_layer_normalization(node: Node) -> None:
    """Divided by the root of the mean square; ONNX Runtime writes it into ONNX's domain."""
    if node.wants(1):
        raise NotOnDevice("the deviation is asked for")
    tensor = node.tensor(0)
    first, epsilon = node.axis(node.integer("axis", -1), tensor.rank), node.real("epsilon", 1e-5)
    length = math.prod(tensor.shape[first:])
    if _is_residual(node, tensor, node.tensor(1), length):
        node.set(_residual(node, tensor, None, node.tensor(1), None, length, epsilon)[0])
    else:
        node.set(root_mean_square(node, tensor, node.tensor(1), first, epsilon))


def normalized_rows(node: Node, tensor: Tensor, scale: Tensor, epsilon: float) -> Tensor:
    """Rows divided by the root of their mean square, and multiplied by a scale."""
    if _is_residual(node, tensor, scale, tensor.shape[-1]):
        return _residual(node, tensor, None, scale, None, tensor.shape[-1], epsilon)[0]
    return root_mean_square(node, tensor, scale, tensor.rank - 1, epsilon)


@translates("SkipSimplifiedLayerNormalization", by=["RESIDUAL_NORMALIZATION"], domain=MICROSOFT)
def skip_simplified_layer_normalization(node: Node) -> None:
    """Of the sum of input, skip and bias, divided by the root of its mean square."""
    if node.wants(1) or node.wants(2):
        raise NotOnDevice("the mean and the deviation are asked for")
    tensor, skip, epsilon = node.tensor(0), node.tensor(1), node.real("epsilon", 1e-12)
    length = tensor.shape[-1]
    if _repeats(skip, tensor) and _is_residual(node, tensor, node.tensor(2), length):
        bias = node.packed(node.tensor(3)) if node.has(3) else None
        made = _residual(node, tensor, skip, node.tensor(2), bias, length, epsilon)
        node.set(made[0])
        if node.wants(3):
            node.set(made[1], 3)
        return
    added = tensor + skip
    if node.has(3):
        added = added + node.tensor(3)
    node.set(root_mean_square(node, added, node.tensor(2), added.rank - 1, epsilon))
    if node.wants(3):
        node.set(added, 3)


def _repeats(skip: Tensor, tensor: Tensor) -> bool:
    """Whether a tensor's rows are the last ones of another, which broadcasting repeats."""
    first = next((axis for axis, size in enumerate(skip.shape[:-1]) if size != 1), skip.rank - 1)
    wanted = skip.shape[first:]
    return skip.element == tensor.element and tensor.shape[tensor.rank - len(wanted) :] == wanted


def _is_residual(node: Node, tensor: Tensor, scale: Tensor, length: int) -> bool:
    has_buffers = node.device.target.buffers >= BUFFERS
    return has_buffers and tensor.element in FLOATS and length % 2 == 0 and math.prod(scale.shape) == length


def _residual(
    node: Node, tensor: Tensor, skip: Tensor | None, scale: Tensor, bias: Tensor | None, length: int, epsilon: float
) -> list[Tensor]:
    """RESIDUAL_NORMALIZATION of rows, and the sum where it is asked for."""

    def rows(given: Tensor) -> Tensor:
        return node.packed(given).viewed((math.prod(given.shape) // length, length))

    output = New(tensor.element, (math.prod(tensor.shape) // length, length))
    made = node.apply_all(
        "RESIDUAL_NORMALIZATION",
        input_tensor=rows(tensor),
        skip_tensor=None if skip is None else rows(skip),
        scale_tensor=node.cast(node.packed(scale), tensor.element).viewed((length,)),
        bias_tensor=None if bias is None else bias.viewed((length,)),
        output_tensor=output,
        sum_tensor=output if skip is not None and node.wants(3) else None,
        epsilon=epsilon,
    )
    return [part.viewed(tensor.shape) for part in made]


def root_mean_square(node: Node, tensor: Tensor, scale: Tensor, first: int, epsilon: float) -> Tensor:
    """The tensor divided by the root of its mean square over the axes from one on, multiplied by a scale."""
    axes = list(range(first, tensor.rank))
    return node.apply(
        "MEAN_VARIANCE_NORMALIZATION2",
        input_tensor=tensor,
        scale_tensor=node.cast(scale, tensor.element).broadcast(tensor.shape),
        bias_tensor=None,
        axes=axes,
        use_mean=False,
        use_variance=True,
        epsilon=epsilon,
    )


@translates("LRN", by=["LOCAL_RESPONSE_NORMALIZATION"], batch=batches.each_picture)
def local_response_normalization(node: Node) -> None:
    """Over neighbouring channels."""
    tensor = node.tensor(0)
    if tensor.rank < 3:
        raise NotOnDevice(f"needs 3 dimensions or more; got {tensor.rank}")
    seen = tensor
    if tensor.rank != 4:
        last = tensor.shape[-1]
        seen = node.reshaped(tensor, (*tensor.shape[:2], -(-_count(tensor.shape[2:]) // last), last))
    made = node.apply(
        "LOCAL_RESPONSE_NORMALIZATION",
        input_tensor=seen,
        cross_channel=True,
        local_size=node.integer("size"),
        alpha=node.real("alpha", 1e-4),
        beta=node.real("beta", 0.75),
        bias=node.real("bias", 1.0),
    )
    node.set(made.viewed(tensor.shape))


def _count(sizes: tuple[int, ...]) -> int:
    count = 1
    for size in sizes:
        count *= size
    return count


_SMALLEST_NORM = 2.0**-126  # Norms are never denormal: no other one than 0 is smaller


@translates("LpNormalization", by=["LP_NORMALIZATION"])
def lp_normalization(node: Node) -> None:
    """Divided by the p-norm along an axis; where that is 0, so are the results, as ONNX 1.23 says."""
    tensor = node.tensor(0)
    node.set(
        node.apply(
            "LP_NORMALIZATION",
            input_tensor=tensor,
            axis=node.axis(node.integer("axis", -1), tensor.rank),
            epsilon=_SMALLEST_NORM,
            p=node.integer("p", 2),
        )
    )

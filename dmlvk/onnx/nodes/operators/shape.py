"""What only changes how elements are seen: views where they can be, else copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes.translation import Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, broadcast_shape

VIEW = "a view of the same bytes, copied only where it becomes an output"


@translates("Identity", note=VIEW, batch=batches.elementwise)
@translates("Dropout", note=VIEW, batch=batches.dropped_out)
def identity(node: Node) -> None:
    """Dropout when a model is used and not trained."""
    if node.op_type == "Dropout":
        if node.wants(1):
            raise NotOnDevice("the mask is asked for")
        if node.has(2) and bool(node.array(2)):
            raise NotOnDevice("dropping out at random, as in training, is not for the device")
    node.set(node.tensor(0))


@translates("Reshape", note=VIEW, batch=batches.by_shape, reads_sizes=True)
@translates("Flatten", note=VIEW, batch=batches.reshaped)
def reshape(node: Node) -> None:
    """The new shape is an input that is known, or an attribute."""
    if node.op_type == "Flatten":
        tensor = node.tensor(0)
        axis = node.integer("axis", 1)
        axis = axis + tensor.rank if axis < 0 else axis
        node.set(node.reshaped(tensor, (math.prod(tensor.shape[:axis]), math.prod(tensor.shape[axis:]))))
        return
    asked = node.integers(1) if node.version >= 5 else node.list("shape") or []
    tensor = node.tensor(0)  # what has no elements needs the asked shape, too
    node.set(node.reshaped(tensor, shape_asked_for(node, asked, tensor.shape)))


def shape_asked_for(node: Node, sizes: Sequence[int], given: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that a Reshape asks for: 0 is the given size, -1 what is left."""
    keeps_zeros = bool(node.integer("allowzero"))
    if not keeps_zeros and any(size == 0 and axis >= len(given) for axis, size in enumerate(sizes)):
        raise NotOnDevice(f"the shape {sizes} keeps a size that {list(given)} does not have")
    kept = [given[axis] if size == 0 and not keeps_zeros else size for axis, size in enumerate(sizes)]
    known = math.prod(size for size in kept if size != -1)
    if kept.count(-1) > 1 or known < 1:
        raise NotOnDevice(f"{sizes} is no shape for {list(given)}")
    found = tuple(math.prod(given) // known if size == -1 else size for size in kept)
    if math.prod(found) != math.prod(given):
        raise NotOnDevice(f"{sizes} is no shape for {list(given)}")
    return found


@translates("Squeeze", note=VIEW, batch=batches.reshaped)
@translates("Unsqueeze", note=VIEW, batch=batches.reshaped)
def unsqueeze(node: Node) -> None:
    """Axes are an attribute before version 13, then an input that is known."""
    given = (node.integers(1) if node.has(1) else None) if node.version >= 13 else node.list("axes")
    tensor = node.tensor(0)
    if node.op_type == "Unsqueeze":
        rank, sizes = tensor.rank + len(given or ()), iter(tensor.shape)
        axes = {node.axis(axis, rank) for axis in given or ()}
        node.set(node.reshaped(tensor, [1 if axis in axes else next(sizes) for axis in range(rank)]))
        return
    axes = {axis for axis, size in enumerate(tensor.shape) if size == 1}
    if given is not None:
        axes = {node.axis(axis, tensor.rank) for axis in given}
    if any(tensor.shape[axis] != 1 for axis in axes):
        raise NotOnDevice(f"the axes {given} of {list(tensor.shape)} are not all of size 1")
    node.set(node.reshaped(tensor, [size for axis, size in enumerate(tensor.shape) if axis not in axes]))


@translates("Transpose", note=VIEW, batch=batches.transposed)
def transpose(node: Node) -> None:
    """The axes in another order, by default reversed."""
    tensor = node.tensor(0)
    order = node.list("perm") or list(reversed(range(tensor.rank)))
    if sorted(order) != list(range(tensor.rank)):
        raise NotOnDevice(f"perm {order} is no order of {tensor.rank} axes")
    node.set(tensor.transposed(order))


@translates("Expand", note=VIEW, batch=batches.by_shape, reads_sizes=True)
def expand(node: Node) -> None:
    """By strides of 0."""
    tensor = node.tensor(0)
    node.set(tensor.broadcast(broadcast_shape(tensor.shape, node.integers(1))))

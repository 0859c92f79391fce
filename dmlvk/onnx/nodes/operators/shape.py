"""What only changes how elements are seen: views where they can be, else copies."""

from __future__ import annotations

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes import dynamic_shapes as shapes
from dmlvk.onnx.nodes.translation import Node, translates
from dmlvk.onnx.nodes.values import NotOnDevice, broadcast_shape

VIEW = "a view of the same bytes, copied only where it becomes an output"


@translates("Identity", note=VIEW, shape=shapes.same, batch=batches.elementwise)
@translates("Dropout", note=VIEW, shape=shapes.same, batch=batches.dropped_out)
def identity(node: Node) -> None:
    """Dropout when a model is used and not trained."""
    if node.op_type == "Dropout":
        if node.wants(1):
            raise NotOnDevice("the mask is asked for")
        if node.has(2) and bool(node.array(2)):
            raise NotOnDevice("dropping out at random, as in training, is not for the device")
    node.set(node.tensor(0))


@translates("Reshape", note=VIEW, shape=shapes.reshaped, batch=batches.by_shape, reads_sizes=True)
@translates("Flatten", note=VIEW, shape=shapes.flattened, batch=batches.reshaped)
def reshape(node: Node) -> None:
    """The new shape is an input that is known, or an attribute."""
    if node.op_type == "Reshape" and node.has(1):
        node.require(1)
    node.set(node.reshaped(node.tensor(0), node.new().shape))


@translates("Squeeze", note=VIEW, shape=shapes.squeezed, batch=batches.reshaped)
@translates("Unsqueeze", note=VIEW, shape=shapes.unsqueezed, batch=batches.reshaped)
def unsqueeze(node: Node) -> None:
    """Axes are an attribute before version 13, then an input that is known."""
    if node.version >= 13 and node.has(1):
        node.require(1)
    node.set(node.reshaped(node.tensor(0), node.new().shape))


@translates("Transpose", note=VIEW, shape=shapes.transposed, batch=batches.transposed)
def transpose(node: Node) -> None:
    """The axes in another order, by default reversed."""
    tensor = node.tensor(0)
    order = node.list("perm") or list(reversed(range(tensor.rank)))
    if sorted(order) != list(range(tensor.rank)):
        raise NotOnDevice(f"perm {order} is no order of {tensor.rank} axes")
    node.set(tensor.transposed(order))


@translates("Expand", note=VIEW, shape=shapes.expanded, batch=batches.by_shape, reads_sizes=True)
def expand(node: Node) -> None:
    """By strides of 0."""
    tensor = node.tensor(0)
    # Not the inferred shape: of shapes that do not fit together onnx infers one all the same.
    node.set(tensor.broadcast(broadcast_shape(tensor.shape, node.integers(1))))

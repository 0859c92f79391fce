"""Reductions, places of extrema, running sums, the largest k."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection

import numpy as np
from onnx import TensorProto

from dmlvk.onnx.nodes import batch_rules as batches
from dmlvk.onnx.nodes import emptiness
from dmlvk.onnx.nodes.assembly import New
from dmlvk.onnx.nodes.operators.elementwise import with_equal_zeros
from dmlvk.onnx.nodes.translation import FLOATS, Node, translates
from dmlvk.onnx.nodes.values import NUMPY_TYPES, NotOnDevice, Tensor
from dmlvk.operators.members import ReduceFunction

_FUNCTIONS = {  # DML_REDUCE_FUNCTION, and what it gives of no elements
    "ReduceMean": (2, emptiness.zeros),
    "ReduceL1": (3, emptiness.zeros),
    "ReduceL2": (4, emptiness.zeros),
    "ReduceLogSum": (5, emptiness.lowest),
    "ReduceLogSumExp": (6, emptiness.lowest),
    "ReduceMax": (7, emptiness.lowest),
    "ReduceMin": (8, emptiness.highest),
    "ReduceProd": (9, emptiness.ones),
    "ReduceSum": (10, emptiness.zeros),
    "ReduceSumSquare": (11, emptiness.zeros),
}

_LOGARITHM_OF_INTEGERS = (TensorProto.INT32, TensorProto.INT64)

_AXES_ARE_AN_INPUT = {"ReduceSum": 13}  # The version from which on the axes are an input; 18 for all others


def _reduce(function: int, node: Node) -> None:
    tensor = node.tensor(0)
    if node.version >= _AXES_ARE_AN_INPUT.get(node.op_type, 18):
        given = node.integers(1) if node.has(1) else []
        if not given and node.integer("noop_with_empty_axes"):
            if node.op_type in ("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"):
                node.set(tensor)
                return
            raise NotOnDevice("noop_with_empty_axes of a function that changes single elements")
    else:
        given = node.list("axes") or []
    axes = sorted({node.axis(axis, tensor.rank) for axis in given}) or list(range(tensor.rank))
    if tensor.element == TensorProto.BOOL and node.op_type not in ("ReduceMax", "ReduceMin"):
        raise NotOnDevice("BOOL has extrema only")
    if tensor.element in _LOGARITHM_OF_INTEGERS and node.op_type in ("ReduceLogSum", "ReduceLogSumExp"):
        made = _logarithm_of_integers(node, tensor, axes)
    else:
        made = reduced(node, function, tensor, axes)
        if node.op_type in ("ReduceMax", "ReduceMin") and node.assembly.propagates_nan and tensor.element in FLOATS:
            made = _with_nan(node, made, tensor, axes)
    node.set(made.viewed(_left(node, tensor, axes)))


def _left(node: Node, tensor: Tensor, axes: Collection[int]) -> list[int]:
    """The shape when some axes are reduced."""
    if node.integer("keepdims", 1):
        return [1 if axis in axes else size for axis, size in enumerate(tensor.shape)]
    return [size for axis, size in enumerate(tensor.shape) if axis not in axes]


def _with_nan(node: Node, made: Tensor, tensor: Tensor, axes: list[int]) -> Tensor:
    """What is reduced, with NaN where one of the elements is NaN."""
    is_nan = node.apply("ELEMENT_WISE_IS_NAN", input_tensor=tensor)
    return reduced(node, ReduceFunction.MAX, is_nan, axes).where(math.nan, made)


def _logarithm_of_integers(node: Node, tensor: Tensor, axes: list[int]) -> Tensor:
    """As ONNX Runtime has it: every step is cut to an integer, so that of exp(x - max) only the maxima count."""
    most = None
    if node.op_type == "ReduceLogSumExp":
        most = reduced(node, ReduceFunction.MAX, tensor, axes)
        tensor = node.cast(tensor.equals(most), tensor.element)
    total = reduced(node, ReduceFunction.SUM, tensor, axes)
    logarithm = node.apply("ELEMENT_WISE_LOG", input_tensor=node.cast(total, TensorProto.FLOAT))
    whole = node.cast(logarithm, tensor.element)
    if most is not None:
        return whole + most
    return (total > 0).where(whole, int(np.iinfo(NUMPY_TYPES[tensor.element]).min))


def reduced(node: Node, function: int, tensor: Tensor, axes: list[int]) -> Tensor:
    """REDUCE, with the axes kept as ones of size 1."""
    seen = tensor if tensor.rank else tensor.viewed((1,))
    named = axes or [0]
    return node.apply("REDUCE", function=function, input_tensor=seen, axes=named)


for _op_type, (_number, _empty) in _FUNCTIONS.items():
    _made, _batch = functools.partial(_reduce, _number), batches.outside_of_axes(1)
    translates(_op_type, by=["REDUCE"], batch=_batch, empty=_empty)(_made)


def _arg_extreme(operator: str, node: Node) -> None:
    tensor = node.tensor(0)
    if tensor.rank == 0:
        raise NotOnDevice("a scalar has no axis")
    axis = node.axis(node.integer("axis"), tensor.rank)
    made = node.apply(
        operator,
        TensorProto.INT64,
        input_tensor=with_equal_zeros(node, tensor),
        axes=[axis],
        axis_direction=1 if node.integer("select_last_index") else 0,
    )
    node.set(made.viewed(_left(node, tensor, [axis])))


for _op_type in ("ArgMax", "ArgMin"):
    _name = _op_type.upper()
    _made = functools.partial(_arg_extreme, _name)
    translates(_op_type, by=[_name], batch=batches.along_an_axis(0))(_made)


def _running(operator: str, exclusive: str, node: Node) -> None:
    tensor = node.tensor(0)
    (axis,) = node.integers(1)
    node.set(
        node.apply(
            operator,
            input_tensor=tensor,
            axis=node.axis(axis, tensor.rank),
            axis_direction=1 if node.integer("reverse") else 0,
            **{exclusive: bool(node.integer("exclusive"))},
        )
    )


translates("CumSum", by=["CUMULATIVE_SUMMATION"])(
    functools.partial(_running, "CUMULATIVE_SUMMATION", "has_exclusive_sum")
)
translates("CumProd", by=["CUMULATIVE_PRODUCT"])(
    functools.partial(_running, "CUMULATIVE_PRODUCT", "has_exclusive_product")
)


@translates("TopK", by=["TOP_K1", "GATHER_ELEMENTS"], batch=batches.along_an_axis(-1))
def top_k(node: Node) -> None:
    """Sorted; the k is known."""
    tensor = node.tensor(0)
    axis = node.axis(node.integer("axis", -1), tensor.rank)
    largest = node.integer("largest", 1) if node.version >= 11 else 1
    count = int(node.array(1).reshape(-1)[0]) if node.version >= 10 else node.integer("k")
    shape = tuple(count if number == axis else size for number, size in enumerate(tensor.shape))
    found, positions = node.apply_all(
        "TOP_K1",
        input_tensor=with_equal_zeros(node, tensor),
        output_value_tensor=New(tensor.element, shape),
        output_index_tensor=New(TensorProto.UINT64, shape),
        axis=axis,
        k=count,
        axis_direction=1 if largest else 0,
    )
    if tensor.element in FLOATS:  # with the signs of their zeros
        found = node.apply("GATHER_ELEMENTS", input_tensor=tensor, indices_tensor=positions, axis=axis)
    node.set(found)
    node.set(positions.viewed(shape, element=TensorProto.INT64), 1)

"""Values that follow from open sizes while a model is planned: integers of them, and tensors of such shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from dmlvk.dynamic.sizes import is_dynamic, value_of
from dmlvk.onnx.host.evaluation import computed
from dmlvk.onnx.host.evaluation.call import NotComputed, function_of
from dmlvk.onnx.model.inference import INVALID
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.values import Array, Derived, Known, Value, current
from dmlvk.support import faults

_INTEGERS: Mapping[int, tuple[int, int]] = {
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    TensorProto.INT64: (-(2**63), 2**63 - 1),
}

_MOST_NUMBERS = 2**12  # Elements of a result up to which each is followed by itself


def derived_values(step: Step, inputs: Sequence[Value | None]) -> list[Known | Derived] | None:
    """What a node gives of integers that follow from sizes, by the functions by which the host computes it.

    They compute it twice: of the sizes of the run that is planned, as ever, and of arrays of objects that remember
    how they follow from open sizes. Both must give the same.

    Args:
        inputs: its inputs; ``None`` for an absent optional one.

    Returns:
        Its outputs; ``None`` where they are not known here.
    """
    function = function_of(step.domain, step.proto.op_type, step.version)
    if function is None or not function.of_sizes or step.schema is None or not all(step.proto.output):
        return None
    plain = [None if value is None else current(value) for value in inputs]
    if not all(value is None or (isinstance(value, Known) and isinstance(value.value, np.ndarray)) for value in plain):
        return None
    arrays = [np.asarray(value.value) if isinstance(value, Known) else None for value in plain]
    try:
        of_run = computed(step, arrays, _check)
        of_sizes = computed(step, _followed(step, inputs, arrays), _check)
    except (NotComputed, *INVALID):
        return None
    except Exception as error:  # noqa: BLE001 - told
        faults.report(error, f"computing {step.label} of open sizes")
        return None
    made = [_value(*each) for each in zip(step.proto.output, of_run, map(_array, of_sizes), strict=True)]
    values = [value for value in made if value is not None]
    return values if len(values) == len(made) else None


def _check(shape: Sequence[int], _: np.dtype[Any]) -> None:
    if math.prod(shape) > _MOST_NUMBERS:
        raise NotComputed(f"{list(shape)} are too many numbers to follow each")


def _followed(step: Step, inputs: Sequence[Value | None], arrays: Sequence[Array | None]) -> list[Array | None]:
    formals = step.schema.inputs if step.schema is not None else []
    types = [formals[min(number, len(formals) - 1)].type_str for number in range(len(inputs))]
    of_sizes = {kind for kind, value in zip(types, inputs, strict=True) if isinstance(value, Derived)}
    return [
        value.numbers
        if isinstance(value, Derived)
        else array.astype(object)
        if array is not None and kind in of_sizes
        else array
        for kind, value, array in zip(types, inputs, arrays, strict=True)
    ]


def _array(result: Any) -> Array:
    """A result as an array: of one object NumPy gives the object."""
    return result if isinstance(result, np.ndarray) else np.asarray(result, object)


def _value(name: str, of_run: Array, of_sizes: Array) -> Known | Derived | None:
    """An output; ``None`` where its numbers are not those of the run, or of a type that no sizes have."""
    numbers = list(of_sizes.reshape(-1))
    if of_run.shape != of_sizes.shape or [value_of(number) for number in numbers] != of_run.reshape(-1).tolist():
        return None
    if not is_dynamic(numbers):
        return Known(of_run)
    element = int(helper.np_dtype_to_tensor_dtype(of_run.dtype))
    if element not in _INTEGERS:
        return None
    lowest, highest = _INTEGERS[element]
    return Derived(name, element, of_sizes) if all(lowest <= number <= highest for number in numbers) else None


def host_shape(step: Step, inputs: Sequence[Value | None]) -> tuple[Any, ...] | None:
    """The shape of what the host alone computes of sizes; ``None``: it is another operator, or not known here."""
    numbers = [list(value.numbers.reshape(-1)) if isinstance(value, Derived) else _plain(value) for value in inputs]
    if step.proto.op_type == "ConstantOfShape" and numbers[0] is not None:
        return tuple(numbers[0])
    if step.proto.op_type != "Range" or any(each is None or len(each) != 1 for each in numbers):
        return None
    start, limit, delta = (each[0] for each in numbers if each is not None)
    is_exact = not any(isinstance(value, Known) and value.value.dtype.kind == "f" for value in inputs)
    if is_dynamic(delta) or delta == 0 or not (is_exact or abs(delta) == 1):
        return None
    count = -(-(limit - start) // delta)
    return (count if count > 0 else 0,)


def _plain(value: Value | None) -> list[int] | None:
    if not isinstance(value, Known) or not isinstance(value.value, np.ndarray) or value.value.dtype.kind not in "iuf":
        return None
    array = np.asarray(value.value).reshape(-1)
    is_whole = array.dtype.kind != "f" or bool(
        (np.abs(array) < most_exact(array.dtype)).all() and (array % 1 == 0).all()
    )
    return [int(number) for number in array] if is_whole else None


def most_exact(dtype: np.dtype[Any]) -> int:
    """Below what whole numbers of a type with a fraction, and differences of two of them, are exact."""
    return int(2 ** (np.finfo(dtype).nmant - 1))

"""Values that follow from open sizes while a model is planned: integers of them, and tensors of such shapes."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, helper

from dmlvk.dynamic.sizes import is_dynamic, value_of
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.nodes.dynamic_shapes import Given, NoRuleError, rule_of
from dmlvk.onnx.nodes.values import Derived, Known, Tensor, Value
from dmlvk.support import faults

_log = logging.getLogger("dmlvk")

_Numbers: TypeAlias = "np.ndarray[Any, Any]"
_INTEGERS: Mapping[int, tuple[int, int]] = {
    TensorProto.INT32: (-(2**31), 2**31 - 1),
    TensorProto.INT64: (-(2**63), 2**63 - 1),
}
_PAIRS: Mapping[str, Callable[[Any, Any], Any]] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a // b,
    "Mod": lambda a, b: a % b,
    "Equal": lambda a, b: bool(a == b),
    "Greater": lambda a, b: bool(a > b),
    "GreaterOrEqual": lambda a, b: bool(a >= b),
    "Less": lambda a, b: bool(a < b),
    "LessOrEqual": lambda a, b: bool(a <= b),
    "Max": max,
    "Min": min,
}
_BOOLEAN = ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")


def derived_numbers(step: Step, inputs: Sequence[Value | None]) -> tuple[int, _Numbers] | None:
    """What a node gives of integers that follow from sizes: its type, and an array of integers and dynamic sizes.

    Returns:
        ``None`` where that is not known here.
    """
    if step.domain or len(step.proto.output) != 1:
        return None
    arrays = [None if value is None else _as_numbers(value) for value in inputs]
    if any(array is None and value is not None for array, value in zip(arrays, inputs, strict=True)):
        return None
    given = Given(step, inputs)
    try:
        made = _computed(step.proto.op_type, given, [array for array in arrays if array is not None])
    except NoRuleError:
        return None
    except Exception as error:  # noqa: BLE001 - told
        faults.report(error, f"computing {step.label} of open sizes")
        return None
    if made is None:
        return None
    op_type = step.proto.op_type
    element = next(e for e in (_element(value) for value in inputs) if e is not None)
    if op_type == "Where":
        element = _element(inputs[1]) or 0
    if op_type == "Cast":
        element = int(given.attribute("to"))
    if op_type in _BOOLEAN:
        return TensorProto.BOOL, made.astype(bool)
    if op_type == "Shape":
        return TensorProto.INT64, made
    if element not in _INTEGERS:
        return None
    lowest, highest = _INTEGERS[element]
    if not all(lowest <= number <= highest for number in made.reshape(-1)):
        return None
    return element, made


def _element(value: Value | None) -> int | None:
    if isinstance(value, Derived):
        return value.element
    if isinstance(value, Known) and isinstance(value.value, np.ndarray):
        return int(helper.np_dtype_to_tensor_dtype(value.value.dtype))
    return None


def _as_numbers(value: Value) -> _Numbers | None:
    if isinstance(value, Derived):
        return value.numbers
    if isinstance(value, Known) and isinstance(value.value, np.ndarray) and value.value.dtype.kind in "iub":
        return value.value.astype(object)
    return None


def _computed(op_type: str, given: Given, arrays: Sequence[_Numbers]) -> _Numbers | None:
    first = arrays[0]
    if op_type in _PAIRS:
        if op_type in ("Div", "Mod") and not (
            all(number >= 0 for number in first.reshape(-1)) and all(number > 0 for number in arrays[1].reshape(-1))
        ):
            return None  # ONNX rounds towards 0
        made = first
        for other in arrays[1:]:
            made = np.asarray(np.frompyfunc(_PAIRS[op_type], 2, 1)(made, other), object)
        return made
    if op_type in ("Identity", "Cast"):
        return first
    if op_type == "Neg":
        return np.asarray(-first, object)
    if op_type == "Where":
        return np.asarray(np.where(arrays[0].astype(bool), arrays[1], arrays[2]), object)
    if op_type == "Shape":
        start, end = given.attribute("start", 0), given.attribute("end", first.ndim)
        return np.array(first.shape, object)[start:end]
    if op_type == "Gather":
        indices = arrays[1]
        if is_dynamic(list(indices.reshape(-1))):
            return None
        return np.asarray(np.take(first, indices.astype(np.int64), axis=given.attribute("axis", 0)), object)
    if op_type == "Concat":
        return np.concatenate(arrays, axis=given.attribute("axis", 0))
    if op_type in ("Squeeze", "Unsqueeze", "Reshape"):
        rule = rule_of(given.step)
        assert rule is not None  # these have one
        (shape,) = rule(given)
        return first.reshape([int(size) for size in shape])
    if op_type == "Slice" and first.ndim == 1:
        starts, ends, axes, steps = (given.numbers(index) for index in range(1, 5))
        if starts is None or ends is None or is_dynamic(starts) or is_dynamic(ends) or is_dynamic(axes or []):
            return None
        return first[slice(starts[0], ends[0], 1 if steps is None else steps[0])] if len(starts) == 1 else None
    if op_type in ("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin") and first.ndim == 1:
        functions: Mapping[str, Callable[[list[Any]], Any]] = {
            "ReduceProd": math.prod,
            "ReduceSum": sum,
            "ReduceMax": max,
            "ReduceMin": min,
        }
        result = functions[op_type](list(first))
        return np.array([result] if given.attribute("keepdims", 1) else result, object)
    return None


def has_open_sizes(value: Value | None) -> bool:
    """Whether a value's shape, or its contents, follow from open sizes."""
    return isinstance(value, Derived) or (isinstance(value, Tensor) and is_dynamic(value.shape))


def current(value: Value | None) -> Value | None:
    """A value with the sizes of the run that is planned, for what only looks at them."""
    if isinstance(value, Derived):
        return Known(value.current())
    if isinstance(value, Tensor) and (is_dynamic(value.shape) or is_dynamic(value.strides)):
        size = value_of(value.source.size_in_bytes)
        source = dataclasses.replace(value.source, size_in_bytes=size)
        return Tensor(source, value.element, tuple(map(value_of, value.shape)), tuple(map(value_of, value.strides)))
    return value


def fix(value: Value | None, why: str) -> None:
    """Makes the sizes of a value plain numbers, which the plan is for from now on."""
    if isinstance(value, Derived):
        value.fixed()
    elif isinstance(value, Tensor) and is_dynamic(value.shape):
        _log.debug("a plan is for some sizes only: %s", why)
        for size in value.shape:
            int(size)


__all__ = ["current", "derived_numbers", "fix", "has_open_sizes"]

"""Checks what a session is given to run on: names, types and shapes of inputs, names of outputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from dmlvk.errors import InvalidArgumentError
from dmlvk.onnx.api.ort_values import run_inputs
from dmlvk.onnx.model.loading import OnnxModel, ValueInfo
from dmlvk.onnx.nodes.values import DATA_TYPES, Array, element_name, numpy_type
from dmlvk.onnx.plan.execution import DeviceValue

if TYPE_CHECKING:
    from dmlvk.device import Device

_TEXTS = "UOS"  # Kinds of NumPy's types that texts may have


def checked_outputs(model: OnnxModel, names: Sequence[str] | None) -> list[str]:
    """The outputs that are wanted; all, where none is named.

    Raises:
        InvalidArgumentError: when the model has no such one.
    """
    there = [info.name for info in model.outputs]
    if names is None:
        return there
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InvalidArgumentError(f"{model.name}: output_names must be a sequence of names, or None; got {names!r}")
    names = list(names)
    if not names:
        return there
    for name in names:
        check_name(model, name, "output", model.outputs)
    return names


def check_name(model: OnnxModel, name: object, kind: str, infos: Sequence[ValueInfo]) -> None:
    """Raises where none of the model's inputs or outputs has a name.

    Raises:
        InvalidArgumentError: when none has it.
    """
    there = [info.name for info in infos]
    if name not in there:
        raise InvalidArgumentError(f"{model.name}: has no {kind} {name!r}; it has {there}")


def checked_inputs(model: OnnxModel, feed: Mapping[str, npt.ArrayLike], device: Device) -> dict[str, Any]:
    """The inputs as a model's program takes them: arrays of the host, and what lies on the device.

    Raises:
        InvalidArgumentError: when one is missing, unknown, or does not fit.
    """
    if not isinstance(feed, Mapping):
        raise InvalidArgumentError(f"{model.name}: run takes the inputs as a mapping by name; got {feed!r}")
    wanted = {info.name: info for info in model.inputs}
    for name in feed:
        if name not in wanted:
            check_name(model, name, "input", model.inputs)
    given = run_inputs(feed, device)
    checked: dict[str, Any] = {}
    symbols: dict[str, int] = {}
    for name, info in wanted.items():
        if name not in feed and info.proto.type.HasField("optional_type"):
            checked[name] = None
        elif name not in feed:
            raise InvalidArgumentError(f"{model.name}: the input {name!r} is missing")
        else:
            checked[name] = _checked_input(f"{model.name}: the input {info.name!r}", info, given[name], symbols)
    return checked


def _checked_input(where: str, info: ValueInfo, given: Any, symbols: dict[str, int]) -> Any:
    if info.element is None:
        return given
    if isinstance(given, DeviceValue):
        return _checked_device_value(where, info, given, symbols)
    wanted = numpy_type(info.element)
    array = _as_array(where, given, wanted)
    if wanted.kind == "O" or array.dtype.kind in _TEXTS:
        if info.element != TensorProto.STRING or array.dtype.kind not in _TEXTS:
            raise InvalidArgumentError(f"{where} must be of {element_name(info.element)}; got {array.dtype}")
        array = _texts(where, array)
    elif array.dtype.newbyteorder("=") != wanted:
        raise InvalidArgumentError(f"{where} must be of the dtype {wanted}; got {array.dtype}")
    else:
        array = array.astype(wanted, copy=False)
    if info.shape is not None:
        _check_shape(where, info.shape, array.shape, symbols)
    return array


def _as_array(where: str, given: Any, wanted: np.dtype[Any]) -> Array:
    """What is given as an array; numbers and (nested) lists of them, or of arrays, take the type that is wanted."""
    is_typed = hasattr(given, "dtype") or hasattr(given, "__array__") or hasattr(given, "__array_interface__")
    try:
        if is_typed or wanted.kind == "O":
            return np.asarray(given)
        return np.asarray(given).astype(wanted) if wanted.kind == "V" else np.asarray(given, wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise InvalidArgumentError(f"{where} is not an array of the dtype {wanted}: {error}") from error


def _texts(where: str, array: Array) -> Array:
    """Texts; bytes become those that UTF-8 has for them, and everything else what Python calls it."""
    if array.dtype.kind == "U" or all(isinstance(item, str) for item in array.flat):
        return array
    try:
        found = [item.decode() if isinstance(item, bytes) else str(item) for item in array.flat]
    except UnicodeDecodeError as error:
        raise InvalidArgumentError(f"{where} has bytes that are no text: {error}") from error
    return np.array(found, object).reshape(array.shape)


def _checked_device_value(where: str, info: ValueInfo, given: DeviceValue, symbols: dict[str, int]) -> DeviceValue:
    """An array on the device: of UINT8 it may be BOOL, and of one element it may have no dimension."""
    if info.element not in DATA_TYPES or DATA_TYPES[info.element] is not given.on_device.data_type:
        wanted = element_name(info.element or 0)
        raise InvalidArgumentError(f"{where} must be of {wanted}; got {given.on_device.data_type.name}")
    is_scalar = info.shape == () and given.shape == (1,)
    checked = given
    if is_scalar or given.element != info.element:
        checked = DeviceValue(info.element, () if is_scalar else given.shape, given.on_device)
    if info.shape is not None:
        _check_shape(where, info.shape, checked.shape, symbols)
    return checked


def _check_shape(
    where: str, wanted: tuple[int | str | None, ...], shape: tuple[int, ...], symbols: dict[str, int]
) -> None:
    fits = len(shape) == len(wanted) or (not wanted and math.prod(shape) == 1)  # as ONNX Runtime has it
    for got, size in zip(shape, wanted, strict=False):
        if isinstance(size, int):
            fits = fits and got == size
        elif isinstance(size, str):
            symbols.setdefault(size, got)
    if not fits:
        raise InvalidArgumentError(f"{where} must have the shape {list(wanted)}; got {list(shape)}")

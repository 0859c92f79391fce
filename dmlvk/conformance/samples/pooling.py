"""Samples of operators with windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dmlvk.conformance.samples import Sample, Types, sample, sampler
from dmlvk.datatypes import DataType
from dmlvk.operators import OPERATORS
from dmlvk.operators.pooling import pooled_sizes
from dmlvk.operators.shapes import Draft
from dmlvk.tensors import TensorDesc

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class _DrawnWindows:
    name: str  # what is special about it
    sizes: tuple[int, ...]  # of the input
    window: tuple[int, ...]  # along each spatial axis; so are the others
    strides: tuple[int, ...]
    start: tuple[int, ...]
    end: tuple[int, ...]
    dilations: tuple[int, ...] | None = None


_GEOMETRIES = (
    _DrawnWindows("3 by 3 in steps of 2", (1, 3, 9, 11), (3, 3), (2, 2), (1, 1), (1, 1)),
    _DrawnWindows("windows of padding only", (1, 3, 3, 4), (2, 3), (1, 2), (3, 1), (2, 4)),
    _DrawnWindows("three axes", (2, 3, 4, 5, 6), (2, 3, 2), (1, 2, 2), (1, 0, 1), (0, 1, 1)),
    _DrawnWindows("whole planes", (1, 3, 17, 17), (17, 17), (1, 1), (0, 0), (0, 0)),
    _DrawnWindows("dilated", (1, 2, 9, 12), (3, 2), (1, 2), (2, 1), (3, 0), (2, 5)),
    _DrawnWindows("three axes, dilated", (1, 2, 5, 4, 7), (2, 2, 3), (2, 1, 1), (0, 1, 2), (1, 1, 0), (3, 2, 2)),
)
_OVERLAPPING = _DrawnWindows("7 by 8, overlapping", (1, 3, 12, 15), (7, 8), (1, 2), (3, 0), (1, 4))
_LARGE = _DrawnWindows("2 by 2, large", (1, 6, 56, 58), (2, 2), (2, 2), (0, 0), (0, 0))


def _members(operator: str, windows: _DrawnWindows) -> dict[str, tuple[int, ...]]:
    members = {"strides": windows.strides, "window_size": windows.window, "start_padding": windows.start}
    members["end_padding"] = windows.end
    if any(field.attribute == "dilations" for field in OPERATORS[operator].fields):
        members["dilations"] = windows.dilations or (1,) * len(windows.window)
    return members


def _values(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    """Each channel has values of another kind: ordinary ones, special ones, and ones of all magnitudes."""
    values = np.empty(sizes, data_type.numpy_dtype)
    for channel in range(sizes[1]):
        make = (_special_values, _ordinary_values, _wide_values)[channel % 3]
        values[:, channel] = make(data_type, (sizes[0], *sizes[2:]), random)
    return values


def _ordinary_values(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    dtype = data_type.numpy_dtype
    if dtype.kind == "f":
        return (random.standard_normal(sizes) * 8).astype(dtype)
    limits = np.iinfo(dtype)
    return random.integers(limits.min, limits.max, sizes, dtype, endpoint=True)


def _special_values(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    """Few different ones, so that many are equal; of floats zeros, NaN, infinities, denormals, and far magnitudes."""
    dtype = data_type.numpy_dtype
    if dtype.kind != "f":
        limits = np.iinfo(dtype)
        return random.choice(np.array([limits.min, limits.min + 1, 0, 1, limits.max], dtype), sizes)
    limits_f = np.finfo(dtype)
    tiny, large = float(limits_f.smallest_subnormal), float(limits_f.max)
    numbers = [0.0, -0.0, 1.0, -1.0, tiny, -3 * tiny, large, -large, np.nan, np.inf, -np.inf, float(limits_f.tiny)]
    weights = np.array([6, 6, 1, 2, 2, 2, 1, 1, 4, 0.3, 1, 1])
    values = random.choice(np.array(numbers, np.float64), sizes, p=weights / weights.sum())
    return values.astype(dtype)


def _wide_values(data_type: DataType, sizes: tuple[int, ...], random: np.random.Generator) -> Array:
    """Floats of all magnitudes, in stretches of similar ones that nearly cancel."""
    dtype = data_type.numpy_dtype
    if dtype.kind != "f":
        return _ordinary_values(data_type, sizes, random)
    lowest, highest = (-130, 127) if dtype == np.float32 else (-24, 15)
    exponents = np.repeat(random.integers(lowest, highest + 1, sizes[:-1]), sizes[-1]).reshape(sizes)
    numbers = random.choice(np.array([-1.0, 1.0]), sizes) * (1 + random.random(sizes) * 2.0**-6)
    return np.ldexp(numbers, exponents.astype(np.int32)).astype(dtype)


def _geometries(operator: str, data_type: DataType) -> list[_DrawnWindows]:
    """All that an operator can do with FLOAT32, a few of them with other types."""
    if any(field.attribute == "dilations" for field in OPERATORS[operator].fields):
        return [windows for windows in _GEOMETRIES if data_type is DataType.FLOAT32 or windows.dilations is not None]
    return [w for w in _GEOMETRIES if w.dilations is None][: 4 if data_type is DataType.FLOAT32 else 2]


def _max_sampler(operator: str) -> None:
    @sampler(operator)
    def samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
        data_type = types["input_tensor"]
        for windows in _geometries(operator, data_type):
            inputs = {"input_tensor": _values(data_type, windows.sizes, random)}
            yield sample(windows.name, operator, types, inputs, **_members(operator, windows))
        if "output_indices_tensor" in types and data_type is DataType.FLOAT16:
            inputs = {"input_tensor": _values(data_type, _GEOMETRIES[0].sizes, random)}
            members = _members(operator, _GEOMETRIES[0])
            yield sample("no indices", operator, types, inputs, output_indices_tensor=None, **members)


def _sum_sampler(operator: str, *variations: dict[str, Any]) -> None:
    @sampler(operator)
    def samples(types: Types, random: np.random.Generator) -> Iterator[Sample]:
        data_type = types["input_tensor"]
        for number, windows in enumerate((*_geometries(operator, data_type), _LARGE)):
            more = variations[number % len(variations)]
            words = ", ".join(f"{member} {value}" for member, value in more.items())
            inputs = {"input_tensor": _values(data_type, windows.sizes, random)}
            yield sample(f"{windows.name}, {words}", operator, types, inputs, **_members(operator, windows), **more)


for _name in ("MAX_POOLING", "MAX_POOLING1", "MAX_POOLING2"):
    _max_sampler(_name)
for _name in ("AVERAGE_POOLING", "AVERAGE_POOLING1"):
    _sum_sampler(_name, {"include_padding": False}, {"include_padding": True})


def _pooled(windows: _DrawnWindows, members: Mapping[str, Any]) -> tuple[int, ...]:
    given = {"input_tensor": TensorDesc(DataType.FLOAT32, windows.sizes), "dimension_count": len(windows.window)}
    return tuple(pooled_sizes(Draft("POOLING", {**given, **members}))["output_tensor"])


@sampler("AVERAGE_POOLING_GRAD")
def average_pooling_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Gradients of ordinary numbers, special ones and ones of all magnitudes, with padding counted and not."""
    data_type = types["input_gradient_tensor"]
    for windows in (*_geometries("AVERAGE_POOLING", data_type), _LARGE):
        members: dict[str, Any] = {**_members("AVERAGE_POOLING", windows), "output_gradient_tensor": windows.sizes}
        for include_padding, words in ((False, "padding does not count"), (True, "padding counts")):
            inputs = {"input_gradient_tensor": _values(data_type, _pooled(windows, members), random)}
            members["include_padding"] = include_padding
            yield sample(f"{windows.name}, {words}", "AVERAGE_POOLING_GRAD", types, inputs, **members)


@sampler("MAX_POOLING_GRAD")
def max_pooling_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Values among which many are equal, special ones and others; gradients that nearly cancel, and special ones."""
    data_type = types["input_gradient_tensor"]
    for windows in (*_geometries("MAX_POOLING2", data_type)[-4:], _OVERLAPPING):
        members = _members("MAX_POOLING2", windows)
        inputs = {
            "input_tensor": _values(data_type, windows.sizes, random),
            "input_gradient_tensor": _values(data_type, _pooled(windows, members), random)[:, ::-1],
        }
        yield sample(windows.name, "MAX_POOLING_GRAD", types, inputs, **members)


for _name in ("LP_POOLING", "LP_POOLING1"):
    _sum_sampler(_name, {"p": 2}, {"p": 3}, {"p": 1}, {"p": 1000})


@sampler("MAX_UNPOOLING")
def max_unpooling(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Indices among which some are equal, and some lie outside."""
    data_type, index_type = types["input_tensor"], types["indices_tensor"]
    sizes, output = (2, 3, 3, 5), (2, 3, 5, 7)
    indices = random.integers(0, 220, sizes).astype(index_type.numpy_dtype)
    indices[0, 0, 0, :2] = np.iinfo(index_type.numpy_dtype).max, 210
    if index_type is DataType.UINT64:
        indices[0, 0, 0, 2] = 2**32 + 1
    inputs = {"input_tensor": _values(data_type, sizes, random), "indices_tensor": indices}
    yield sample("equal indices, and some outside", "MAX_UNPOOLING", types, inputs, output_tensor=output)


_RESPONSES = (((2, 7, 3, 5), True, 5, 0.3), ((1, 6, 4, 5), False, 2, 1e-4), ((1, 3, 2, 3), True, 2**32 - 1, 1e9))
"""Across channels and over planes, by an odd and an even number of neighbours, and by more than there are; Alpha."""


_QUICK_RESPONSES = (
    ((2, 11, 4, 6), True, 5, 1e-4, 0.75),
    ((2, 11, 4, 6), True, 4, 0.3, 0.5),
    ((1, 19, 3, 4), True, 3, 2.0, 0.25),
)
"""Across channels whose planes are whole vectors; Alpha and Beta."""


def _response(types: Types, numbers: tuple[bool, int, float, float], inputs: Mapping[str, Array]) -> Sample:
    """Of whether it is across channels, neighbours, Alpha and Beta."""
    operator = f"LOCAL_RESPONSE_NORMALIZATION{'_GRAD' if len(inputs) > 1 else ''}"
    members = dict(zip(("cross_channel", "local_size", "alpha", "beta"), numbers, strict=True))
    words = f"{numbers[1]}, {'across channels' if numbers[0] else 'in planes'}"
    return sample(words, operator, types, inputs, bias=1.5, **members)


@sampler("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    data_type = types["input_tensor"]
    responses = (*((*response, 0.75) for response in _RESPONSES), *_QUICK_RESPONSES)
    for sizes, cross_channel, local_size, alpha, beta in responses:
        yield _response(
            types, (cross_channel, local_size, alpha, beta), {"input_tensor": _values(data_type, sizes, random)}
        )


@sampler("LOCAL_RESPONSE_NORMALIZATION_GRAD")
def local_response_normalization_grad(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Values and gradients of all magnitudes, each beside ordinary ones of the other."""
    data_type = types["input_tensor"]
    for number, (sizes, cross_channel, local_size, alpha) in enumerate((*_RESPONSES, ((2, 5, 6, 4), False, 3, 0.5))):
        is_ordinary = number == len(_RESPONSES)
        make = _ordinary_values if is_ordinary else _values
        inputs = {
            "input_tensor": make(data_type, sizes, random),
            "input_gradient_tensor": make(data_type, sizes, random)[:, ::-1],
        }
        beta = (0.75, 0.5, 1.0, -0.25)[number]
        yield _response(types, (cross_channel, local_size, alpha, beta), inputs)

"""What each operator is fed with to test its values: made from the declarations, for all combinations of data types."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance import patterns, powers
from dmlvk.conformance.quantization import QUANTIZING, quantization_inputs
from dmlvk.conformance.rows import RowShape, row_inputs
from dmlvk.datatypes import DataType
from dmlvk.kernels.special_values import SPECIAL_VALUES
from dmlvk.kernels.variants import supported_operands
from dmlvk.operators import OPERATORS, Field, OperatorDesc, accepts_data_type

Array = npt.NDArray[Any]

BLOCK = 2**22  # Elements that are computed by one dispatch

PATTERNS = 2**24  # Patterns of a type of more than 16 bits that are tried

SWEPT = {"ELEMENT_WISE_IF", "ELEMENT_WISE_LOGICAL_GREATER_THAN", "ELEMENT_WISE_SIGN", "ELEMENT_WISE_THRESHOLD"}
"""Operators that stand for many: the tests try their wider types with 2**24 patterns, the others with fewer."""


@dataclasses.dataclass(frozen=True)
class ValueCase:
    desc_class: type[OperatorDesc]  # its description
    # by tensor member (Python names), in order; optional tensors that are absent have none
    data_types: tuple[tuple[str, DataType], ...]

    @property
    def name(self) -> str:
        """``sign-float32``, ``logical_greater_than-int8-uint32``, ``quantize_linear-int32-int8-without_zero_point``.

        The data type of each tensor that may have one of its own, inputs first; a single one that all of them have.
        """
        types = dict(self.data_types)
        chosen = [types[member].name.lower() for member in independent_tensors(self.desc_class) if member in types]
        absent = [member.removesuffix("_tensor") for member in _tensor_members(self.desc_class) if member not in types]
        short = self.desc_class.operator_name.lower().removeprefix("element_wise_")
        return "-".join(
            [short, *(chosen[:1] if len(set(chosen)) == 1 else chosen), *(f"without_{member}" for member in absent)]
        )

    @property
    def lacks_tensors(self) -> bool:
        """Whether an optional tensor is absent."""
        return len(self.data_types) < len(_tensor_members(self.desc_class))

    def tensors(self, kind: str) -> list[tuple[Field, DataType]]:
        """The ``"input"`` or ``"output"`` tensors that are given, with their data types, in order."""
        types = dict(self.data_types)
        return [
            (field, types[field.attribute])
            for field in self.desc_class.fields
            if field.kind == kind and field.attribute in types
        ]


def _tensor_members(desc_class: type[OperatorDesc]) -> list[str]:
    return [
        field.attribute
        for kind in ("input", "output")
        for field in desc_class.fields
        if field.kind == kind and field.type == "tensor"
    ]


def independent_tensors(desc_class: type[OperatorDesc]) -> list[str]:
    """The tensor members whose data types decide all others: of tensors that must agree the first required one."""
    optional = {field.attribute for field in desc_class.fields if field.optional}
    following = {rule.member for rule in desc_class.declaration.data_type_rules}
    for group in desc_class.same_data_type:
        first = next(member for member in group if member not in optional)
        following.update(member for member in group if member != first)
    return [member for member in _tensor_members(desc_class) if member not in following]


@dataclasses.dataclass(frozen=True)
class Batch:
    """Input arrays of one dimension and equal length, and the attributes to use with them."""

    name: str  # what is special about them
    attributes: Mapping[str, Any]  # by Python name
    inputs: tuple[Array, ...]  # an array for each input tensor that is given
    sizes: tuple[int, ...] | None = None  # of the tensors, where they matter to the results; else ``None``

    @property
    def size(self) -> int:
        return int(self.inputs[0].size)


def value_cases() -> list[ValueCase]:
    """Every regular operator with every combination of data types and of optional tensors that it supports."""
    return list(_value_cases())


@functools.cache
def _value_cases() -> tuple[ValueCase, ...]:
    return tuple(
        ValueCase(desc_class, tuple(data_types.items()))
        for desc_class in OPERATORS.values()
        if desc_class.declaration.is_regular
        for data_types, _ in supported_operands(desc_class)
    )


def batches(case: ValueCase, total: int = PATTERNS, most_attribute_sets: int | None = None) -> Iterator[Batch]:
    """The inputs of a case.

    One operand of up to 16 bits: every pattern, with every set of attributes (and with those of sweeps, where shaders
    have ways of their own for several values of an attribute). Two operands of 8 bits: every pair. Two of 16 bits:
    every pattern with each special one on either side, and pairs that lie close. Wider types: all special ones with
    each other, with every set of attributes, then ``total`` patterns, without optional attributes and with. At last,
    for operators whose attributes are numbers that are computed with, such attributes of all magnitudes at random.

    Operators between numbers and their quantized form have inputs of their own (:mod:`dmlvk.conformance.quantization`),
    and so have those along axes (:mod:`dmlvk.conformance.rows`).

    Args:
        total: how many patterns of wider types; and the largest number of pairs of narrow ones.
        most_attribute_sets: how many sets of attributes to use; ``None``: all.
    """
    random = np.random.default_rng(_SEED)
    inputs = case.tensors("input")
    if case.desc_class.operator_name in QUANTIZING:
        for name, made in quantization_inputs(case.desc_class.operator_name, case.data_types, total, random):
            yield Batch(name, {}, tuple(made[field.attribute] for field, _ in inputs))
        return
    if case.desc_class.operator_name == "ELEMENT_WISE_POW":
        yield from _powers(case.desc_class, [data_type for _, data_type in inputs], total, most_attribute_sets, random)
        return
    if case.desc_class.declaration.pattern == "rows":
        yield from _along_axes(case, total)
        return
    selectors = [i for i, (field, _) in enumerate(inputs) if _is_selector(case.desc_class, field)]
    compared = [i for i in range(len(inputs)) if i not in selectors]
    data_type = inputs[compared[0]][1]
    sets = attribute_sets(case.desc_class, data_type)
    if not any(field.fusable for field in case.desc_class.fields):  # each fused activation is a function of its own
        sets = sets[:most_attribute_sets]
    sweeps = [
        attributes for optional in (False, True) for attributes in sweep_sets(case.desc_class, data_type, optional)
    ]
    _, special_values = SPECIAL_VALUES.get(case.desc_class.operator_name, ("", ()))
    if data_type.size_in_bits <= 16 and len(special_values) > 1:
        sets, sweeps = [*sets, *sweeps], []
    make = _one_operand if len(compared) == 1 else _two_operands
    for name, attributes, operands in make(data_type, sets, sweeps, total, random):
        arrays: list[Array] = [np.empty(0)] * len(inputs)
        for i, operand in zip(compared, operands, strict=True):
            arrays[i] = operand.view(data_type.numpy_dtype)
        for i in selectors:
            selector_type = inputs[i][1]
            arrays[i] = patterns.selector_patterns(selector_type, operands[0].size, random).view(
                selector_type.numpy_dtype
            )
        yield Batch(name, attributes, tuple(arrays))
    yield from _searched(case, data_type, total, np.random.default_rng(20261124))


SEARCHED_SETS = 16


def _searched(case: ValueCase, data_type: DataType, total: int, random: np.random.Generator) -> Iterator[Batch]:
    """Attributes of every magnitude: what is promised holds for all of them, and fails first where they are unusual.

    Half of the operands are any; the others lie so that their product or quotient with an attribute is moderate,
    where functions neither saturate nor are what their argument is.
    """
    fields = [field for field in case.desc_class.fields if field.kind == "attribute"]
    names = [field.attribute for field in fields if field.type == "float" and field.converted_to is None]
    pairs = [field.attribute for field in fields if field.type == "scale_bias"]
    if not (names or pairs) or data_type not in (DataType.FLOAT32, DataType.FLOAT16) or len(case.tensors("input")) > 1:
        return
    neutral = attribute_sets(case.desc_class, data_type)[0]
    largest = 120 if data_type is DataType.FLOAT32 else 14
    count = max(min(total // SEARCHED_SETS, BLOCK), 2**10) // 2
    kind = data_type.numpy_dtype
    bits = np.dtype(f"u{kind.itemsize}")
    for number in range(SEARCHED_SETS):
        exponents = random.uniform(-largest, largest, len(names))
        signs = random.choice((-1.0, 1.0), len(names))
        chosen: dict[str, Any] = {
            name: float(np.float32(s * 2.0**e)) for name, s, e in zip(names, signs, exponents, strict=True)
        }
        factors = (1.0, *(made for value in chosen.values() for made in (value, 1 / value)))
        scale = factors[number % len(factors)]
        moderate = random.choice((-1.0, 1.0), count) * 2.0 ** random.uniform(-14, 7.4, count) * scale
        for name in pairs if not names or number % 4 > 1 else ():
            pair = _scale_and_bias(largest, random)
            chosen[name] = pair
            # Every second set without the bias: x * Scale is moderate, and mostly either it or the bias is what counts.
            with np.errstate(over="ignore", under="ignore"):
                moderate = (moderate - (pair.bias if number % 2 else 0.0)) / pair.scale
        ends = np.finfo(kind)
        with np.errstate(under="ignore"):
            near = np.clip(moderate, float(ends.min), float(ends.max)).astype(kind)
        anything = random.integers(0, 2 ** (8 * kind.itemsize), count, bits).view(kind)
        yield Batch(f"attributes of any size, {number}", {**neutral, **chosen}, (np.concatenate([near, anything]),))


def _scale_and_bias(largest: float, random: np.random.Generator) -> dml.ScaleBias:
    """A scale of any magnitude, and a bias of any or of the magnitude of a function's usual arguments."""
    bias_exponent = random.uniform(-largest, largest) if random.integers(2) else random.uniform(-10, 7)
    exponents = (random.uniform(-largest, largest), bias_exponent)
    scale, bias = (float(np.float32(random.choice((-1.0, 1.0)) * 2.0**exponent)) for exponent in exponents)
    return dml.ScaleBias(scale, bias)


def _powers(
    desc_class: type[OperatorDesc],
    types: list[DataType],
    total: int,
    most_sets: int | None,
    random: np.random.Generator,
) -> Iterator[Batch]:
    """Special pairs with every set of attributes; every pair of 8 bits, or random ones with and without ScaleBias."""
    for attributes in attribute_sets(desc_class, types[0])[:most_sets]:
        yield Batch("special pairs", attributes, powers.special_pairs(types[0], types[1]))
    for optional in (False, True):
        attributes = sweep_sets(desc_class, types[0], optional)[0]
        if max(data_type.size_in_bits for data_type in types) == 8:
            yield Batch("every pair", attributes, powers.all_pairs(types[0], types[1]))
            continue
        count = total // 4 if optional or max(data_type.size_in_bits for data_type in types) < 32 else total
        for name, pairs in powers.random_pairs(types[0], types[1], count, random):
            yield Batch(name, attributes, pairs)


_SEED = 20240229


@functools.lru_cache(maxsize=4)  # both data types, with axes and without: at most 200 MB
def _row_inputs(data_type: DataType, names_axes: bool, total: int) -> list[tuple[str, RowShape, Array]]:
    """What operators along axes have in common: many short rows, which take longer to be made than to be computed."""
    made = list(row_inputs(data_type, names_axes, total, np.random.default_rng(_SEED)))
    for _, _, values in made:
        values.flags.writeable = False
    return made


def _along_axes(case: ValueCase, total: int) -> Iterator[Batch]:
    names_axes = any(field.axes_of is not None for field in case.desc_class.fields)
    for name, shape, values in _row_inputs(case.tensors("input")[0][1], names_axes, total):
        yield Batch(name, axes_attributes(case.desc_class, shape.axes or ()), (values.reshape(-1),), shape.sizes)


def axes_attributes(desc_class: type[OperatorDesc], axes: Sequence[int]) -> dict[str, Any]:
    """The attributes that name these axes; none for an operator whose rows lie along the last axis."""
    for field in desc_class.fields:
        if field.axes_of is not None and field.counted_by is not None:
            return {field.counted_by: len(axes), field.attribute: tuple(axes)}
    return {}


def _is_selector(desc_class: type[OperatorDesc], field: Field) -> bool:
    """Whether an input has a data type of its own: such inputs select, the others are computed with."""
    groups = desc_class.same_data_type
    return bool(groups) and all(field.attribute not in group for group in groups)


_Sets = list[dict[str, Any]]
_Made = Iterator[tuple[str, Mapping[str, Any], list[Array]]]


def _one_operand(data_type: DataType, sets: _Sets, sweeps: _Sets, total: int, random: np.random.Generator) -> _Made:
    if data_type.size_in_bits <= 16:
        everything = patterns.every_pattern(data_type)
        for attributes in sets:
            yield "every pattern", attributes, [everything]
        return
    landmarks = [patterns.landmark_patterns(data_type), patterns.tie_patterns(data_type, random)]
    landmarks.append(patterns.short_patterns(data_type, 2**13, random))
    for attributes in sets:
        yield "landmarks", attributes, [np.concatenate(landmarks)]
    for first in range(0, len(sweeps), _SETS_OF_A_SWEEP):
        for number, (start, count) in enumerate(patterns.blocks(total, min(BLOCK, total // _SETS_OF_A_SWEEP))):
            attributes = sweeps[first + number % _SETS_OF_A_SWEEP]
            yield f"sweep from {start}", attributes, [patterns.sweep(data_type, start, count)]


def _two_operands(data_type: DataType, sets: _Sets, sweeps: _Sets, total: int, random: np.random.Generator) -> _Made:
    everything = patterns.every_pattern(data_type) if data_type.size_in_bits <= 16 else np.empty(0)
    special = patterns.special_patterns(data_type)
    pairs_of_a_set = max(total // len(sets), 2**18)
    for attributes in sets:
        if data_type.size_in_bits == 8:
            yield "every pair", attributes, list(patterns.all_pairs(everything, everything))
        elif data_type.size_in_bits == 16:
            pairs = patterns.all_pairs(special[:: -(-special.size * 2**16 // pairs_of_a_set)], everything)
            yield "special with every pattern", attributes, list(pairs)
            yield "every pattern with special", attributes, list(reversed(pairs))
            first = random.permutation(np.resize(everything, min(pairs_of_a_set, 2**20)))
            yield "close pairs", attributes, [first, patterns.partners(first, data_type, random)]
        else:
            pairs = patterns.all_pairs(patterns.landmark_patterns(data_type), special)
            yield "landmarks with special", attributes, list(pairs)
    if data_type.size_in_bits <= 16:
        return
    for number, (start, count) in enumerate(patterns.blocks(total, BLOCK)):
        first = patterns.sweep(data_type, start, count)
        attributes = sweeps[number % len(sweeps)]
        yield f"close pairs from {start}", attributes, [first, patterns.partners(first, data_type, random)]


_INFINITY, _NAN = math.inf, math.nan

FLOATS = (
    -_INFINITY, 0.0, -0.0, 0.5, 1.0, -1.0, -1.5, _NAN, _INFINITY, 1e-40, -1e-40, 2.0**-149, 2.0**-126, -(2.0**-25),
    2.0**-24, 65504.0, 65519.996, 65520.0, -65520.0, 126.99999, 127.5, 255.0, 256.0, -128.0, -129.0, 32767.5, 65535.5,
    2147483520.0, 2147483648.0, -2147483648.0, 4294967040.0, 4294967296.0, 3e38, -3e38, 0.1,
)  # fmt: skip
"""Values of FLOAT attributes: the ends of every data type, what rounds and what saturates, and the special values."""

FACTORS = (
    1.0, 0.0, -0.0, 0.5, 2.0, -1.0, 1.6732632, -0.2, 3.0, 1 / 3, -2.5, 7.3, 100.0, -0.01, 1 - 2.0**-24, 1 + 2.0**-23,
    _INFINITY, -_INFINITY, _NAN, 1e-40, -1e-40, 2.0**-126, -3e-38, 1e-20, -1e-10, 1e10, -1e20, 3e38, -3.4028235e38,
)  # fmt: skip
"""Values of FLOAT attributes that are computed with: powers of two and others, the ends of the range, special ones."""

INTEGER_EDGES = (
    0.0, 0.5, -0.5, -0.0, 1e-40, 1.5, -2.0, 126.99999, 127.0, -127.5, 128.0, 255.5, 32767.5, 65535.0, -65535.5,
    8388607.5, 16777216.0, 2147483520.0, 2147483648.0, -2147483648.0, 4294967040.0, 4294967296.0, -1e20,
    _INFINITY, -_INFINITY, _NAN,
)  # fmt: skip
"""Values of FLOAT attributes that integers are compared with: next to the ends of every type, with fractions."""

SCALES_AND_BIASES = (
    (1.0, 0.0), (-1.0, -0.0), (1.0, 1.0), (0.5, 0.0), (1.5, 0.25), (3.0, -1.0), (1 / 3, 1.0), (0.1, -7.7),
    (-0.7, 100.3),
    (1 + 2.0**-23, -1.0), (1 + 2.0**-23, -1 - 2.0**-23), (1 - 2.0**-24, 2.0**-30), (1 - 2.0**-24, 1 - 2.0**-24),
    (1.0, 2.0**-11), (1.0, 2.0**-12), (1.0, 2.0**-24), (1.0, -(2.0**-25)), (1.0, 2.0**24), (1.0, -(2.0**24)),
    (2.0**-24, 1.0), (2.0**-10, 2.0**-24), (2.0**-126, 0.0), (2.0**-126, -0.0), (2.0**-100, 2.0**-126), (1.0, 2e-38),
    (-(2.0**-126), 1e-40), (1e-45, 5.0), (-1e-40, -0.0), (1.0, -1e-45), (2.0**127, 0.0), (3.4e38, -3.4e38),
    (2.0, -3.4e38),
    (0.0, 0.0), (-0.0, -0.0), (0.0, -0.0), (0.0, 3.5), (255.0, 128.5), (1 / 256, -0.5), (2.0**31, -(2.0**31)),
    (2.0**-31, 0.99999994), (2.0**-63, 0.5), (2.0**-64, 1.0), (-(2.0**40), 1e20), (1.0, -2147483648.0),
    (-1.0, 4294967296.0),
    (32768.0, 1.0), (_INFINITY, 0.0), (-_INFINITY, _INFINITY), (_INFINITY, 1.0), (1.0, _INFINITY), (1.0, -_INFINITY),
    (0.0, -_INFINITY), (_NAN, 0.0), (1.0, _NAN),
    # Ties that only the bias makes, from 24 to 46 bits below the product (see patterns.tie_patterns).
    *((1 + 2.0**-k, sign * 2.0 ** -(23 + k)) for k in (1, 7, 8, 9, 10, 15, 23) for sign in (-1, 1)),
    *((1 + 2.0**-k, sign * 2.0 ** -(10 + k)) for k in (1, 5, 9) for sign in (-1, 1)),
)  # fmt: skip
"""Scale and Bias: ties, cancellation, the edges of denormals and of overflow, and the special values."""


def attribute_sets(desc_class: type[OperatorDesc], data_type: DataType) -> list[dict[str, Any]]:
    """Values for an operator's attributes; one empty set if it has none.

    First those with which results differ widely, the very first ones without what is optional, or with usual values;
    then each attribute varied alone, and all together.
    """
    values = {
        field.attribute: _attribute_values(field, data_type)
        for field in desc_class.fields
        if field.kind == "attribute" and accepts_data_type(field, data_type)
    }
    neutral = {attribute: choices[0] for attribute, choices in values.items()}
    sets = [neutral]
    for attribute, choices in values.items():
        sets += [{**neutral, attribute: choice} for choice in choices[1:]]
    longest = max(map(len, values.values()), default=0)
    for i in range(longest if len(values) > 1 else 0):
        sets.append(
            {
                attribute: choices[(i * (7 + 4 * n) + 1) % len(choices)]
                for n, (attribute, choices) in enumerate(values.items())
            }
        )
    if {"alpha", "beta"} <= values.keys():
        sets += [{**neutral, "alpha": scale, "beta": bias} for scale, bias in SCALES_AND_BIASES]
    if "threshold" in values and not data_type.is_float:
        sets += [{"bias": bias, "threshold": threshold} for bias in INTEGER_EDGES for threshold in INTEGER_EDGES]
    sets = [*_telling_sets(desc_class, data_type), *_interleaved(sets)]
    return list({repr(attributes): attributes for attributes in sets}.values())  # 0 and -0 are two, a NaN is one


_TELLING_FACTORS = {
    "alpha": (1.0, 1.6732632, 0.2, -2.5, 0.01),
    "beta": (0.5, 1.0, 0.5, 1 / 3, -0.7),
    "gamma": (1.0507009, 1.0, -0.5, 2.0, 0.3),
    "bias": (0.25, 2.0, -1.5, 10.0, 0.5),
    "threshold": (0.5, 1.0, 0.25, 3.0, 20.0),
    "steepness": (1.0, 2.5, 0.3, -1.7, 20.0),
    "sigmoid_input_scale": (1.0, 1.702, 0.3, -1.7, 20.0),
    # Those that have ways of their own in the shader but for 1, which is among those of sweeps, as others are.
    "exponent": (2.0, 0.5, -1.0, 3.0, -0.5, -2.0, -3.0, _INFINITY),
}
"""By member: values of FLOAT attributes that make something of most operands, those of a set in one place."""


def _telling_sets(desc_class: type[OperatorDesc], data_type: DataType) -> list[dict[str, Any]]:
    """Sets of numbers under which results differ widely; none for an operator without such attributes."""
    fields = [f for f in desc_class.fields if f.kind == "attribute" and accepts_data_type(f, data_type)]
    if not any(field.type in ("float", "scalar_union") for field in fields):
        return []
    choices = {field.attribute: _telling_values(field, data_type) for field in fields}
    count = max(len(_telling_values(field, data_type)) for field in fields if field.type in ("float", "scalar_union"))
    return [{name: values[i % len(values)] for name, values in choices.items()} for i in range(count)]


def _telling_values(field: Field, data_type: DataType) -> list[Any]:
    if field.type == "scale_bias":
        falling = -0.7 if data_type.numpy_dtype.kind != "u" else 0.7
        pairs = ((1.5, 0.25), (falling, 100.3), (1 / 3, 1.0), (1.0, -(2.0**-25)))
        return [made for pair in pairs for made in (None, dml.ScaleBias(*pair))]
    if field.attribute in ("min", "max"):
        return [pair[field.attribute == "max"] for pair in _telling_bounds(data_type, field.type == "float")]
    if field.type == "float":
        return list(_TELLING_FACTORS.get(field.attribute, FACTORS[3:8]))
    return _attribute_values(field, data_type)


def _telling_bounds(data_type: DataType, converted: bool) -> list[tuple[float, float]]:
    """Lower and upper bounds: many values are between, and others on both sides, or on one side; then special ones.

    Args:
        converted: whether bounds are FLOAT values, which may lie between integers.
    """
    if data_type.is_float:
        return [
            (-1.5, 3.0), (0.1, 65504.0), (-100.0, -1e-3), (0.5, _INFINITY), (-_INFINITY, 6.0),
            (_NAN, 3.0), (-1.5, _NAN), (3.0, -1.5),
        ]  # fmt: skip
    limits = np.iinfo(data_type.numpy_dtype)
    low, high = int(limits.min), int(limits.max)
    eighth = (high - low) // 8
    inside = [
        (low + eighth, high - 2 * eighth), (3, high // 2), (low + 3 * eighth, low + 5 * eighth), (3, high),
        (low, high // 5 * 2),
    ]  # fmt: skip
    if not converted:
        return [*inside, (0, high // 3), (low + 1, high - 1), (5, 3)]
    return [
        *((least + 0.5, most + 0.5) for least, most in inside),
        (_NAN, float(high // 3)),
        (-_INFINITY, _INFINITY),
        (5.5, 3.5),
    ]


def _attribute_values(field: Field, data_type: DataType) -> list[Any]:
    """What an attribute is tried with, the neutral value first."""
    values: list[Any]
    if field.type == "scale_bias":
        random = np.random.default_rng(5)
        pairs = [*SCALES_AND_BIASES]
        signs, exponents = random.choice((-1, 1), (12, 2)), random.uniform(-20, 20, (12, 2))
        pairs += [(scale, bias) for scale, bias in (signs * 2.0**exponents).tolist()]
        values = [dml.ScaleBias(*pair) for pair in pairs]
    elif field.type == "float":
        values = list(FLOATS if field.converted_to is not None else FACTORS)
    elif field.type == "data_type":
        values = [data_type]
    elif field.enumeration is not None:
        values = list(field.enumeration)
    elif field.fusable:
        values = [fused for name in field.fusable for fused in _usual_activations(name, data_type)]
    elif field.type == "scalar_union":
        values = list(FLOATS) if data_type.is_float else _integers(data_type)
    else:
        raise NotImplementedError(f"no test values for {field.type} {field.name}")
    return [None, *values] if field.optional else values


def _usual_activations(name: str, data_type: DataType) -> list[dml.FusedActivation]:
    kind = OPERATORS[name]
    return [dml.FusedActivation(kind, **attributes) for attributes in typical_attributes(kind, data_type)]


def _integers(data_type: DataType) -> list[int]:
    limits = np.iinfo(data_type.numpy_dtype)
    ends = [limits.min, limits.min + 1, limits.max - 1, limits.max]
    return [3, 0, 1, *(int(end) for end in ends), int(limits.max) // 2, int(limits.min) // 3]


_SETS_OF_A_SWEEP = 4


def sweep_sets(desc_class: type[OperatorDesc], data_type: DataType, optional: bool) -> list[dict[str, Any]]:
    """Four sets of attributes for wide sweeps, with the optional ones or without, under which results differ widely.

    None for an operator without optional attributes, when those are asked for.
    """
    attributes = [
        field for field in desc_class.fields if field.kind == "attribute" and accepts_data_type(field, data_type)
    ]
    if optional and not any(field.optional for field in attributes):
        return []
    pairs = ((1.5, 0.25), (1 / 3, 1.0), (-0.7, 100.3), (1 - 2.0**-24, 2.0**-30))
    return [
        {field.attribute: _sweep_value(field, data_type, i, optional, pairs[i]) for field in attributes}
        for i in range(_SETS_OF_A_SWEEP)
    ]


def _sweep_value(field: Field, data_type: DataType, i: int, optional: bool, pair: tuple[float, float]) -> Any:
    if field.optional and not optional:
        return None
    if field.type == "scale_bias":
        return dml.ScaleBias(*pair)
    if field.type == "float" and field.converted_to is None:
        return (1.0, 0.3, -1.7, 20.0)[i]
    if field.type == "float" or (field.type == "scalar_union" and data_type.is_float):
        # A lower bound is below the upper one, but for the NaN.
        upper = field.attribute == "max"
        return ((_INFINITY, 3.0, _NAN, 1e20) if upper else (-_INFINITY, _NAN, -1.5, 0.5))[i]
    choices = _attribute_values(field, data_type)
    if field.fusable:
        return choices[1 + 5 * i]
    return choices[(i + (field.attribute == "max") * 5) % len(choices)]


_TYPICAL_FLOATS = {
    "alpha": 1.6732632, "beta": 0.5, "gamma": 1.0507009, "exponent": 2.5, "min": -1.5, "max": 3.0,
    "bias": 0.25, "threshold": 0.5,
}  # fmt: skip
"""By member; 1 for all others."""

_OTHER_TYPICAL_VALUES = {
    "ACTIVATION_CELU": 1.0,
    "ACTIVATION_ELU": 1.0,
    "ACTIVATION_SOFTPLUS": 2.5,
    "ACTIVATION_SWISH": 1.702,
    "ELEMENT_WISE_CONSTANT_POW": 2.0,
}
"""By operator: another value of the attribute for whose usual values shaders have a way of their own."""


def typical_attributes(desc_class: type[OperatorDesc], data_type: DataType) -> list[dict[str, Any]]:
    """Sets of attributes as a program might use them: without the optional ones, with every member of enumerations.

    Where shaders have a way of their own for some values of an attribute: one of those, and another one.
    """
    if desc_class.declaration.pattern == "rows":
        return [axes_attributes(desc_class, (0,))]
    values: dict[str, list[Any]] = {}
    for field in desc_class.fields:
        if field.kind != "attribute":
            continue
        if field.optional:
            values[field.attribute] = [None]
        elif field.type == "float" or (field.type == "scalar_union" and data_type.is_float):
            values[field.attribute] = [_TYPICAL_FLOATS.get(field.attribute, 1.0)]
            if field.attribute == SPECIAL_VALUES.get(desc_class.operator_name, ("",))[0]:
                values[field.attribute].append(_OTHER_TYPICAL_VALUES[desc_class.operator_name])
        elif field.enumeration is not None:
            values[field.attribute] = list(field.enumeration)
        else:
            values[field.attribute] = _attribute_values(field, data_type)[:1]
    return [dict(zip(values, chosen, strict=True)) for chosen in itertools.product(*values.values())]


def _interleaved(sets: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same sets in an order in which the first few are of all kinds."""
    step = 17
    while math.gcd(step, len(sets)) > 1:
        step += 1
    return [sets[i * step % len(sets)] for i in range(len(sets))]

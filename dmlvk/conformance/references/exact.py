"""What the exact operators' results must be: logic, bits, signs, rounding to integers, bounds and gradients.

Written otherwise than the shaders: floats are widened to float64 and compared and rounded there as numbers; bits are
handled byte by byte.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.references.registry import reference
from dmlvk.conformance.references.rounding import float_format, widened
from dmlvk.conformance.references.scaling import float_bound, integer_bound, prescaled

Array = npt.NDArray[Any]


def numbers_of(x: Array) -> Array:
    """Floats as float64, integers as they are."""
    return widened(x) if x.dtype.kind == "f" else x


def _truth(condition: Array, desc: dml.OperatorDesc) -> Array:
    return condition.astype(desc.output_type.numpy_dtype)


@reference("ELEMENT_WISE_LOGICAL_EQUALS")
def equals(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """NumPy's comparison with NaN is false."""
    return _truth(numbers_of(a) == numbers_of(b), desc)


@reference("ELEMENT_WISE_LOGICAL_GREATER_THAN")
def greater(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """In float64 or as integers."""
    return _truth(numbers_of(a) > numbers_of(b), desc)


@reference("ELEMENT_WISE_LOGICAL_GREATER_THAN_OR_EQUAL")
def greater_or_equal(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """In float64 or as integers."""
    return _truth(numbers_of(a) >= numbers_of(b), desc)


@reference("ELEMENT_WISE_LOGICAL_LESS_THAN")
def less(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """In float64 or as integers."""
    return _truth(numbers_of(a) < numbers_of(b), desc)


@reference("ELEMENT_WISE_LOGICAL_LESS_THAN_OR_EQUAL")
def less_or_equal(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """In float64 or as integers."""
    return _truth(numbers_of(a) <= numbers_of(b), desc)


@reference("ELEMENT_WISE_LOGICAL_AND")
def logical_and(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """NumPy's truth of integers."""
    return _truth(np.logical_and(a, b), desc)


@reference("ELEMENT_WISE_LOGICAL_OR")
def logical_or(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """NumPy's truth of integers."""
    return _truth(np.logical_or(a, b), desc)


@reference("ELEMENT_WISE_LOGICAL_XOR")
def logical_xor(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """NumPy's truth of integers."""
    return _truth(np.logical_xor(a, b), desc)


@reference("ELEMENT_WISE_LOGICAL_NOT")
def logical_not(desc: dml.OperatorDesc, x: Array) -> Array:
    """NumPy's truth of integers."""
    return _truth(np.logical_not(x), desc)


@reference("ELEMENT_WISE_IS_NAN")
def is_nan(desc: dml.OperatorDesc, x: Array) -> Array:
    """In float64."""
    return _truth(np.isnan(widened(x)), desc)


@reference("ELEMENT_WISE_IS_INFINITY")
def is_infinity(desc: dml.ElementWiseIsInfinity, x: Array) -> Array:
    """In float64; a mode for each sign."""
    wanted = {
        dml.IsInfinityMode.EITHER: (np.inf, -np.inf),
        dml.IsInfinityMode.POSITIVE: (np.inf,),
        dml.IsInfinityMode.NEGATIVE: (-np.inf,),
    }[desc.infinity_mode]
    return _truth(np.isin(widened(x), wanted), desc)


def _bytes(x: Array) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


@reference("ELEMENT_WISE_BIT_AND")
def bit_and(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    return (_bytes(a) & _bytes(b)).view(a.dtype).reshape(a.shape)


@reference("ELEMENT_WISE_BIT_OR")
def bit_or(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    return (_bytes(a) | _bytes(b)).view(a.dtype).reshape(a.shape)


@reference("ELEMENT_WISE_BIT_XOR")
def bit_xor(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    return (_bytes(a) ^ _bytes(b)).view(a.dtype).reshape(a.shape)


@reference("ELEMENT_WISE_BIT_NOT")
def bit_not(desc: dml.OperatorDesc, x: Array) -> Array:
    return (np.uint8(255) - _bytes(x)).view(x.dtype).reshape(x.shape)


_BITS_OF_A_BYTE = np.array([bin(value).count("1") for value in range(256)], np.uint8)


@reference("ELEMENT_WISE_BIT_COUNT")
def bit_count(desc: dml.OperatorDesc, x: Array) -> Array:
    """From a table of the 256 bytes."""
    counts: Array = _BITS_OF_A_BYTE[_bytes(x)].reshape(-1, x.dtype.itemsize).sum(axis=1)
    return counts.astype(desc.output_type.numpy_dtype).reshape(x.shape)


@reference("ELEMENT_WISE_BIT_SHIFT_LEFT")
def bit_shift_left(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Multiplied by a power of two, which wraps; nothing is left of a shift by the width or more."""
    width = 8 * a.dtype.itemsize
    powers = np.array([2**count % 2**width for count in range(width)] + [0], a.dtype)
    shifted: Array = a * powers[np.minimum(b, width).astype(np.intp)]
    return shifted


@reference("ELEMENT_WISE_BIT_SHIFT_RIGHT")
def bit_shift_right(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    """Divided by a power of two; nothing is left of a shift by the width or more."""
    width = 8 * a.dtype.itemsize
    powers = np.array([2**count for count in range(width)] + [1], a.dtype)
    quotient = a // powers[np.minimum(b, width).astype(np.intp)]
    return np.where(b < width, quotient, 0).astype(a.dtype)


@reference("ELEMENT_WISE_ABS")
def absolute(desc: dml.ElementWiseAbs, x: Array) -> Array:
    """NumPy's abs of integers wraps; the sign byte of floats is cleared of its highest bit."""
    x = prescaled(x, desc.scale_bias)
    if x.dtype.kind != "f":
        positive: Array = np.abs(x)
        return positive
    unsigned = _bytes(x).copy().reshape(-1, x.dtype.itemsize)
    unsigned[:, -1] %= 128
    return unsigned.reshape(-1).view(x.dtype).reshape(x.shape)


@reference("ELEMENT_WISE_NEGATE")
def negate(desc: dml.OperatorDesc, x: Array) -> Array:
    """The sign byte of floats is changed; integers are subtracted from zero, which wraps."""
    if x.dtype.kind != "f":
        return np.zeros(1, x.dtype) - x
    negated = _bytes(x).copy().reshape(-1, x.dtype.itemsize)
    negated[:, -1] += 128
    return negated.reshape(-1).view(x.dtype).reshape(x.shape)


@reference("ACTIVATION_IDENTITY", "ELEMENT_WISE_IDENTITY")
def identity(desc: dml.OperatorDesc, x: Array) -> Array:
    """The same bytes, unless they are scaled."""
    return prescaled(x, getattr(desc, "scale_bias", None)).copy()


def _from_float64(numbers: Array, x: Array) -> Array:
    """Float64 numbers that the type of ``x`` holds exactly, every NaN as the canonical one."""
    target = float_format(x.dtype)
    bits = numbers.astype(x.dtype).view(target.bits_dtype)
    bits[np.isnan(numbers)] = target.canonical_nan
    return bits.view(x.dtype)


@reference("ELEMENT_WISE_CEIL")
def ceiling(desc: dml.ElementWiseCeil, x: Array) -> Array:
    """In float64."""
    x = prescaled(x, desc.scale_bias)
    with np.errstate(invalid="ignore"):  # signalling NaN
        return _from_float64(np.ceil(widened(x)), x)


@reference("ELEMENT_WISE_FLOOR")
def floor(desc: dml.ElementWiseFloor, x: Array) -> Array:
    """In float64."""
    x = prescaled(x, desc.scale_bias)
    with np.errstate(invalid="ignore"):
        return _from_float64(np.floor(widened(x)), x)


@reference("ELEMENT_WISE_ROUND")
def rounded(desc: dml.ElementWiseRound, x: Array) -> Array:
    """In float64, where adding a half to a float32 is exact or far from a tie."""
    numbers = widened(x)
    functions: dict[dml.RoundingMode, Any] = {
        dml.RoundingMode.HALVES_TO_NEAREST_EVEN: np.rint,
        dml.RoundingMode.TOWARD_ZERO: np.trunc,
        dml.RoundingMode.TOWARD_INFINITY: lambda values: np.copysign(np.floor(np.abs(values) + 0.5), values),
    }
    with np.errstate(invalid="ignore"):
        return _from_float64(functions[desc.rounding_mode](numbers), x)


@reference("ELEMENT_WISE_MAX")
def maximum(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    return larger(a, b) if a.dtype.kind == "f" else np.maximum(a, b)


@reference("ELEMENT_WISE_MIN")
def minimum(desc: dml.OperatorDesc, a: Array, b: Array) -> Array:
    return smaller(a, b) if a.dtype.kind == "f" else np.minimum(a, b)


def larger(a: Array, b: Array) -> Array:
    """The larger of two floats: of a number and NaN the number, of two NaN the canonical one, +0 above -0."""
    return _chosen(a, b, lambda x, y: x > y, lambda x, y: ~np.signbit(x) & np.signbit(y))


def smaller(a: Array, b: Array) -> Array:
    """The smaller of two floats: of a number and NaN the number, of two NaN the canonical one, -0 below +0."""
    return _chosen(a, b, lambda x, y: x < y, lambda x, y: np.signbit(x) & ~np.signbit(y))


def _chosen(a: Array, b: Array, wins: Any, zero_wins: Any) -> Array:
    target = float_format(a.dtype)
    x, y = widened(a), widened(b)
    takes_a = np.isnan(y) | wins(x, y) | ((x == 0) & (y == 0) & zero_wins(x, y))
    bits = np.where(takes_a & ~np.isnan(x), _as_bits(a), _as_bits(b))
    bits = np.where(np.isnan(x) & np.isnan(y), np.array(target.canonical_nan, target.bits_dtype), bits)
    return bits.view(target.dtype)


def _as_bits(x: Array) -> Array:
    return np.ascontiguousarray(x).view(float_format(x.dtype).bits_dtype)


def _bound(value: float, data_type: np.dtype[Any]) -> Array:
    return float_bound(value, data_type) if data_type.kind == "f" else integer_bound(value, data_type)


@reference("ELEMENT_WISE_CLIP", "ELEMENT_WISE_CLIP1")
def clip(desc: dml.ElementWiseClip | dml.ElementWiseClip1, x: Array) -> Array:
    """Smaller of x and Max, then larger of that and Min."""
    x = prescaled(x, desc.scale_bias)
    low, high = (np.broadcast_to(_bound(value, x.dtype), x.shape) for value in (desc.min, desc.max))
    return larger(smaller(x, high), low) if x.dtype.kind == "f" else np.maximum(np.minimum(x, high), low)


@reference("ELEMENT_WISE_CLIP_GRAD", "ELEMENT_WISE_CLIP_GRAD1")
def clip_gradient(desc: dml.ElementWiseClipGrad | dml.ElementWiseClipGrad1, x: Array, gradient: Array) -> Array:
    """Whole gradients, zeroed where x is not inside."""
    low, high = (_bound(value, x.dtype) for value in (desc.min, desc.max))
    outside = (numbers_of(x) <= numbers_of(low)) | (numbers_of(x) >= numbers_of(high))
    return _kept(gradient, ~outside)


@reference("ACTIVATION_RELU")
def relu(desc: dml.OperatorDesc, x: Array) -> Array:
    """The larger of x and zero."""
    zeros = np.zeros(x.shape, x.dtype)
    return larger(x, zeros) if x.dtype.kind == "f" else np.maximum(x, zeros)


@reference("ACTIVATION_RELU_GRAD")
def relu_gradient(desc: dml.OperatorDesc, x: Array, gradient: Array) -> Array:
    """Whole gradients, where x is above zero."""
    return _kept(gradient, numbers_of(x) > 0)


@reference("ACTIVATION_THRESHOLDED_RELU")
def thresholded_relu(desc: dml.ActivationThresholdedRelu, x: Array) -> Array:
    """Whole elements, where they are above Alpha."""
    return _kept(x, widened(x) > widened(float_bound(desc.alpha, x.dtype)))


def _kept(x: Array, where: Array) -> Array:
    kept = _bytes(x).copy().reshape(-1, x.dtype.itemsize)
    kept[~where.reshape(-1)] = 0
    return kept.reshape(-1).view(x.dtype).reshape(x.shape)


@reference("ELEMENT_WISE_IF")
def select(desc: dml.ElementWiseIf, condition: Array, a: Array, b: Array) -> Array:
    """Whole elements are copied, as opaque bytes."""
    opaque = np.dtype((np.void, a.dtype.itemsize))
    selected = np.ascontiguousarray(b).view(opaque).copy()
    np.copyto(selected, np.ascontiguousarray(a).view(opaque), where=condition.astype(np.bool_))
    return selected.view(a.dtype)


@reference("ELEMENT_WISE_SIGN")
def sign(desc: dml.ElementWiseSign, x: Array) -> Array:
    """One where above zero, minus one where below; a comparison with NaN is false twice, and so gives 0."""
    numbers = numbers_of(x)
    sign: Array = (numbers > 0).astype(x.dtype) - (numbers < 0).astype(x.dtype)
    return sign


@reference("ELEMENT_WISE_THRESHOLD")
def threshold(desc: dml.ElementWiseThreshold, x: Array) -> Array:
    """The larger of x (scaled and biased) and Min; chosen as a whole element."""
    x = prescaled(x, desc.scale_bias)
    if x.dtype.kind != "f":
        return np.maximum(x, integer_bound(desc.min, x.dtype))
    return larger(x, np.broadcast_to(float_bound(desc.min, x.dtype), x.shape))

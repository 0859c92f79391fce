"""Samples of matrix products and convolutions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.conformance.samples import Sample, Types, sampler
from dmlvk.datatypes import DataType
from dmlvk.operators.shapes import Draft

Array = npt.NDArray[Any]

KINDS = ("normal", "positive", "zeros", "cancelling", "tiny", "huge", "special")  # What the elements of a sample are


def values(kind: str, shape: Sequence[int], data_type: DataType, random: np.random.Generator) -> Array:
    """Elements of a kind.

    normal: around 0. positive: all of one sign. zeros: half of them 0. cancelling: large ones that add up to little.
    tiny: many FLOAT32 products and sums of them are denormal, some operands too. huge: some products overflow. special:
    infinities, NaN and zeros of both signs among them.
    """
    made = random.normal(0, 1, shape)
    half = data_type is DataType.FLOAT16
    if kind == "positive":
        made = np.abs(made)
    elif kind == "zeros":
        made = np.where(random.random(shape) < 0.5, 0, made)
    elif kind == "cancelling":
        made = np.round(made * 2) * (4 if half else 2.0**20) + made
    elif kind == "tiny":
        exponents = random.integers(-24, -8, shape) if half else random.integers(-140, 0, shape)
        made = made * np.exp2(exponents.astype(np.float64))
    elif kind == "huge":
        made = made * (2.0**12 if half else 2.0**62)
    elif kind == "special":
        special = np.array([np.inf, -np.inf, np.nan, -0.0, 0.0])
        made = np.where(random.random(shape) < 0.02, random.choice(special, shape), made)
    with np.errstate(over="ignore"):
        return made.astype(data_type.numpy_dtype)


_N, _T = dml.MatrixTransform.NONE, dml.MatrixTransform.TRANSPOSE
_RELU = dml.FusedActivation(dml.ActivationRelu)

# leading sizes, rows, terms, columns; transposes; with C; Alpha, Beta; activation; what the elements are
_GEMMS: dict[str, tuple[tuple[int, ...], tuple[int, int, int], tuple[Any, Any], Any, float, float, Any, str]] = {
    "one number": ((1, 1), (1, 1, 1), (_N, _N), False, 1, 0, None, "normal"),
    "sizes that no tile divides": ((1, 2), (37, 19, 45), (_N, _N), True, 1, 1, None, "normal"),
    "A transposed": ((2, 1), (33, 20, 36), (_T, _N), False, 0.5, 0, _RELU, "normal"),
    "B transposed": ((1, 1), (36, 64, 34), (_N, _T), True, 1.5, -0.75, None, "cancelling"),
    "both transposed": ((2, 2), (20, 24, 28), (_T, _T), True, 1, 2, _RELU, "zeros"),
    "several segments": ((1, 1), (9, 2500, 6), (_N, _N), True, 1, 1, None, "positive"),
    "a broadcast row": ((1, 1), (12, 8, 10), (_N, _N), "row", 1, 1, None, "normal"),
    "denormal products": ((1, 1), (40, 70, 33), (_N, _N), True, 1, 1, None, "tiny"),
    "products that overflow": ((1, 1), (17, 40, 18), (_N, _T), False, 1, 0, None, "huge"),
    "infinities and NaN": ((1, 1), (34, 18, 35), (_N, _N), True, 1, 1, _RELU, "special"),
    # From here on there are enough of them, and sizes are such, that matrices of subgroups may be what multiplies.
    "many": ((2, 12), (72, 48, 72), (_N, _N), True, 0.5, 1, _RELU, "normal"),
    "many, all transposed": ((1, 48), (64, 64, 64), (_T, _T), False, 1, 0, None, "cancelling"),
    "many, several segments": ((1, 48), (64, 1040, 64), (_N, _T), False, 1, 0, None, "positive"),
    "many denormal products": ((4, 12), (64, 32, 64), (_N, _N), False, 1, 0, None, "tiny"),
    "many products that overflow": ((1, 48), (64, 64, 64), (_N, _T), False, 1, 0, None, "huge"),
    "many infinities and NaN": ((2, 24), (64, 48, 64), (_T, _N), True, 1, 1, None, "special"),
}


@sampler("GEMM")
def gemm(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Shapes, transposes, what is added, and elements of every kind."""
    data_type = types["output_tensor"]
    for name, (leading, (rows, terms, columns), transforms, with_c, alpha, beta, fused, kind) in _GEMMS.items():
        a_sizes = (rows, terms) if transforms[0] is _N else (terms, rows)
        b_sizes = (terms, columns) if transforms[1] is _N else (columns, terms)
        output = dml.TensorDesc(data_type, (*leading, rows, columns))
        inputs: dict[str, Array] = {
            "ATensor": values(kind, (*leading, *a_sizes), data_type, random),
            "BTensor": values(kind, (*leading, *b_sizes), data_type, random),
        }
        c_tensor = None
        if with_c:
            c_tensor = output
            inputs["CTensor"] = values(kind, output.sizes, data_type, random)
            if with_c == "row":
                c_tensor = dml.TensorDesc(data_type, output.sizes, (0, 0, 0, 1))
                inputs["CTensor"] = np.broadcast_to(inputs["CTensor"][:1, :1, :1], output.sizes)
        desc = dml.Gemm(
            a_tensor=dml.TensorDesc(data_type, (*leading, *a_sizes)),
            b_tensor=dml.TensorDesc(data_type, (*leading, *b_sizes)),
            c_tensor=c_tensor,
            output_tensor=output,
            trans_a=transforms[0],
            trans_b=transforms[1],
            alpha=alpha,
            beta=beta,
            fused_activation=fused,
        )
        yield Sample(name, desc, inputs)


_FORWARD, _BACKWARD = dml.ConvolutionDirection.FORWARD, dml.ConvolutionDirection.BACKWARD
_DEFAULTS: dict[str, Any] = {
    "mode": dml.ConvolutionMode.CROSS_CORRELATION,
    "direction": _FORWARD,
    "groups": 1,
    "bias": True,
    "kind": "normal",
    "fused": None,
}

# input sizes, filter sizes, and what differs from _DEFAULTS and from steps of 1 without padding
_CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "a window of one": ((2, 20, 5, 7), (9, 20, 1, 1), {"fused": _RELU}),
    "padded": ((1, 3, 9, 8), (5, 3, 3, 3), {"start": (1, 1), "end": (1, 1)}),
    "strides and dilations": (
        (2, 4, 17, 16),
        (6, 4, 3, 2),
        {"strides": (2, 3), "dilations": (2, 1), "start": (2, 0), "end": (1, 3), "bias": False},
    ),
    "turned over": ((1, 2, 6, 7), (3, 2, 3, 2), {"mode": dml.ConvolutionMode.CONVOLUTION, "end": (2, 1)}),
    "groups": ((1, 12, 6, 6), (8, 3, 3, 3), {"groups": 4, "start": (1, 1)}),
    "depthwise": ((2, 7, 9, 6), (14, 1, 3, 3), {"groups": 7, "start": (1, 1), "end": (1, 1), "fused": _RELU}),
    "output padding": ((1, 2, 5, 5), (2, 2, 3, 3), {"end": (1, 1), "output_padding": (1, 2)}),
    "infinities and padding": ((1, 3, 6, 6), (4, 3, 3, 3), {"start": (1, 2), "end": (2, 1), "kind": "special"}),
    "denormal products": ((1, 8, 6, 5), (5, 8, 3, 3), {"start": (1, 1), "end": (1, 1), "kind": "tiny"}),
    "several segments": ((1, 130, 4, 4), (3, 130, 3, 3), {"start": (1, 1), "end": (1, 1)}),
    "transposed": (
        (2, 6, 4, 5),
        (6, 5, 3, 4),
        {"direction": _BACKWARD, "strides": (2, 3), "start": (1, 0), "end": (0, 1), "output_padding": (1, 0)},
    ),
    "transposed, in groups": (
        (1, 8, 5, 4),
        (8, 3, 2, 3),
        {"direction": _BACKWARD, "groups": 2, "dilations": (2, 1), "start": (1, 1), "end": (1, 1), "kind": "special"},
    ),
    "transposed and turned over": (
        (1, 2, 4, 4),
        (2, 3, 3, 2),
        {"direction": _BACKWARD, "mode": dml.ConvolutionMode.CONVOLUTION, "strides": (2, 1), "bias": False},
    ),
    "solid": ((1, 2, 4, 5, 6), (3, 2, 2, 3, 3), {"start": (1, 0, 1), "end": (0, 1, 1), "strides": (1, 2, 1)}),
    "a line": ((2, 3, 11), (4, 3, 5), {"start": (2,), "end": (2,), "dilations": (1,)}),
}


@sampler("CONVOLUTION")
def convolution(types: Types, random: np.random.Generator) -> Iterator[Sample]:
    """Every attribute, both directions, 1 to 3 axes, and elements that meet padding."""
    data_type = types["output_tensor"]
    for name, (sizes, window, changes) in _CONVOLUTIONS.items():
        chosen = {**_DEFAULTS, **changes}
        desc = convolution_desc(data_type, sizes, window, **chosen)
        kind = chosen["kind"]
        inputs = {
            "InputTensor": values(kind, sizes, data_type, random),
            "FilterTensor": values(kind, window, data_type, random),
        }
        if desc.bias_tensor is not None:
            inputs["BiasTensor"] = values(kind, desc.bias_tensor.sizes, data_type, random)
        yield Sample(name, desc, inputs)


def steps_of(spatial: int, **chosen: Any) -> dict[str, Any]:
    """The members that say how windows lie along so many axes: steps of 1 and no padding where nothing else is chosen.

    Args:
        chosen: ``strides``, ``dilations``, ``start``, ``end`` and ``groups``.
    """
    return {
        "strides": chosen.get("strides", (1,) * spatial),
        "dilations": chosen.get("dilations", (1,) * spatial),
        "start_padding": chosen.get("start", (0,) * spatial),
        "end_padding": chosen.get("end", (0,) * spatial),
        "group_count": chosen.get("groups", 1),
    }


def convolution_desc(
    data_type: DataType, sizes: Sequence[int], window: Sequence[int], **chosen: Any
) -> dml.Convolution:
    """A CONVOLUTION whose output has the sizes that follow.

    Args:
        chosen: ``strides``, ``dilations``, ``start``, ``end``, ``output_padding`` (steps of 1 and no padding without
            them), ``mode``, ``direction``, ``groups``, ``bias`` and ``fused``; ``kind`` is ignored.
    """
    spatial = len(sizes) - 2
    options: Mapping[str, Any] = {**_DEFAULTS, **chosen}
    forward = options["direction"] is _FORWARD
    results = window[0] if forward else window[1] * options["groups"]
    members: dict[str, Any] = {
        "mode": options["mode"],
        "direction": options["direction"],
        "dimension_count": spatial,
        "output_padding": options.get("output_padding", (0,) * spatial),
        **steps_of(spatial, **options),
        "fused_activation": options["fused"],
        "input_tensor": dml.TensorDesc(data_type, sizes),
        "filter_tensor": dml.TensorDesc(data_type, window),
        "bias_tensor": dml.TensorDesc(data_type, (1, results, *(1,) * spatial)) if options["bias"] else None,
    }
    shapes = dml.Convolution.declaration.shapes
    assert shapes is not None
    made = shapes(Draft("CONVOLUTION", members))["output_tensor"]
    return dml.Convolution(output_tensor=dml.TensorDesc(data_type, made), **members)

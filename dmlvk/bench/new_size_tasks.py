"""What ``dmlvk bench new-sizes`` runs with ever new sizes and attributes: operators by their functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk import functions

F: Any = functions
"""The functions without their types, which ask for enumerations where a name does."""

Made = tuple[dml.OperatorDesc, dict[str, npt.NDArray[Any]]]


class Inputs:
    """Makes the inputs of one operator.

    Args:
        device: for which it is described.
    """

    def __init__(self, device: dml.Device) -> None:
        self.graph = dml.Graph(device)
        self.values: list[npt.NDArray[Any]] = []

    def __call__(
        self,
        *sizes: int,
        data_type: dml.DataType = dml.FLOAT32,
        strides: tuple[int, ...] | None = None,
        value: npt.ArrayLike | None = None,
    ) -> dml.Expression:
        """An input with a value that is broadcast; without one 1/2, or 1 of integers."""
        given = np.array((0.5 if data_type.is_float else 1) if value is None else value, data_type.numpy_dtype)
        self.values.append(np.broadcast_to(given, sizes))
        return self.graph.input(f"input {len(self.values)}", data_type, sizes, strides)

    def indices(self, *sizes: int, value: npt.ArrayLike | None = None) -> dml.Expression:
        """An input of UINT32."""
        return self(*sizes, data_type=dml.UINT32, value=value)


Task = Callable[[Inputs, int], dml.Expression | tuple[dml.Expression, ...]]
"""Applies one operator, of which the number makes a size or an attribute's value that there was not before."""


def made(device: dml.Device, task: Task, number: int) -> Made:
    """The operator that a task applies, and an array for each of its inputs."""
    given = Inputs(device)
    result = task(given, number)
    outputs = result if isinstance(result, tuple) else (result,)
    graph, _ = given.graph.described({f"output {index}": output for index, output in enumerate(outputs)})
    (node,) = graph.nodes
    assert isinstance(node, dml.OperatorGraphNode)
    desc, edges = node.operator.desc, graph.input_edges
    fields = [field.name for field, _ in desc.inputs]
    return desc, {fields[edge.to_node_input_index]: given.values[edge.graph_input_index] for edge in edges}


_TWO = {"window_size": (2, 2), "strides": (2, 2)}
_NO_PADDING = {"start_padding": (0, 0), "end_padding": (0, 0)}
_ONES = {"strides": (1, 1), "dilations": (1, 1)}
_DOUBLED = {"interpolation_mode": "LINEAR", "scales": (1, 1, 2, 2)}


def _gemm(x: Inputs, rows: int, **members: Any) -> dml.Expression:
    result: dml.Expression = F.gemm(x(1, 1, rows, 64), x(1, 1, 64, 48), beta=0.0, **members)
    return result


def _normalization(x: Inputs, number: int) -> dml.Expression:
    sizes, row = (2 + number, 3, 50), (0, 50, 1)
    scale, bias = x(*sizes, strides=row), x(*sizes, strides=row)
    ways = {"axes": (2,), "normalize_variance": True, "epsilon": 1e-5}
    result: dml.Expression = F.mean_variance_normalization1(x(*sizes), scale=scale, bias=bias, **ways)
    return result


TASKS: dict[str, Task] = {
    "ADD, new size": lambda x, n: F.add(x(3, 1000 + n), x(3, 1000 + n)),
    "ADD, a row broadcast, new size": lambda x, n: F.add(x(5 + n, 7, 30), x(5 + n, 7, 30, strides=(0, 30, 1))),
    "ADD, an element broadcast, new size": lambda x, n: F.add(x(1000 + n), x(1000 + n, strides=(0,))),
    "SIGN, new size": lambda x, n: F.sign(x(1000 + n)),
    "SIGN, transposed, new size": lambda x, n: F.sign(x(4, 20 + n, strides=(1, 4))),
    "CAST to INT32, new size": lambda x, n: F.cast(x(1000 + n), output_data_type=dml.INT32),
    "ELU of a part, new number of rows": lambda x, n: F.elu(
        x(5 + n, 30, strides=(50, 1)), alpha=1.5, output_strides=(50, 1)
    ),
    "TAN of a part, new number of rows": lambda x, n: F.tan(x(5 + n, 30, strides=(50, 1)), output_strides=(50, 1)),
    "ELU, new Alpha": lambda x, n: F.elu(x(1000), alpha=1 + n / 64),
    "SCALED_TANH, new Alpha": lambda x, n: F.scaled_tanh(x(1000), alpha=1 + n / 64, beta=0.5),
    "SOFTPLUS, new Steepness": lambda x, n: F.softplus(x(1000), steepness=1 + n / 64),
    "CLIP, new Min and Max": lambda x, n: F.clip(x(1000), min=-1 - n / 8, max=1 + n / 8),
    "CONSTANT_POW, new Exponent": lambda x, n: F.constant_pow(x(1000), exponent=1.25 + n / 64),
    "IDENTITY, new Scale": lambda x, n: F.identity(x(1000), scale_bias=dml.ScaleBias(1 + n / 64, 0.25)),
    "GEMM, new number of rows": lambda x, n: _gemm(x, 3 + n),
    "GEMM, new Alpha": lambda x, n: _gemm(x, 8, alpha=1 + n / 64),
    "GEMM with LEAKY_RELU, new rows and Alpha": lambda x, n: _gemm(
        x, 3 + n, fused_activation=dml.fused_activation("ACTIVATION_LEAKY_RELU", Alpha=0.01 + n / 1024)
    ),
    "CONVOLUTION, new batch": lambda x, n: F.convolution(x(1 + n, 3, 12, 12), x(8, 3, 3, 3)),
    "REDUCE SUM, new batch": lambda x, n: F.reduce(
        x(2 + n, 8, 64), function="SUM", axes=(2,), output_data_type=dml.FLOAT32
    ),
    "REDUCE SUM, new length of rows": lambda x, n: F.reduce(
        x(4, 100 + n), function="SUM", axes=(1,), output_data_type=dml.FLOAT32
    ),
    "REDUCE MAX, new batch": lambda x, n: F.reduce(
        x(2 + n, 8, 64), function="MAX", axes=(2,), output_data_type=dml.FLOAT32
    ),
    "SOFTMAX, new batch": lambda x, n: F.softmax(x(1, 1, 2 + n, 100)),
    "MAX_POOLING, new batch": lambda x, n: F.max_pooling(x(1 + n, 3, 12, 12), **_TWO),
    "AVERAGE_POOLING, new batch": lambda x, n: F.average_pooling(x(1 + n, 3, 12, 12), include_padding=False, **_TWO),
    "MEAN_VARIANCE_NORMALIZATION1, new batch": _normalization,
    "SLICE1, new size and offset": lambda x, n: F.slice1(
        x(30 + n, 40), input_window_offsets=(n % 10, 0), input_window_sizes=(20, 40), input_window_strides=(1, 1)
    ),
    "JOIN, new sizes": lambda x, n: F.join([x(2 + n, 40), x(2 + n, 40)], axis=0),
    "GATHER, new number of indices": lambda x, n: F.gather(x(50, 16), x.indices(1, 2 + n), axis=0, index_dimensions=1),
    "TOP_K, new batch": lambda x, n: F.top_k(x(2 + n, 100), axis=1, k=5),
    "RESAMPLE, new batch": lambda x, n: F.resample(x(1, 1 + n, 12, 12), output_sizes=(1, 1 + n, 24, 24), **_DOUBLED),
    "PADDING, new batch": lambda x, n: F.padding(
        x(2 + n, 10, 10), padding_mode="CONSTANT", padding_value=0.0, start_padding=(0, 1, 1), end_padding=(0, 1, 1)
    ),
    "FOLD, new height": lambda x, n: F.fold(
        x(1, 8, (5 + n) * 9), window_sizes=(2, 2), output_sizes=(1, 2, 6 + n, 10), **_ONES, **_NO_PADDING
    ),
    "UNFOLD, new height": lambda x, n: F.unfold(x(1, 2, 6 + n, 10), window_sizes=(2, 2), **_ONES, **_NO_PADDING),
    "MAX_UNPOOLING, new height": lambda x, n: F.max_unpooling(
        x(1, 2, 3 + n, 4),
        x.indices(1, 2, 3 + n, 4, value=np.arange(2 * (3 + n) * 4).reshape(1, 2, 3 + n, 4)),
        output_sizes=(1, 2, 6 + 2 * n, 8),
    ),
    "LP_POOLING, new height": lambda x, n: F.lp_pooling(x(1, 2, 8 + 2 * n, 8), p=2, **_TWO),
    "MAX_POOLING, new width": lambda x, n: F.max_pooling(x(1, 2, 8, 8 + 2 * n), **_TWO),
    "MAX_POOLING, new window": lambda x, n: F.max_pooling(x(1, 2, 40, 40), window_size=(2 + n, 1)),
    "MAX_POOLING2 of volumes, new depth": lambda x, n: F.max_pooling2(
        x(1, 2, 4 + 2 * n, 6, 6), window_size=(2, 2, 2), strides=(2, 2, 2)
    ),
    "AVERAGE_POOLING_GRAD, new height": lambda x, n: F.average_pooling_grad(
        x(1, 2, 4 + n, 4), include_padding=False, output_sizes=(1, 2, 8 + 2 * n, 8), **_TWO, **_NO_PADDING
    ),
    "ONE_HOT, new number of rows": lambda x, n: F.one_hot(
        x.indices(1, 1, 5 + n, 1), x(1, 1, 1, 2), axis=3, output_sizes=(1, 1, 5 + n, 7)
    ),
    "SCATTER, new number of rows": lambda x, n: F.scatter(x(6 + n, 9), x.indices(2 + n, 9), x(2 + n, 9), axis=0),
    "SCATTER_ND, new number of rows": lambda x, n: F.scatter_nd(
        x(6 + n, 9),
        x.indices(2 + n, 1, value=np.arange(2 + n).reshape(-1, 1)),
        x(2 + n, 9),
        input_dimension_count=2,
        indices_dimension_count=2,
    ),
    "GATHER_ND, new number of indices": lambda x, n: F.gather_nd(
        x(6, 9), x.indices(2 + n, 1), input_dimension_count=2, indices_dimension_count=2
    ),
    "GATHER_ELEMENTS, new number of rows": lambda x, n: F.gather_elements(x(6, 9), x.indices(2 + n, 9), axis=0),
    "GATHER of columns, new height": lambda x, n: F.gather(x(50 + n, 16), x.indices(1, 3), axis=1, index_dimensions=1),
    "NONZERO_COORDINATES, new height": lambda x, n: F.nonzero_coordinates(x(5 + n, 9)),
    "DIAGONAL_MATRIX1, new height": lambda x, n: x.graph.apply(
        "DIAGONAL_MATRIX1",
        {},
        {"value_data_type": "FLOAT32", "value": 1.0, "diagonal_fill_begin": 0, "diagonal_fill_end": 2},
        output_sizes=(5 + n, 7),
    ),
    "RESAMPLE, new height": lambda x, n: F.resample(
        x(1, 1, 6 + n, 12), output_sizes=(1, 1, 12 + 2 * n, 24), **_DOUBLED
    ),
    "RESAMPLE, new scale": lambda x, n: F.resample(
        x(1, 1, 6, 12), interpolation_mode="LINEAR", scales=(1, 1, (7 + n) / 6, 1), output_sizes=(1, 1, 7 + n, 12)
    ),
    "RESAMPLE_GRAD, new height": lambda x, n: F.resample_grad(
        x(1, 1, 12 + 2 * n, 24),
        input_pixel_offsets=(0.5,) * 4,
        output_pixel_offsets=(-0.5,) * 4,
        output_sizes=(1, 1, 6 + n, 12),
        **_DOUBLED,
    ),
    "UPSAMPLE_2D, new height": lambda x, n: F.upsample_2d(
        x(1, 1, 6 + n, 12), scale_size=dml.Size2D(2, 2), interpolation_mode="NEAREST_NEIGHBOR"
    ),
    "REVERSE_SUBSEQUENCES, new number of rows": lambda x, n: F.reverse_subsequences(
        x(1, 1, 5 + n, 9), x.indices(1, 1, 5 + n, 1), axis=3
    ),
    "ROI_POOLING, new SpatialScale": lambda x, n: F.roi_pooling(
        x(1, 2, 12, 12),
        x(1, 1, 3, 5, value=[[0, 1, 1, 5, 5]] * 3),
        spatial_scale=0.5 + n / 64,
        pooled_size=dml.Size2D(2, 2),
    ),
    "ROI_ALIGN, new number of regions": lambda x, n: F.roi_align(
        x(1, 2, 12, 12),
        x(1, 1, 2 + n, 4, value=[1, 1, 5, 5]),
        x.indices(1, 1, 1, 2 + n, value=0),
        reduction_function="AVERAGE",
        interpolation_mode="LINEAR",
        spatial_scale_x=1.0,
        spatial_scale_y=1.0,
        out_of_bounds_input_value=0.0,
        minimum_samples_per_output=2,
        maximum_samples_per_output=2,
        output_sizes=(2 + n, 2, 2, 2),
    ),
    "CUMULATIVE_SUMMATION, new length": lambda x, n: F.cumulative_summation(
        x(3, 50 + n), axis=1, axis_direction="INCREASING", has_exclusive_sum=False
    ),
    "BATCH_NORMALIZATION, new batch": lambda x, n: F.batch_normalization(
        x(1 + n, 3, 8, 8), *(x(1, 3, 1, 1) for _ in range(4)), spatial=True, epsilon=1e-5
    ),
    "LOCAL_RESPONSE_NORMALIZATION, new height": lambda x, n: F.local_response_normalization(
        x(1, 6, 5 + n, 8), cross_channel=True, local_size=5, alpha=1e-4, beta=0.75, bias=1.0
    ),
    "ARGMAX, new length": lambda x, n: x.graph.apply(
        "ARGMAX", {"input_tensor": x(3, 50 + n)}, {"axes": (1,), "axis_direction": "INCREASING"}
    ),
    "DEPTH_TO_SPACE, new height": lambda x, n: F.depth_to_space(x(1, 8, 3 + n, 4), block_size=2),
    "SPLIT, new sizes": lambda x, n: F.split(x(4 + 2 * n, 9), axis=0, output_count=2),
    "TILE, new height": lambda x, n: F.tile(x(3 + n, 5), repeats=(2, 1)),
    "FILL_VALUE_SEQUENCE, new size and ValueDelta": lambda x, n: x.graph.apply(
        "FILL_VALUE_SEQUENCE",
        {},
        {"value_data_type": "FLOAT32", "value_start": 0.0, "value_delta": 1.0 + n},
        output_sizes=(100 + n,),
    ),
    "ADAM_OPTIMIZER, new size and LearningRate": lambda x, n: F.adam_optimizer(
        *(x(1, 1, 1, 100 + n) for _ in range(4)),
        x.indices(1, 1, 1, 1),
        learning_rate=1e-3 * (1 + n),
        beta1=0.9,
        beta2=0.999,
        epsilon=1e-8,
    ),
    "MATRIX_MULTIPLY_INTEGER, new number of rows": lambda x, n: F.matrix_multiply_integer(
        x(1, 1, 3 + n, 32, data_type=dml.INT8), b=x(1, 1, 32, 16, data_type=dml.INT8)
    ),
    "CONVOLUTION_INTEGER, new batch": lambda x, n: F.convolution_integer(
        x(1 + n, 3, 8, 8, data_type=dml.INT8), filter=x(4, 3, 3, 3, data_type=dml.INT8)
    ),
    "ELEMENT_WISE_QUANTIZE_LINEAR, new height": lambda x, n: F.quantize_linear(
        x(5 + n, 9), x(5 + n, 9, strides=(0, 0)), output_data_type=dml.INT8
    ),
    "DYNAMIC_QUANTIZE_LINEAR, new height": lambda x, n: F.dynamic_quantize_linear(
        x(5 + n, 9), output_data_type=dml.UINT8
    ),
    "DEQUANTIZE in blocks, new height": lambda x, n: F.dequantize(
        x(3 + n, 64, data_type=dml.INT8), [x(3 + n, 2)], quantization_type="SCALE"
    ),
    "RNN, new number of steps": lambda x, n: F.rnn(
        x(1, 2 + n, 2, 6),
        x(1, 1, 8, 6),
        x(1, 1, 8, 8),
        activation_descs=[dml.fused_activation("ACTIVATION_TANH")],
        direction="FORWARD",
        with_sequence=True,
    ),
    "MULTIHEAD_ATTENTION, new length": lambda x, n: F.multihead_attention(
        0.5, -1e4, 2, "NONE", *(x(1, 1, 5 + n, 16) for _ in range(3)), output_sizes=(1, 1, 5 + n, 16)
    ),
}

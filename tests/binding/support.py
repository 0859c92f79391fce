"""What the tests of bindings, devices and recordings share: small descriptions, operators, ranges of buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import dmlvk as dml
from dmlvk.objects.compilation import CompiledSingleOperator

Binding = dml.BufferBinding

NOT_INTEGERS: tuple[Any, ...] = (
    None,
    "16",
    b"16",
    16.0,
    math.nan,
    math.inf,
    1j,
    True,
    np.True_,
    np.float32(16),
    np.array(16),
    np.array([16, 32]),
    [16],
    (),
    {},
    object(),
    int,
)
"""Things that are no integer, some of which Python would take for one."""


def kind_of(value: object) -> str:
    """An id for a test case."""
    return type(value).__name__


def floats(*sizes: int, strides: Sequence[int] | None = None, **more: Any) -> dml.TensorDesc:
    """A FLOAT32 tensor."""
    return dml.TensorDesc(dml.FLOAT32, sizes, strides, **more)


def sign(tensor: dml.TensorDesc, output: dml.TensorDesc | None = None) -> dml.OperatorDesc:
    return dml.ElementWiseSign(input_tensor=tensor, output_tensor=output or tensor)


def threshold(tensor: dml.TensorDesc, bound: float = 0.5, **more: Any) -> dml.OperatorDesc:
    """THRESHOLD from ``tensor`` to its like: ``max(x, bound)``."""
    return dml.ElementWiseThreshold(input_tensor=tensor, output_tensor=tensor, min=bound, **more)


def greater_than(*sizes: int, output: dml.DataType = dml.UINT32) -> dml.OperatorDesc:
    """GREATER_THAN of two FLOAT32 tensors."""
    return dml.ElementWiseLogicalGreaterThan(
        a_tensor=floats(*sizes), b_tensor=floats(*sizes), output_tensor=dml.TensorDesc(output, sizes)
    )


def select(*sizes: int) -> dml.OperatorDesc:
    """IF between two FLOAT32 tensors."""
    return dml.ElementWiseIf(
        condition_tensor=dml.TensorDesc(dml.UINT8, sizes),
        a_tensor=floats(*sizes),
        b_tensor=floats(*sizes),
        output_tensor=floats(*sizes),
    )


def compiled(device: dml.Device, desc: dml.OperatorDesc) -> CompiledSingleOperator:
    return device.compile_operator(device.create_operator(desc))


def table_for(
    operator: dml.CompiledOperator, inputs: Sequence[Binding | None] = (), outputs: Sequence[Binding | None] = ()
) -> dml.BindingTable:
    table = operator.device.create_binding_table(operator)
    table.bind_inputs(inputs)
    table.bind_outputs(outputs)
    return table


def buffer_with(device: dml.Device, contents: npt.NDArray[Any], spare_bytes: int = 0) -> dml.Buffer:
    """A buffer that holds an array, and is larger by ``spare_bytes`` zeros."""
    buffer = device.create_buffer(contents.nbytes + spare_bytes)
    buffer.upload(contents)
    return buffer


def execute(
    operator: dml.CompiledOperator, inputs: Sequence[Binding | None], outputs: Sequence[Binding | None]
) -> None:
    """Binds, records and runs one dispatch."""
    recorder = operator.device.create_command_recorder()
    recorder.record_dispatch(operator, table_for(operator, inputs, outputs))
    recorder.execute()

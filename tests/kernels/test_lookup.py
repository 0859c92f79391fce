"""A FLOAT16 function that is looked up gives the bits of its own kernel, with every access order, for every
operator."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance.cases import sweep_sets
from dmlvk.kernels import lookup
from dmlvk.kernels.lookup import TABLE_ENTRIES
from dmlvk.kernels.target import GPU
from dmlvk.objects.compilation import CompiledSingleOperator
from dmlvk.operators import REGULAR_OPERATORS, OperatorDesc
from dmlvk.spirv.specialization import NAIVE_DRIVERS
from tests.effort import some
from tests.targets import all_compute_as_gpus

PATTERNS = np.arange(TABLE_ENTRIES, dtype=np.uint16).view(np.float16)


def _descriptions(tensor_in: dml.TensorDesc, tensor_out: dml.TensorDesc) -> list[OperatorDesc]:
    """Every operator of one FLOAT16 tensor, without its optional attributes and with them."""
    descriptions = []
    for desc_class in REGULAR_OPERATORS.values():
        if (desc_class.declaration.pattern == "rows") or [
            field.kind for field in desc_class.fields if field.type == "tensor" and not field.optional
        ] != [
            "input",
            "output",
        ]:
            continue
        absent: dict[str, Any] = {f.attribute: None for f in desc_class.fields if f.type == "tensor" and f.optional}
        for table in desc_class.declaration.support:
            if any(dml.FLOAT16 not in table.data_types[m] for m in table.data_types if m not in absent):
                break
        else:
            inputs = [f.attribute for f in desc_class.fields if f.kind == "input" and f.attribute not in absent]
            outputs = [f.attribute for f in desc_class.fields if f.kind == "output"]
            tensors = {inputs[0]: tensor_in, outputs[0]: tensor_out}
            for optional in (False, True):
                for attributes in sweep_sets(desc_class, dml.FLOAT16, optional)[:1]:
                    descriptions.append(desc_class(**absent, **tensors, **attributes))
    return descriptions


def _looked_up_names() -> list[str]:
    large = dml.TensorDesc(dml.FLOAT16, (lookup.FEWEST_ELEMENTS,))
    found = (d.operator_name for d in _descriptions(large, large) if lookup.table_desc(d, GPU) is not None)
    return sorted(set(found))


def _compiled(device: dml.Device, desc: OperatorDesc) -> CompiledSingleOperator:
    return device.compile_operator(device.create_operator(desc))


def _bits(device: dml.Device, compiled: CompiledSingleOperator, values: npt.NDArray[Any]) -> npt.NDArray[np.uint16]:
    (name,) = (point.name for point in compiled.inputs if point.tensor is not None)
    (result,) = device.run(compiled, {name: values}).values()
    return result.view(np.uint16)


def _both_ways(
    device: dml.Device, desc: OperatorDesc, values: npt.NDArray[Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[npt.NDArray[np.uint16], npt.NDArray[np.uint16]]:
    direct = _compiled(device, desc)
    assert direct.constants == ()
    with monkeypatch.context() as context:
        context.setattr(lookup, "FEWEST_ELEMENTS", 1)
        context.setattr(lookup, "FASTER_COMPUTED", frozenset())
        looked_up = _compiled(device, desc)
    assert looked_up.constants, f"{desc} is not looked up"
    return _bits(device, direct, values), _bits(device, looked_up, values)


def test_the_functions_are_looked_up_and_what_is_exact_is_not() -> None:
    names = _looked_up_names()
    assert {"ELEMENT_WISE_LOG", "ELEMENT_WISE_SQRT", "ACTIVATION_SIGMOID"} <= set(names)
    assert not {"ELEMENT_WISE_ABS", "ELEMENT_WISE_SIGN", "ACTIVATION_RELU"} & set(names)
    tensor = dml.TensorDesc(dml.FLOAT16, (lookup.FEWEST_ELEMENTS,))
    scales = (None, dml.ScaleBias(0.5, 1.0))  # a short function, and a longer one
    powers = [dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor, scale_bias=scale) for scale in scales]
    assert [lookup.table_desc(desc, GPU) is None for desc in powers] == [True, False]


@pytest.mark.every_driver
def test_what_is_faster_computed_is_looked_up_by_naive_drivers_alone(device: dml.Device) -> None:
    large = dml.TensorDesc(dml.FLOAT16, (lookup.FEWEST_ELEMENTS,))
    desc = dml.ElementWiseExp(input_tensor=large, output_tensor=large, scale_bias=None)
    is_looked_up = _compiled(device, desc).constants != ()
    assert is_looked_up == (device.info.driver in NAIVE_DRIVERS)


@pytest.mark.parametrize("name", some(_looked_up_names(), 3))
def test_a_table_gives_the_bits_of_the_kernel(device: dml.Device, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = dml.TensorDesc(dml.FLOAT16, (TABLE_ENTRIES,))
    for desc in _descriptions(tensor, tensor):
        if desc.operator_name == name:
            direct, looked_up = _both_ways(device, desc, PATTERNS, monkeypatch)
            wrong = np.flatnonzero(direct != looked_up)
            assert not wrong.size, f"{desc}: {wrong.size} of 65,536 differ, the first for pattern {wrong[0]:#06x}"


@pytest.mark.parametrize(
    ("access_order", "sizes", "strides_in", "strides_out"),
    [
        ("contiguous", (1, 65535), None, None),
        ("rows", (256, 256), (256, 1), (264, 1)),
        ("tiled", (256, 250), (1, 256), (256, 1)),
        ("strided", (251, 251), (1, 251), (251, 1)),
        ("strided", (251, 251), (253, 1), (504, 2)),
    ],
)
def test_every_access_order(
    device: dml.Device,
    access_order: str,
    sizes: tuple[int, ...],
    strides_in: tuple[int, ...] | None,
    strides_out: tuple[int, ...] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    all_compute_as_gpus(monkeypatch)
    desc = dml.ElementWiseLog(
        input_tensor=dml.TensorDesc(dml.FLOAT16, sizes, strides_in),
        output_tensor=dml.TensorDesc(dml.FLOAT16, sizes, strides_out),
        scale_bias=None,
    )
    values = np.random.default_rng(5).permutation(PATTERNS)[: sizes[0] * sizes[1]].reshape(sizes)
    direct, looked_up = _both_ways(device, desc, values, monkeypatch)
    assert (direct == looked_up).all()
    monkeypatch.setattr(lookup, "FEWEST_ELEMENTS", 1)
    assert _compiled(device, desc).steps[0].kernel.variant == f"lookup.uint16.{access_order}"


def test_large_tensors_share_a_table_that_goes_with_the_last_of_them(any_device: dml.Device) -> None:
    def make(elements: int, scale: float) -> CompiledSingleOperator:
        tensor = dml.TensorDesc(dml.FLOAT16, (elements,))
        return _compiled(
            any_device,
            dml.ElementWiseExp(input_tensor=tensor, output_tensor=tensor, scale_bias=dml.ScaleBias(scale, 0.0)),
        )

    first, second = make(2**20, 0.3), make(2**21 + 1, 0.3)
    assert first.constants == second.constants != ()
    assert make(2**20, 0.4).constants != first.constants
    (table,) = first.constants
    closed = table.is_closed
    del first, second
    gc.collect()
    assert not closed
    assert not table.is_closed  # as long as somebody refers to it
    values = np.resize(PATTERNS, 2**20)
    again = make(2**20, 0.3)
    assert again.constants == (table,)
    assert (
        _bits(any_device, again, values)[:TABLE_ENTRIES] == _bits(any_device, make(TABLE_ENTRIES, 0.3), PATTERNS)
    ).all()


def test_in_place(any_device: dml.Device) -> None:
    tensor = dml.TensorDesc(dml.FLOAT16, (2**20,))
    compiled = _compiled(any_device, dml.ElementWiseSin(input_tensor=tensor, output_tensor=tensor, scale_bias=None))
    with any_device.create_buffer(tensor.size_in_bytes + 256) as buffer:
        buffer.upload(np.resize(PATTERNS, 2**20), 256)
        table = any_device.create_binding_table(compiled)
        binding = dml.BufferBinding(buffer, 256, tensor.size_in_bytes)
        table.bind_inputs([binding])
        table.bind_outputs([binding])
        recorder = any_device.create_command_recorder()
        recorder.record_dispatch(compiled, table)
        recorder.execute()
        got = buffer.download()[256:].view(np.uint16)
    assert (got == _bits(any_device, compiled, np.resize(PATTERNS, 2**20))).all()

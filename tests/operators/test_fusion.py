"""Fused activations: the bits of the operator followed by the activation, and what may be fused."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import dmlvk as dml
from dmlvk.conformance import patterns
from dmlvk.conformance.cases import attribute_sets, fused_activations
from dmlvk.conformance.comparison import as_bits
from dmlvk.conformance.execution import TensorPlacement, Workbench
from dmlvk.operators import FUSABLE_ACTIVATIONS, OPERATORS, REGULAR_OPERATORS, FeatureLevel, check_operator
from tests.binding.support import buffer_with, compiled, execute
from tests.specification.facts import all_facts
from tests.targets import kernel_of

Array = npt.NDArray[Any]

FACTS = all_facts()
FLOATS = (dml.FLOAT32, dml.FLOAT16)
EACH_ACTIVATION = pytest.mark.parametrize("name", FUSABLE_ACTIVATIONS)
EACH_TYPE = pytest.mark.parametrize("data_type", FLOATS, ids=lambda data_type: data_type.name)

_ELU = dml.FusedActivation(dml.ActivationElu, alpha=1.0)


def _addends(data_type: dml.DataType) -> tuple[Array, Array]:
    """Sums of every FLOAT16, or of FLOAT32 numbers of every kind; and sums that are rounded, overflow and cancel."""
    random = np.random.default_rng(31)
    if data_type is dml.FLOAT16:
        some = patterns.every_pattern(data_type)
    else:
        some = np.concatenate([patterns.landmark_patterns(data_type), patterns.sweep(data_type, 0, 2**15)])
    first = np.concatenate([some, random.permutation(np.resize(some, 2**15))])
    close = patterns.partners(first[some.size :], data_type, random)
    second = np.concatenate([np.zeros(some.size, some.dtype), close])
    return first.view(data_type.numpy_dtype), second.view(data_type.numpy_dtype)


def _add1(tensor: dml.TensorDesc, fused: dml.FusedActivation | None, **others: dml.TensorDesc) -> dml.ElementWiseAdd1:
    tensors = {"a_tensor": tensor, "b_tensor": tensor, "output_tensor": tensor, **others}
    return dml.ElementWiseAdd1(**tensors, fused_activation=fused)


def _run(bench: Workbench, desc: dml.OperatorDesc, *inputs: Array) -> Array:
    """A packed result's bits. The buffers are always the same ones, and so is the pipeline of other attributes."""
    tensors = [tensor for _, tensor in desc.inputs + desc.outputs if tensor is not None]
    contents = [np.zeros(tensor.size_in_bytes, np.uint8) for tensor in tensors]
    for memory, array in zip(contents, inputs, strict=False):
        memory[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)
    after = bench.run(desc, contents, [TensorPlacement(number) for number in range(len(contents))])[-1]
    return as_bits(after.view(inputs[0].dtype)[: tensors[-1].element_count])


def _one_after_the_other(bench: Workbench, fused: dml.FusedActivation, a: Array, b: Array) -> Array:
    tensor = dml.TensorDesc(dml.FLOAT16 if a.dtype == np.float16 else dml.FLOAT32, a.shape)
    add = dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    total = _run(bench, add, a, b)
    attributes = {field.name: value for field, value in fused.attributes}
    activation = dml.operator_desc(fused.operator_name, InputTensor=tensor, OutputTensor=tensor, **attributes)
    return _run(bench, activation, total)


def _chosen(name: str, data_type: dml.DataType) -> list[dml.FusedActivation]:
    """With usual attributes and with unusual ones, special values among them."""
    return fused_activations(name, data_type)[:5]


@pytest.mark.t_way(1)
@EACH_ACTIVATION
@EACH_TYPE
def test_fused_bits_are_those_of_one_after_the_other(
    name: str, data_type: dml.DataType, benches: list[Workbench]
) -> None:
    a, b = _addends(data_type)
    tensor = dml.TensorDesc(data_type, a.shape)
    for fused in _chosen(name, data_type):
        results = set()
        for bench in benches:
            expected = _one_after_the_other(bench, fused, a, b)
            got = _run(bench, _add1(tensor, fused), a, b)
            different = np.flatnonzero(got != expected)
            if different.size:
                first = different[0]
                found = f"{a[first]!r} + {b[first]!r} gives {got[first]:#x}, not {expected[first]:#x}"
                pytest.fail(f"{bench.device.info.name}: {fused}: {different.size} differ, as {found}")
            results.add(got.tobytes())
        assert len(results) == 1, f"{fused}: devices differ"
    assert len(np.unique(got)) > 1


@pytest.mark.sweep
@EACH_ACTIVATION
def test_fused_bits_of_strided_tensors(name: str, benches: list[Workbench]) -> None:
    """A broadcast operand, and one that is transposed.

    What they must give comes from packed tensors as long as those above, whose pipelines are there already.
    """
    for data_type in FLOATS:
        sizes = (65, 67)
        a, b = _addends(data_type)
        first, second = (values[-65 * 67 :].reshape(sizes) for values in (a, b))
        plain = dml.TensorDesc(data_type, sizes)
        turned = dml.TensorDesc(data_type, sizes, (1, 65))
        row = dml.TensorDesc(data_type, sizes, (0, 1))
        fused = fused_activations(name, data_type)[0]
        repeated = np.broadcast_to(second[:1], sizes)
        desc = _add1(plain, fused, a_tensor=turned, b_tensor=row)
        for bench in benches:
            expected = _one_after_the_other(bench, fused, np.resize(first, a.shape), np.resize(repeated, a.shape))
            got = _run(bench, desc, first.T, second[0])
            assert (got == expected[: got.size]).all(), f"{bench.device.info.name}: {fused}"


@pytest.mark.parametrize("index", [0, 1])
@EACH_TYPE
def test_fused_in_place(index: int, data_type: dml.DataType, device: dml.Device) -> None:
    tensor = dml.TensorDesc(data_type, (6,))
    operator = compiled(device, _add1(tensor, _ELU))
    addends = [np.array(values, data_type.numpy_dtype) for values in ([0, 1, 2, -3, 4, 9], [1, 1, -2, -200, 0.5, 9])]
    with buffer_with(device, addends[0]) as first, buffer_with(device, addends[1]) as second:
        bindings = [dml.BufferBinding(first), dml.BufferBinding(second)]
        execute(operator, bindings, [bindings[index]])
        buffers = (first, second)
        result = buffers[index].download(data_type.numpy_dtype)
        assert result.tolist() == [1, 2, 0, -1, 4.5, 18]
        assert (buffers[1 - index].download(data_type.numpy_dtype) == addends[1 - index]).all()


def test_nothing_fused_is_an_addition(benches: list[Workbench]) -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (100,))
    add = dml.ElementWiseAdd(a_tensor=tensor, b_tensor=tensor, output_tensor=tensor)
    identity = dml.FusedActivation(dml.ActivationIdentity)
    assert kernel_of(_add1(tensor, None)) == kernel_of(_add1(tensor, identity)) == kernel_of(add)
    assert kernel_of(_add1(tensor, _ELU)).variant == "element_wise_add1.float32.fused_elu.contiguous"


def test_every_fused_attribute_reaches_the_kernel() -> None:
    """Other attributes, other words of the push constants; FLOAT16 operators convert what the activation converts."""
    for name in FUSABLE_ACTIVATIONS:
        for data_type in FLOATS:
            tensor = dml.TensorDesc(data_type, (8,))
            for attributes in attribute_sets(OPERATORS[name], data_type)[:20]:
                fused = dml.FusedActivation(OPERATORS[name], **attributes)
                alone = OPERATORS[name](input_tensor=tensor, output_tensor=tensor, **attributes)  # type: ignore[call-arg]  # any of them
                assert kernel_of(_add1(tensor, fused)).attributes == kernel_of(alone).attributes


def _refusal(desc: dml.OperatorDesc, level: FeatureLevel) -> str:
    with pytest.raises(dml.UnsupportedError) as refused:
        check_operator(desc, level)
    return str(refused.value)


@pytest.mark.parametrize("name", sorted(set(REGULAR_OPERATORS) - set(FUSABLE_ACTIVATIONS)))
def test_other_operators_cannot_be_fused(name: str) -> None:
    attributes = {field.attribute: _any_value(field) for field in OPERATORS[name].fields if field.kind == "attribute"}
    fused = dml.FusedActivation(OPERATORS[name], **attributes)
    assert _refusal(_add1(dml.TensorDesc(dml.FLOAT32, (2,)), fused), FeatureLevel.LEVEL_6_4) == (
        f"ELEMENT_WISE_ADD1: FusedActivation cannot be {name}; the operators that may be fused are "
        f"{', '.join(FUSABLE_ACTIVATIONS)}"
    )


def _any_value(field: Any) -> Any:
    if field.optional:
        return None
    if field.enumeration is not None:
        return next(iter(field.enumeration))
    return {"data_type": dml.INT32, "uint32_array": (0,)}.get(field.type, 1)


def test_levels_of_fused_activations() -> None:
    tensor = dml.TensorDesc(dml.FLOAT32, (1, 1, 1, 2))
    gelu = _add1(tensor, dml.FusedActivation(dml.ActivationGelu))
    check_operator(gelu, FeatureLevel.LEVEL_5_1)
    assert _refusal(gelu, FeatureLevel.LEVEL_5_0) == (
        "ELEMENT_WISE_ADD1: FusedActivation: ACTIVATION_GELU: needs feature level 5_1; this device was opened at 5_0"
    )
    steep = _add1(tensor, dml.FusedActivation(dml.ActivationSoftplus, steepness=0.5))
    check_operator(steep, FeatureLevel.LEVEL_6_4)
    assert _refusal(steep, FeatureLevel.LEVEL_6_3) == (
        "ELEMENT_WISE_ADD1: FusedActivation: ACTIVATION_SOFTPLUS: Steepness must be at least 1 at feature level 6_3; "
        "got 0.5, which needs feature level 6_4"
    )
    assert _refusal(_add1(tensor, _ELU), FeatureLevel.LEVEL_1_0) == (
        "ELEMENT_WISE_ADD1: needs feature level 2_0; this device was opened at 1_0"
    )


@EACH_ACTIVATION
def test_an_activation_is_fused_from_its_own_level_on(name: str) -> None:
    first = next(iter(FACTS[name].support))
    attributes = {field.attribute: 1.0 for field in OPERATORS[name].fields if field.kind == "attribute"}
    for data_type in FLOATS:
        desc = _add1(dml.TensorDesc(data_type, (1, 1, 1, 2)), dml.FusedActivation(OPERATORS[name], **attributes))
        for level in FeatureLevel:
            if level >= max(FeatureLevel.from_name(first), FeatureLevel.LEVEL_2_0):
                check_operator(desc, level)
            elif level >= FeatureLevel.LEVEL_2_0:
                assert _refusal(desc, level) == (
                    f"ELEMENT_WISE_ADD1: FusedActivation: {name}: needs feature level {first}; "
                    f"this device was opened at {level.label}"
                )


TENSOR = dml.TensorDesc(dml.FLOAT32, (2,))


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({}, "member Alpha is required"),
        ({"alpha": "1"}, "Alpha must be a number; got '1'"),
        ({"alpha": None}, "Alpha must be a number; got None"),
        ({"alpha": 1.0, "beta": 2.0}, "has no member beta"),
        ({"alpha": 1.0, "input_tensor": TENSOR}, "InputTensor must be null: a fused activation has no tensors; got "),
        ({"alpha": 1.0, "output_tensor": TENSOR}, "OutputTensor must be null: a fused activation has no tensors; got "),
    ],
)
def test_members_of_a_fused_activation(members: dict[str, Any], message: str) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=f"^FusedActivation ACTIVATION_ELU: {re.escape(message)}"):
        dml.FusedActivation(dml.ActivationElu, **members)


@pytest.mark.parametrize("other", [1, "ACTIVATION_ELU", None, int])
def test_a_fused_activation_is_an_operators_class(other: Any) -> None:
    with pytest.raises(dml.InvalidArgumentError, match=r"^FusedActivation: must be an operator's class; got "):
        dml.FusedActivation(other)


def test_a_description_with_tensors_is_no_fused_activation() -> None:
    elu = dml.ActivationElu(input_tensor=TENSOR, output_tensor=TENSOR, alpha=1.0)
    message = r"^ELEMENT_WISE_ADD1: FusedActivation must be a dmlvk\.FusedActivation or None; got ActivationElu\("
    with pytest.raises(dml.InvalidArgumentError, match=message):
        _add1(TENSOR, elu)  # type: ignore[arg-type]  # refused


def test_fused_activations_by_directmls_names() -> None:
    by_name = dml.fused_activation("DML_OPERATOR_ACTIVATION_ELU", Alpha=1, InputTensor=None, OutputTensor=None)
    assert by_name == _ELU
    made = dml.operator_desc(
        "ELEMENT_WISE_ADD1", ATensor=TENSOR, BTensor=TENSOR, OutputTensor=TENSOR, FusedActivation=by_name
    )
    assert made == _add1(TENSOR, _ELU)
    with pytest.raises(dml.UnsupportedError, match=r"^ACTIVATION_NONE: dmlvk has no such operator"):
        dml.fused_activation("ACTIVATION_NONE")
    with pytest.raises(dml.InvalidArgumentError, match=r"^ACTIVATION_ELU: has no member alpha; its members are "):
        dml.fused_activation("ACTIVATION_ELU", alpha=1.0)


def test_equality_is_that_of_bits() -> None:
    def linear(alpha: float, beta: float) -> dml.FusedActivation:
        return dml.FusedActivation(dml.ActivationLinear, alpha=alpha, beta=beta)

    assert linear(0.1, math.nan) == linear(float(np.float32(0.1)), math.nan)
    assert hash(linear(0.1, math.nan)) == hash(linear(0.1, math.nan))
    assert linear(0.0, 1.0) != linear(-0.0, 1.0)
    assert linear(1.0, 1.0) != dml.FusedActivation(dml.ActivationScaledTanh, alpha=1.0, beta=1.0)
    assert _add1(TENSOR, linear(0.0, 1.0)) != _add1(TENSOR, linear(-0.0, 1.0))
    assert repr(linear(0.5, 2)) == "FusedActivation(ActivationLinear, alpha=0.5, beta=2.0)"
    with pytest.raises(AttributeError, match="cannot be changed"):
        linear(0.0, 1.0).activation = dml.ActivationElu

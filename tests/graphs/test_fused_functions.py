"""Every element-wise function compiles in a fused kernel: as first, middle and last one, with every data type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import dmlvk as dml
from dmlvk.conformance.cases import attribute_sets
from dmlvk.graphs import GraphDesc, InputGraphEdge, IntermediateGraphEdge, OperatorGraphNode, OutputGraphEdge, stages
from dmlvk.graphs.fusion.functions import function_of
from dmlvk.graphs.fusion.grouping import _Grouping
from dmlvk.graphs.network import network
from dmlvk.graphs.stages import fused_stages
from dmlvk.kernels.library import glsl
from dmlvk.kernels.variants import supported_operands
from dmlvk.operators import REGULAR_OPERATORS, OperatorDesc
from dmlvk.support import faults
from tests.effort import IS_QUICK

SIZES = (2, 3, 50)
CARRIERS = {8: dml.UINT8, 16: dml.UINT16, 32: dml.UINT32, 64: dml.UINT64}


def _descriptions(kind: type[OperatorDesc], device: dml.Device) -> Iterator[OperatorDesc]:
    """With each combination of types, with attributes and without; of the quick command each type of each tensor."""
    seen: set[tuple[str, object]] = set()
    for types, _ in supported_operands(kind):
        if IS_QUICK and seen.issuperset(types.items()):
            continue
        members: dict[str, Any] = {name: dml.TensorDesc(data_type, SIZES) for name, data_type in types.items()}
        first = next(types[field.attribute] for field in kind.fields if field.attribute in types)
        sets = attribute_sets(kind, first)
        for attributes in sets[-1:] if IS_QUICK else (sets[0], sets[-1])[: len(sets)]:
            try:
                desc = device.create_operator(kind(**members, **attributes)).desc
            except dml.DmlError:
                continue  # not at this feature level, or not with these attributes
            seen.update(types.items())
            if function_of(desc, device.target) is not None:
                yield desc


def _around(desc: OperatorDesc, device: dml.Device, *, is_first: bool) -> GraphDesc:
    """The operator in front of another one; or between others, and its result among the outputs, too."""
    nodes = [OperatorGraphNode(device.create_operator(desc), "it")]
    inputs: list[InputGraphEdge] = []
    between: list[IntermediateGraphEdge] = []

    def identity(tensor: dml.TensorDesc) -> int:
        carried = dml.TensorDesc(CARRIERS[tensor.data_type.size_in_bits], SIZES)
        kind = dml.ElementWiseIdentity(input_tensor=carried, output_tensor=carried)
        nodes.append(OperatorGraphNode(device.create_operator(kind), f"n{len(nodes)}"))
        return len(nodes) - 1

    for number, (_, tensor) in enumerate(desc.inputs):
        if tensor is None:
            continue
        if is_first:
            inputs.append(InputGraphEdge(len(inputs), 0, number))
        else:
            node = identity(tensor)
            inputs.append(InputGraphEdge(len(inputs), node, 0))
            between.append(IntermediateGraphEdge(node, 0, 0, number))
    (result,) = (tensor for _, tensor in desc.outputs if tensor is not None)
    last = identity(result)
    between.append(IntermediateGraphEdge(0, 0, last, 0))
    outputs = [OutputGraphEdge(last, 0, 0), *([] if is_first else [OutputGraphEdge(0, 0, 1)])]
    return GraphDesc(len(inputs), len(outputs), nodes, inputs, outputs, between)


OPERATORS = sorted(name for name, kind in REGULAR_OPERATORS.items() if kind.declaration.pattern == "elementwise")


@pytest.mark.parametrize("operator", OPERATORS)
def test_a_function_compiles_at_every_place_of_a_kernel(
    operator: str, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Grouping, "_is_quickly_compiled", lambda *_: True)
    for desc in _descriptions(REGULAR_OPERATORS[operator], device):
        for is_first in (True, False):
            graph = network(_around(desc, device, is_first=is_first), device)
            made = fused_stages(graph, device.target, ())
            assert made.remark == "", f"{desc}: {made.remark}"
            assert len(made.stages) == 1, f"{desc} is not fused: {made.stages}"


def test_a_kernel_that_dmlvks_own_compiler_refuses_is_a_fault(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Users' graphs run one operator at a time, which the log tells; tests end."""
    monkeypatch.setattr(stages, "fused_kernel", lambda *_: glsl.compiled("#version 450\nthis is no shader"))

    def build() -> dml.CompiledGraph:
        graph = dml.Graph(device)
        return graph.compile(y=abs(-graph.input("x", dml.FLOAT32, (3,))))

    with pytest.raises(faults.FaultError, match=r"compiling .* as one kernel: .*refuses a fused kernel"):
        build()
    faults.reported.pop()
    monkeypatch.setenv("DMLVK_RAISE_FAULTS", "0")
    made = build()
    assert len(made.stages) == 2
    assert "a fault of dmlvk while compiling" in caplog.text
    assert (device.run(made, {"x": [1, -2, 3]})["y"] == [1, 2, 3]).all()

"""Control flow: the host decides which graph comes next; the graphs themselves run where they can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, shape_inference

from dmlvk.errors import DmlError, ModelFileError
from dmlvk.onnx.model.limits import Budget
from dmlvk.onnx.model.loading import OnnxModel, Step, captured_by
from dmlvk.support import faults

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})

RunGraph = Callable[[str, Mapping[str, Any]], list[Any]]
"""Computes the graph that an attribute of a node holds, from its inputs and what it takes from outside, by name."""


def run_control_flow(
    step: Step, values: Mapping[str, Any], run: RunGraph, model: OnnxModel, budget: Budget
) -> list[Any]:
    """What an If, Loop or Scan gives.

    Args:
        values: its inputs and whatever its graphs take from outside, by name.
        model: the node's.
        budget: what is left of the run's iterations.

    Raises:
        ModelFileError: naming the node, when it is not valid.
    """
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in step.proto.attribute}
    inputs = [values[name] if name else None for name in step.proto.input]
    runs = {"If": _if, "Loop": _loop, "Scan": _scan}

    def refused(error: Exception) -> ModelFileError:
        return ModelFileError(f"{model.name}: {step.label}: cannot be computed: {error}")

    def run_inside(name: str, given: Mapping[str, Any]) -> list[Any]:
        try:
            return run(name, given)
        except DmlError:
            raise
        except Exception as error:
            faults.report(error, f"running the graph {name!r} of {step.label}")
            raise refused(error) from error

    try:
        results = runs[step.proto.op_type](attributes, inputs, values, run_inside, budget)
    except DmlError:
        raise
    except ValueError as error:  # NumPy's, too: an input has another shape
        raise refused(error) from error
    except Exception as error:
        faults.report(error, f"running {step.label}")
        raise refused(error) from error
    if any(isinstance(made, _NoRows) for made in results):
        results = _of_no_rows(step, values, results, model.opsets)
    if len(results) < len(step.proto.output):
        raise ModelFileError(
            f"{model.name}: {step.label}: its graph gives {len(results)} of {len(step.proto.output)} outputs"
        )
    return results[: len(step.proto.output)]


def _outside(graph: onnx.GraphProto, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in captured_by(graph)}


def _if(
    attributes: dict[str, Any], inputs: Sequence[Any], values: Mapping[str, Any], run: RunGraph, budget: Budget
) -> list[Any]:
    branch = "then_branch" if bool(np.asarray(inputs[0]).reshape(())) else "else_branch"
    return run(branch, _outside(attributes[branch], values))


def _loop(
    attributes: dict[str, Any], inputs: Sequence[Any], values: Mapping[str, Any], run: RunGraph, budget: Budget
) -> list[Any]:
    body: onnx.GraphProto = attributes["body"]
    outside = _outside(body, values)
    trips = None if inputs[0] is None else _trips(np.asarray(inputs[0]))
    goes_on = len(inputs) < 2 or inputs[1] is None or bool(np.asarray(inputs[1]).reshape(()))
    carried = list(inputs[2:])
    gathered = _Gathered(len(body.output) - 1 - len(carried), budget, trips if _never_stops(body) else None)
    names = [info.name for info in body.input]
    done = 0
    with budget.loop(trips if goes_on and _never_stops(body) else None):
        while goes_on and (trips is None or done < trips):
            budget.iterate()
            given = dict(zip(names, [np.array(done, np.int64), np.array(goes_on), *carried], strict=True))
            results = run("body", outside | given)
            goes_on = bool(np.asarray(results[0]).reshape(()))
            carried = results[1 : 1 + len(carried)]
            gathered.add(results[1 + len(carried) :])
            done += 1
    infos = body.output[1 + len(carried) :]
    return [
        *carried,
        *(np.stack(rows) if rows else _NoRows(info) for rows, info in zip(gathered.rows, infos, strict=True)),
    ]


def _trips(given: npt.NDArray[Any]) -> int:
    if given.dtype.kind not in "iu":
        raise ValueError(f"the number of iterations must be an integer; got {given.dtype}")
    return max(int(given.reshape(())), 0)


class _Gathered:
    """What the iterations of a loop give, one after the other.

    Args:
        trips: how many iterations there will be; ``None``: that is not known.
    """

    def __init__(self, count: int, budget: Budget, trips: int | None) -> None:
        self.rows: list[list[Any]] = [[] for _ in range(count)]
        self._budget = budget
        self._trips = trips
        self._bytes = 0

    def add(self, results: Sequence[Any]) -> None:
        for rows, result in zip(self.rows, results, strict=True):
            rows.append(np.asarray(result))
            self._bytes += rows[-1].nbytes
        is_first = bool(self.rows) and len(self.rows[0]) == 1
        self._budget.check_gathered(self._bytes * self._trips if is_first and self._trips else self._bytes)


def _never_stops(body: onnx.GraphProto) -> bool:
    """Whether a loop's body gives the condition on as it is, so that the number of iterations alone counts."""
    if len(body.input) < 2 or not body.output:
        return False
    sources = {node.output[0]: node.input[0] for node in body.node if node.op_type == "Identity" and node.input}
    name, own = body.output[0].name, body.input[1].name
    for _ in range(len(sources) + 1):
        if name == own:
            return True
        if name not in sources:
            break
        name = sources[name]
    return False


class _NoRows(NamedTuple):
    """What a graph gathers that never runs."""

    row: onnx.ValueInfoProto  # what the graph says of its output
    axis: int = 0  # along which rows would lie

    def declared(self) -> onnx.TypeProto.Tensor:
        """What the graph says of all rows."""
        tensor = self.row.type.tensor_type
        sizes = [dimension.dim_value for dimension in tensor.shape.dim]
        sizes.insert(self.axis % (len(sizes) + 1), 0)
        return helper.make_tensor_type_proto(tensor.elem_type or onnx.TensorProto.FLOAT, sizes).tensor_type


def _of_no_rows(step: Step, values: Mapping[str, Any], results: list[Any], opsets: Mapping[str, int]) -> list[Any]:
    """What a graph gathers that never runs has the type and the sizes that follow from what its node reads, or else
    those that it declares; 0 where neither tells.
    """
    inputs = [_described(name, value) for name, value in values.items() if value is not None]
    graph = helper.make_graph([step.proto], "node", inputs, [])
    imports = [helper.make_opsetid(*opset) for opset in opsets.items()]
    found = shape_inference.infer_shapes(helper.make_model(graph, opset_imports=imports), data_prop=True).graph
    types = {info.name: info.type.tensor_type for info in found.value_info}
    made = list(results)
    for index, (name, result) in enumerate(zip(step.proto.output, results, strict=False)):
        if isinstance(result, _NoRows):
            kind = types.get(name, onnx.TypeProto.Tensor())
            kind = kind if kind.elem_type and kind.HasField("shape") else result.declared()
            sizes = [dimension.dim_value for dimension in kind.shape.dim]
            made[index] = np.zeros(sizes, helper.tensor_dtype_to_np_dtype(kind.elem_type))
    return made


def _described(name: str, value: Any) -> onnx.ValueInfoProto:
    if isinstance(value, list):
        element = helper.np_dtype_to_tensor_dtype(value[0].dtype) if value else onnx.TensorProto.FLOAT
        return helper.make_tensor_sequence_value_info(name, element, None)
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)


def _scan(
    attributes: dict[str, Any], inputs: Sequence[Any], values: Mapping[str, Any], run: RunGraph, budget: Budget
) -> list[Any]:
    body: onnx.GraphProto = attributes["body"]
    count = int(attributes["num_scan_inputs"])
    if not 1 <= count <= len(inputs):
        raise ValueError(f"num_scan_inputs is {count}; it has {len(inputs)} inputs")
    state, scanned = list(inputs[: len(inputs) - count]), [np.asarray(array) for array in inputs[len(inputs) - count :]]
    axes = list(attributes.get("scan_input_axes") or [0] * count)
    backwards = list(attributes.get("scan_input_directions") or [0] * count)
    gathers = len(body.output) - len(state)
    if gathers < 0:
        raise ValueError(f"its graph gives {len(body.output)} values for {len(state)} that it carries")
    output_axes = list(attributes.get("scan_output_axes") or [0] * gathers)
    output_backwards = list(attributes.get("scan_output_directions") or [0] * gathers)
    rows = [
        np.moveaxis(array, axis, 0)[:: -1 if back else 1]
        for array, axis, back in zip(scanned, axes, backwards, strict=True)
    ]
    lengths = {len(row) for row in rows}
    if len(lengths) != 1:
        raise ValueError(f"its inputs have {sorted(lengths)} elements along their axes")
    outside, names = _outside(body, values), [info.name for info in body.input]
    length = lengths.pop()
    gathered = _Gathered(gathers, budget, length)
    with budget.loop(length):
        for index in range(length):
            budget.iterate()
            given = dict(zip(names, [*state, *(np.array(row[index]) for row in rows)], strict=True))
            results = run("body", outside | given)
            state = results[: len(state)]
            gathered.add(results[len(state) :])
    made = [
        np.moveaxis(np.stack(found[:: -1 if back else 1]), 0, axis) if found else _NoRows(info, axis)
        for found, axis, back, info in zip(
            gathered.rows, output_axes, output_backwards, body.output[len(state) :], strict=True
        )
    ]
    return [*state, *made]

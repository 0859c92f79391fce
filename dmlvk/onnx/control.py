"""Control flow: the host decides which graph comes next; the graphs themselves run where they can."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from dmlvk.errors import ModelFileError
from dmlvk.onnx.loading import Step, captured_by

CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})

MOST_ITERATIONS = 2**15
"""Iterations of one loop; a file that asks for more does not end in a reasonable time."""

RunGraph = Callable[[str, Mapping[str, Any]], list[Any]]
"""Computes the graph that an attribute of a node holds, from its inputs and what it takes from outside, by name."""


def run_control_flow(step: Step, values: Mapping[str, Any], run: RunGraph, model: str) -> list[Any]:
    """What an If, Loop or Scan gives.

    Args:
        step: the node.
        values: its inputs and whatever its graphs take from outside, by name.
        run: computes a graph.
        model: its name, for messages.

    Raises:
        ModelFileError: naming the node, when it is not valid.
    """
    attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in step.proto.attribute}
    inputs = [values[name] if name else None for name in step.proto.input]
    runs = {"If": _if, "Loop": _loop, "Scan": _scan}
    try:
        results = runs[step.proto.op_type](attributes, inputs, values, run)
    except (ValueError, IndexError, TypeError, KeyError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{model}: {step.label}: cannot be computed: {error}") from error
    if len(results) < len(step.proto.output):
        raise ModelFileError(
            f"{model}: {step.label}: its graph gives {len(results)} of {len(step.proto.output)} outputs"
        )
    return results[: len(step.proto.output)]


def _outside(graph: onnx.GraphProto, values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in captured_by(graph)}


def _if(attributes: dict[str, Any], inputs: Sequence[Any], values: Mapping[str, Any], run: RunGraph) -> list[Any]:
    branch = "then_branch" if bool(np.asarray(inputs[0]).reshape(())) else "else_branch"
    return run(branch, _outside(attributes[branch], values))


def _loop(attributes: dict[str, Any], inputs: Sequence[Any], values: Mapping[str, Any], run: RunGraph) -> list[Any]:
    body: onnx.GraphProto = attributes["body"]
    outside = _outside(body, values)
    trips = MOST_ITERATIONS if inputs[0] is None else int(np.asarray(inputs[0]).reshape(()))
    goes_on = len(inputs) < 2 or inputs[1] is None or bool(np.asarray(inputs[1]).reshape(()))
    carried = list(inputs[2:])
    gathered: list[list[Any]] = [[] for _ in body.output[1 + len(carried) :]]
    names = [info.name for info in body.input]
    done = 0
    while goes_on and done < trips:
        if done == MOST_ITERATIONS:
            raise ValueError(f"more than {MOST_ITERATIONS} iterations")
        given = dict(zip(names, [np.array(done, np.int64), np.array(goes_on), *carried], strict=True))
        results = run("body", outside | given)
        goes_on = bool(np.asarray(results[0]).reshape(()))
        carried = results[1 : 1 + len(carried)]
        for rows, result in zip(gathered, results[1 + len(carried) :], strict=True):
            rows.append(np.asarray(result))
        done += 1
    if done == MOST_ITERATIONS and goes_on and inputs[0] is None:
        raise ValueError(f"more than {MOST_ITERATIONS} iterations")
    empty = [_empty(info) for info in body.output[1 + len(carried) :]]
    return [*carried, *(np.stack(rows) if rows else none for rows, none in zip(gathered, empty, strict=True))]


def _empty(info: onnx.ValueInfoProto) -> Any:
    """What a loop gathers that never runs."""
    tensor = info.type.tensor_type
    element = tensor.elem_type or onnx.TensorProto.FLOAT
    sizes = [dimension.dim_value for dimension in tensor.shape.dim]
    return np.zeros((0, *sizes), helper.tensor_dtype_to_np_dtype(element))


def _scan(attributes: dict[str, Any], inputs: Sequence[Any], values: Mapping[str, Any], run: RunGraph) -> list[Any]:
    body: onnx.GraphProto = attributes["body"]
    count = int(attributes["num_scan_inputs"])
    state, scanned = list(inputs[: len(inputs) - count]), [np.asarray(array) for array in inputs[len(inputs) - count :]]
    axes = list(attributes.get("scan_input_axes") or [0] * count)
    backwards = list(attributes.get("scan_input_directions") or [0] * count)
    gathers = len(body.output) - len(state)
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
    gathered: list[list[Any]] = [[] for _ in range(gathers)]
    for place in range(lengths.pop()):
        given = dict(zip(names, [*state, *(np.array(row[place]) for row in rows)], strict=True))
        results = run("body", outside | given)
        state = results[: len(state)]
        for found, result in zip(gathered, results[len(state) :], strict=True):
            found.append(np.asarray(result))
    made = []
    for found, axis, back, info in zip(gathered, output_axes, output_backwards, body.output[len(state) :], strict=True):
        stacked = np.stack(found[:: -1 if back else 1]) if found else _empty(info)
        made.append(np.moveaxis(stacked, 0, axis))
    return [*state, *made]

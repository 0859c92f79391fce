"""If whose condition is known while a model is planned: the nodes of its branch take its place."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper

from dmlvk.onnx.model.loading import OnnxModel, Step, subgraph
from dmlvk.onnx.nodes.values import Array

_numbers = itertools.count()


def branch_of(step: Step, model: OnnxModel, *, is_taken: bool) -> tuple[list[Step], dict[str, Array]]:
    """The nodes of a branch, which end in those that give the outputs of the If, and its constants.

    What the branch defines gets names that nothing else in the model has.

    Raises:
        ModelFileError: when the branch breaks a rule.
    """
    name = "then_branch" if is_taken else "else_branch"
    graph = next(attribute.g for attribute in step.proto.attribute if attribute.name == name)
    inner = subgraph(model, graph)
    prefix = f"{step.proto.name or step.proto.output[0]}/{next(_numbers)}/"
    own = [*inner.constants, *(output for made in inner.steps for output in made.proto.output if output)]
    names = {name: prefix + name for name in own}
    owner = step.index if step.index >= 0 else step.owner
    steps = [_renamed(made, names, prefix, owner) for made in inner.steps]
    version = model.opsets.get("", 1)
    schema = onnx.defs.get_schema("Identity", version)
    for info, output in zip(inner.outputs, step.proto.output, strict=False):
        if output:
            source = names.get(info.name, info.name)
            proto = helper.make_node("Identity", [source], [output], name=f"{prefix}{output}")
            steps.append(Step(-1, proto, schema, (source,), owner))
    return steps, {names[name]: array for name, array in inner.constants.items()}


def _renamed(step: Step, names: Mapping[str, str], prefix: str, owner: int) -> Step:
    proto = onnx.NodeProto()
    proto.CopyFrom(step.proto)
    proto.name = prefix + (proto.name or proto.op_type)
    _rename(proto, names)
    return Step(-1, proto, step.schema, tuple(names.get(name, name) for name in step.reads), owner)


def _rename(proto: Any, names: Mapping[str, str]) -> None:
    """Other names for what a node reads and writes, and for what graphs inside it take from outside."""
    proto.input[:] = [names.get(name, name) for name in proto.input]
    proto.output[:] = [names.get(name, name) for name in proto.output]
    for attribute in proto.attribute:
        for graph in [attribute.g] if attribute.HasField("g") else list(attribute.graphs):
            for node in graph.node:
                _rename(node, names)
            for info in graph.output:
                info.name = names.get(info.name, info.name)

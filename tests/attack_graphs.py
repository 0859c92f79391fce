"""Attacks by graphs: sound ones at random, of which nodes, edges, constants and inputs become something else."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import numpy as np

import dmlvk as dml
from dmlvk.graphs import ConstantGraphNode, GraphDesc
from tests.graphs.random_graphs import Builder

_STRANGE: tuple[Any, ...] = (
    None,
    -1,
    0,
    1,
    2,
    3,
    7,
    2**31,
    2**32 - 1,
    2**32,
    2**64,
    0.5,
    True,
    "x",
    "",
    [],
    np.int64(1),
)
_PARTS = ("nodes", "input_edges", "output_edges", "intermediate_edges")


def graph(seed: int, device: dml.Device) -> str:
    """A graph that is nearly sound is compiled, and run twice with inputs that nearly fit, with the same bits."""
    choose = random.Random(seed)
    made = Builder(device, choose).graph(choose.randint(1, 12))
    desc = made.desc
    inputs: dict[Any, Any] = dict(made.inputs)
    for _ in range(choose.choice((0, 1, 1, 2, 4))):
        desc = _changed(desc, choose)
    for _ in range(choose.choice((0, 0, 1))):
        _change_inputs(inputs, choose)
    compiled = device.compile_graph(desc, fuse=choose.random() < 0.7)
    first, second = (device.run(compiled, inputs) for _ in range(2))
    assert all(first[name].tobytes() == second[name].tobytes() for name in first), "other bits the second time"
    return "runs"


def _changed(desc: GraphDesc, choose: random.Random) -> GraphDesc:
    """The graph with something else in one place."""
    if choose.random() < 0.1:
        return dataclasses.replace(desc, **{choose.choice(("input_count", "output_count")): choose.choice(_STRANGE)})
    part = choose.choice(_PARTS)
    items = list(getattr(desc, part))
    if not items:
        return desc
    index, way = choose.randrange(len(items)), choose.randrange(5)
    if way == 0:
        del items[index]
    elif way == 1:
        items.insert(choose.randrange(len(items) + 1), items[index])
    elif way == 2:
        choose.shuffle(items)
    elif way == 3:
        items[index] = choose.choice((None, "x", 1, getattr(desc, choose.choice(_PARTS))))
    elif isinstance(items[index], ConstantGraphNode):
        contents = items[index].contents
        items[index] = ConstantGraphNode(contents[: choose.randrange(len(contents) + 1)] + b"x" * choose.randrange(3))
    else:
        name = choose.choice([field.name for field in dataclasses.fields(items[index])])
        items[index] = dataclasses.replace(items[index], **{name: choose.choice(_STRANGE)})
    changed: dict[str, Any] = {part: items}
    return dataclasses.replace(desc, **changed)


def _change_inputs(inputs: dict[Any, Any], choose: random.Random) -> None:
    """Something else for an input of a run, or another name."""
    if not inputs:
        return
    name = choose.choice(sorted(inputs))
    array = inputs.pop(name)
    others = (
        None,
        "x",
        3,
        array[:1],
        array[..., None],
        array.astype(np.complex64),
        array.astype(object),
        [[1], [1, 2]],
    )
    inputs[choose.choice((name, name, name, "nothing", 3))] = choose.choice((*others, array.T, array[..., ::-1]))

"""Random models of whose inputs contents decide; any number: ``python -m tests.attack --only deciding_contents``.

Shapes, places, counts and conditions are inputs, straight or behind nodes; what they may be follows from the arrays of
a run, so a model is computed node by node while its inputs are drawn. One session runs it at many of them, in any
order, and must give what ONNX Runtime gives. All numbers are small whole ones, so results are the same to the bit.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.content_model_steps import MOST_ELEMENTS, OPSET, STEPS, Array, ContentModel

_SIZES = (*(1, 2, 3, 4, 5, 7, 8, 9, 13, 16), *(1, 2, 3, 5))
_RUNS = 8


def _numbers(choose: random.Random, shape: Sequence[int]) -> Array:
    return np.random.default_rng(choose.getrandbits(32)).integers(-4, 5, shape)


@dataclasses.dataclass
class Outcome:
    label: str
    faults: list[str] = dataclasses.field(default_factory=list)
    runs: int = 0  # that ONNX Runtime has results of
    refusals: int = 0  # that it refuses
    open_rounds: int = 0
    rounds: int = 0


def model_of(seed: int, number: int) -> ContentModel:
    m = ContentModel(random.Random(f"contents {seed} {number}"))
    sizes: tuple[str | int, ...] = (*"abcd", 3)
    for _ in range(m.choose.randint(1, 2)):
        rank = m.choose.randint(1, 4)
        shape: list[str | int] = [m.choose.choice(sizes) for _ in range(rank)]
        name = m.input(TensorProto.FLOAT, shape, None)
        m.add(name, rank)
    for _ in range(m.choose.randint(2, 9)):
        for _ in range(20):
            if m.choose.choice(STEPS)(m):
                break
    return m


class _ByNodes:
    """Computes a model node by node by ONNX Runtime, while its inputs are drawn."""

    def __init__(self, m: ContentModel) -> None:
        self._model = m
        self._sessions: dict[int, onnxruntime.InferenceSession] = {}

    def feed(self, choose: random.Random, sizes: Mapping[str, int]) -> dict[str, Array] | None:
        there, feed = dict(self._model.constants), {}
        for item in self._model.order:
            if isinstance(item, str):
                _, shape = self._model.inputs[item]
                draw = self._model.draws[item]
                if draw is None:
                    drawn = _numbers(choose, [sizes[each] if isinstance(each, str) else each for each in shape])
                    feed[item] = drawn.astype(np.float32)
                else:
                    feed[item] = draw(choose, there)
                there[item] = feed[item]
                continue
            try:
                there.update(self._computed(item, there))
            except Exception:  # noqa: BLE001  # ONNX Runtime's have no base of their own
                return None
            if any(there[name].size > 8 * MOST_ELEMENTS for name in item.output):
                return None
        return feed

    def _computed(self, node: onnx.NodeProto, there: Mapping[str, Array]) -> dict[str, Array]:
        inner = [each.g for each in node.attribute if each.HasField("g")]
        read = dict.fromkeys(name for name in node.input if name)
        read |= dict.fromkeys(name for graph in inner for one in graph.node for name in one.input if name in there)
        session = self._sessions.get(id(node))
        if session is None:
            kinds = {name: (helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim) for name, a in there.items()}
            made = models.model([node], {name: kinds[name] for name in read}, node.output, opset=OPSET)
            session = models.onnx_runtime(made, is_optimized=False)
            self._sessions[id(node)] = session
        results = session.run(None, {name: there[name] for name in read})
        return dict(zip(node.output, results, strict=True))


def compared(seed: int, number: int, device: dml.Device) -> Outcome:
    """Runs a model at many contents, in any order, and holds each result against ONNX Runtime's."""
    m = model_of(seed, number)
    choose = m.choose
    shown = [value.name for value in (*m.floats, *m.integers) if value.name not in m.inputs]
    names = sorted({*shown[-2:], *choose.sample(shown, min(len(shown), 2))}) if shown else []
    outcome = Outcome(f"{seed} {number} ({' '.join(node.op_type for node in m.nodes)})")
    if not names:
        return outcome
    proto, by_nodes = m.proto(names), _ByNodes(m)
    try:
        reference = models.onnx_runtime(proto, is_optimized=False)
    except Exception:  # noqa: BLE001  # likewise
        return outcome
    feeds: list[dict[str, Array]] = []
    sizes: dict[str, int] = {}
    for _ in range(3 * _RUNS):
        if len(feeds) == _RUNS:
            break
        if not sizes or choose.random() < 0.6:
            sizes = {name: choose.choice((*_SIZES, 0) if choose.random() < 0.1 else _SIZES) for name in "abcd"}
        feed = by_nodes.feed(choose, sizes)
        if feed is not None:
            feeds.append(feed)
    if not feeds:
        return outcome
    order = [*range(len(feeds)), *(choose.randrange(len(feeds)) for _ in range(2 * len(feeds)))]
    with ort.InferenceSession(proto, device=device) as session:
        for run in order:
            feed = {name: array.copy() for name, array in feeds[run].items()}
            for name in sorted(m.constants.keys() & feed.keys()):
                if choose.random() < 0.3 and np.array_equal(feed[name], m.constants[name]):
                    del feed[name]
            is_sound = choose.random() > 0.15
            if not is_sound:
                _contradict(feed, choose)
            _one(outcome, session, reference, feed, choose, is_sound)
            if outcome.faults:
                break
    return outcome


def _contradict(feed: dict[str, Array], choose: random.Random) -> None:
    """Another integer among those that decide, which may not be allowed."""
    names = [name for name, array in feed.items() if array.dtype.kind == "i" and array.size]
    if names:
        array = feed[choose.choice(names)]
        array.reshape(-1)[choose.randrange(array.size)] = choose.randint(-4, 12)


def _bound(session: Any, feed: Mapping[str, Array], choose: random.Random) -> list[Array]:
    """A run of which some values lie on the device."""
    binding = session.io_binding()
    for name, array in feed.items():
        if choose.random() < 0.5 and array.size:
            binding.bind_ortvalue_input(name, ort.OrtValue.ortvalue_from_numpy(array, "dml"))
        else:
            binding.bind_cpu_input(name, array)
    for info in session.get_outputs():
        binding.bind_output(info.name, choose.choice(("cpu", "dml")))
    session.run_with_iobinding(binding)
    return [value.numpy().copy() for value in binding.get_outputs()]


def _one(
    outcome: Outcome,
    session: Any,
    reference: Any,
    feed: dict[str, Array],
    choose: random.Random,
    is_sound: bool,  # whether its integers were drawn for it
) -> None:
    try:
        wanted: list[Array] | None = reference.run(None, feed)
    except Exception:  # noqa: BLE001  # likewise
        wanted = None
    given = {name: array.copy() for name, array in feed.items()}
    try:
        found = _bound(session, given, choose) if choose.random() < 0.2 else session.run(None, given)
    except dml.DmlError as error:
        if wanted is not None and is_sound:  # ONNX Runtime takes some that break a rule
            shapes = {name: array.tolist() if array.size < 9 else array.shape for name, array in feed.items()}
            outcome.faults.append(f"{outcome.label}: {type(error).__name__}: {error}; {shapes}")
        outcome.refusals += 1
        return
    outcome.rounds += len(session._program.last)
    outcome.open_rounds += sum(made.is_open for made in session._program.last)
    for array in given.values():  # which may be used again by the caller
        array[...] = 1
    if wanted is None:
        outcome.refusals += 1
        return
    outcome.runs += 1
    for index, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if (a.dtype, a.shape) != (b.dtype, b.shape) or not np.array_equal(a, b):
            shapes = {name: array.tolist() if array.size < 9 else array.shape for name, array in feed.items()}
            outcome.faults.append(
                f"{outcome.label}: run {outcome.runs}: output {index}: {a.dtype}{a.shape} {a.reshape(-1)[:8]} for "
                f"{b.dtype}{b.shape} {b.reshape(-1)[:8]}; {shapes}"
            )
        if isinstance(a, np.ndarray) and a.size:
            a[...] = -77  # a caller's own

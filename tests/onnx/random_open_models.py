"""Random models with open sizes; any number of them: ``python -m tests.attack --only open_sizes``.

A model's sizes are names; it runs at a series of them by one session: nothing, one, powers of two, their neighbours,
primes. Each result must have the bits of a session that is made for these sizes alone, and be what ONNX Runtime gives.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx import models
from tests.onnx.open_model_draw import ModelDraw
from tests.onnx.open_model_steps import STEPS

Sizes = dict[str, int]

_SIZES = (
    *(0, 1, 2, 3, 4, 5, 7, 8, 9, 11, 13, 15, 16, 17, 19, 23, 29, 31, 32, 33, 37, 47, 61, 63, 64, 65, 67, 97),
    *(127, 128),
)
_LIKELIER = (1, 2, 5, 8, 13, 16, 17, 31, 33)
_MOST_ELEMENTS = 60_000
_RUNS = 5

_TOLERANCE = 2e-5
_TOLERANCE_OF_HALF = 2e-3
"""Of results in relation to the largest one; where some of what they are made of was rounded to FLOAT16, the second."""


@dataclasses.dataclass(frozen=True)
class OpenCase:
    label: str  # its number and its nodes
    model: onnx.ModelProto  # it
    names: tuple[str, ...]  # its open sizes
    series: tuple[Sizes, ...]  # sizes that it is run at, one after the other
    seed: int  # of the inputs

    def feed(self, run: int) -> dict[str, npt.NDArray[np.generic]]:
        numbers = np.random.default_rng([self.seed, run])
        made = {}
        for info in self.model.graph.input:
            tensor = info.type.tensor_type
            shape = [self.series[run].get(dim.dim_param, dim.dim_value) for dim in tensor.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(tensor.elem_type)
            drawn = numbers.integers(0, 4, shape) if dtype.kind in "iub" else numbers.standard_normal(shape)
            made[info.name] = np.asarray(drawn).astype(dtype)
        return made

    def alone(self, run: int) -> onnx.ModelProto:
        made = onnx.ModelProto()
        made.CopyFrom(self.model)
        for info in made.graph.input:
            for dim in info.type.tensor_type.shape.dim:
                if dim.dim_param:
                    dim.dim_value = self.series[run][dim.dim_param]
        return made


def case_of(seed: int, number: int) -> OpenCase:
    choose = random.Random(f"{seed} {number}")
    draw = ModelDraw(choose)
    for _ in range(choose.randint(2, 9)):
        for _ in range(20):
            if choose.choice(STEPS)(draw):
                break
    series: list[Sizes] = []
    while len(series) < _RUNS:
        sizes = {name: choose.choice(_SIZES if choose.random() < 0.6 else _LIKELIER) for name in draw.names}
        if choose.random() < 0.25 and series:
            sizes = {**series[-1], choose.choice(draw.names): choose.choice(_SIZES)}
        if draw.most_elements(sizes) <= _MOST_ELEMENTS:
            series.append(sizes)
    inputs = {name: (element, shape) for name, element, shape in draw.inputs()}
    model = models.model(draw.nodes, inputs, draw.outputs(), draw.constants, opset=20)
    words = " ".join(node.op_type for node in draw.nodes)
    return OpenCase(f"{seed} {number} ({words})", model, tuple(draw.names), tuple(series), number)


@dataclasses.dataclass
class Outcome:
    faults: list[str] = dataclasses.field(default_factory=list)  # what is wrong, one line each
    plans: int = 0  # how many plans the session has
    refusals: int = 0  # runs that ONNX Runtime refuses


Results = list[npt.NDArray[np.generic]]


def compared(case: OpenCase, device: dml.Device) -> Outcome:
    """Runs a model at its sizes, by one session and by others made for them alone."""
    outcome = Outcome()
    reference = _reference(case)
    casts = [node for node in case.model.graph.node if node.op_type == "Cast"]
    is_half = any(helper.get_node_attr_value(node, "to") == onnx.TensorProto.FLOAT16 for node in casts)
    tolerance = _TOLERANCE_OF_HALF if is_half else _TOLERANCE
    with ort.InferenceSession(case.model, device=device) as session:
        for run, sizes in enumerate(case.series):
            feed = case.feed(run)
            # What comes a second time is captured, and the third run replays it on contents of its own.
            for given in (feed, {name: array[::-1].copy() for name, array in feed.items()}):
                _of(session, given)
            found = _of(session, feed)
            try:
                with ort.InferenceSession(case.alone(run), device=device) as own:
                    alone = _of(own, feed)
            except dml.DmlError as error:
                alone = f"{type(error).__name__}: {error}"
            ends_it = 0 in sizes.values() and any(node.op_type == "Einsum" for node in case.model.graph.node)
            wanted = (
                "its Einsum divides by a size of 0, and ends the process" if ends_it else _expected(reference, feed)
            )
            if isinstance(wanted, str):
                outcome.refusals += 1
            difference = _bits(found, alone) or _numbers(found, wanted, tolerance)
            if difference and not isinstance(wanted, str):  # roundings that a model magnifies are no faults
                wider = tolerance + 4 * _magnified(reference, feed, wanted)
                difference = _bits(found, alone) or _numbers(found, wanted, wider)
            if difference:
                outcome.faults.append(f"{case.label}: at {sizes}: {difference}")
        outcome.plans = len(session._program._dynamic)
    return outcome


def _of(session: ort.InferenceSession, feed: Mapping[str, npt.NDArray[np.generic]]) -> Results | str:
    try:
        return [np.asarray(result) for result in session.run(None, dict(feed))]
    except dml.DmlError as error:
        return f"{type(error).__name__}: {error}"


def _reference(case: OpenCase) -> Any:
    try:
        return models.onnx_runtime(case.model, is_optimized=False)
    except Exception as error:  # noqa: BLE001  # its exceptions have no base of their own
        return str(error)


def _expected(reference: Any, feed: Mapping[str, npt.NDArray[np.generic]]) -> Results | str:
    if isinstance(reference, str):
        return reference
    try:
        return [np.asarray(result) for result in reference.run(None, dict(feed))]
    except Exception as error:  # noqa: BLE001  # likewise
        return str(error)


def _magnified(reference: Any, feed: Mapping[str, npt.NDArray[np.generic]], wanted: Results) -> float:
    """By what part of its largest number a result of ONNX Runtime's moves with inputs that are one ULP larger."""
    moved = {
        name: np.nextafter(array, np.inf, dtype=array.dtype) if array.dtype.kind == "f" else array
        for name, array in feed.items()
    }
    there, most = _expected(reference, moved), 0.0
    for one, other in zip([] if isinstance(there, str) else there, wanted, strict=False):
        if one.shape == other.shape and one.dtype.kind == "f":
            a, b = one.astype(np.float64), other.astype(np.float64)
            is_finite = np.isfinite(a) & np.isfinite(b)
            most = max(most, np.abs(a - b)[is_finite].max(initial=0.0) / np.abs(b[is_finite]).max(initial=1e-2))
    return most


def _bits(found: Results | str, alone: Results | str) -> str:
    """How results differ from those of a session for their sizes alone."""
    if isinstance(found, str) or isinstance(alone, str):
        both = isinstance(found, str) and isinstance(alone, str)
        return "" if both else f"open sizes: {_said(found)}; alone: {_said(alone)}"
    for index, (a, b) in enumerate(zip(found, alone, strict=True)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"output {index} is {a.dtype}{list(a.shape)}; alone {b.dtype}{list(b.shape)}"
        if a.tobytes() != b.tobytes():
            places = np.nonzero(np.frombuffer(a.tobytes(), np.uint8) != np.frombuffer(b.tobytes(), np.uint8))[0]
            return f"output {index} differs from the bits of a plan alone in {len(places)} bytes, from {places[0]} on"
    return ""


def _numbers(found: Results | str, wanted: Results | str, tolerance: float) -> str:
    """How results differ from ONNX Runtime's, where it has some."""
    if isinstance(wanted, str):
        return ""
    if isinstance(found, str):
        return f"ONNX Runtime has results: {_said(found)}"
    for index, (a, b) in enumerate(zip(found, wanted, strict=True)):
        if words := models.difference(a, b, tolerance):
            return f"output {index}: {words}, ONNX Runtime's"
    return ""


def _said(results: Results | str) -> str:
    return " ".join(results.split())[:200] if isinstance(results, str) else "results"


def results(device: dml.Device, seed: int, numbers: range) -> Iterator[tuple[OpenCase, Outcome]]:
    for number in numbers:
        case = case_of(seed, number)
        yield case, compared(case, device)

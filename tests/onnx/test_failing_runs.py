"""Runs that fail, and faults: nothing half done is left, and a fault is told, never taken for a refusal."""

from __future__ import annotations

import dataclasses
import logging
import signal
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import dmlvk as dml
import dmlvk.onnx as ort
from dmlvk.onnx.host.evaluation.call import FUNCTIONS, HostFunction
from dmlvk.onnx.nodes import derived
from dmlvk.onnx.nodes.translation import TRANSLATIONS
from dmlvk.onnx.plan import model_rounds
from dmlvk.runtime.prepared_launches import PreparedLaunches
from dmlvk.support import faults
from tests.onnx import models
from tests.onnx.models import model

SIZES = (5, 9, 40, 7)  # Memory is laid out anew for the second and the third one

_MOST_CALLS = 40


def _network() -> onnx.ModelProto:
    """Weights from which the device computes others once, and positions that follow from a size."""
    random = np.random.default_rng(3)
    nodes = models.parsed(
        "bounded = Erf (w)  shape = Shape (x)  count = Gather (shape, zero)  places = Range (zero, count, one)"
        " numbers = Cast <to = 1> (places)  column = Unsqueeze (numbers, axis)  sum = Add (x, column)"
        " y = MatMul (sum, bounded)"
    )
    constants = {"w": random.standard_normal((16, 24)).astype(np.float32), "axis": np.array([1])}
    constants |= {"zero": np.array(0), "one": np.array(1)}
    return model(nodes, {"x": ["n", 16]}, ["y"], constants)


def _given(size: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    return np.random.default_rng(size).standard_normal((size, 16)).astype(np.float32)


def _run(session: ort.InferenceSession, size: int, way: str) -> bytes:
    if way == "host":
        return bytes(session.run(None, {"x": _given(size)})[0].tobytes())
    value = ort.OrtValue.ortvalue_from_numpy(_given(size), "dml")
    return bytes(session.run_with_ort_values(None, {"x": value})[0].numpy().tobytes())


_STEPS = ("allocate", "stream", "record", "prepare", "record_prepared", "run")


@pytest.mark.parametrize(
    ("way", "step"),
    [*(("host", step) for step in _STEPS), *(("device", step) for step in (*_STEPS, "write", "submit_prepared"))],
)
def test_a_run_that_lacks_memory_somewhere_is_right_when_it_is_repeated(
    way: str, step: str, fresh: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = _network()
    wanted = {size: _run(ort.InferenceSession(proto, device=fresh), size, "host") for size in SIZES}
    engine = type(fresh.engine)
    works = getattr(engine, step)
    failures = 0
    for call in range(_MOST_CALLS):
        calls = 0

        def fails(*arguments: Any, at: int = call, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1:
                raise dml.OutOfMemoryError("for this test")
            return works(*arguments, **named)

        session = ort.InferenceSession(proto, device=fresh)
        monkeypatch.setattr(engine, step, fails)
        for size in (*SIZES, *SIZES):
            try:
                found = _run(session, size, way)
            except dml.OutOfMemoryError:
                failures += 1
                found = _run(session, size, way)
            assert found == wanted[size], f"size {size}, after call {call + 1} of {step} had failed"
        monkeypatch.undo()
        if calls <= call:
            break
    assert failures, f"nothing calls {step}"
    assert way == "device" or all(made.is_open for made in session._program.last)


def test_launches_that_could_not_be_bound_to_other_memory_are_bound_to_it_the_next_time(
    device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was noted of the attempt is not taken for what is bound."""
    session = ort.InferenceSession(_network(), device=device)
    bind = PreparedLaunches._bound_to

    def interrupted(*arguments: Any) -> Any:
        bind(*arguments)
        raise KeyboardInterrupt

    kept = []
    for number, size in enumerate((9, 12, 12, 12, 12, 12)):
        given = _given(size) + np.float32(number)
        value = ort.OrtValue.ortvalue_from_numpy(given, "dml")
        if number > 2:  # there is a plan for open sizes; what was given before is still there
            monkeypatch.setattr(PreparedLaunches, "_bound_to", interrupted)
            with pytest.raises(KeyboardInterrupt):
                session.run_with_ort_values(None, {"x": value})
            monkeypatch.undo()
        (result,) = session.run_with_ort_values(None, {"x": value})
        kept.append((value, result))
        (wanted,) = session.run(None, {"x": given})
        assert result.numpy().tobytes() == wanted.tobytes(), f"run {number}"


def broken(*_: Any, **__: Any) -> Any:
    """What stands in for code of dmlvk's own that has a fault."""
    return [][1]


def break_translator(patch: pytest.MonkeyPatch) -> None:
    (known,) = TRANSLATIONS["", "Exp"]
    patch.setitem(TRANSLATIONS, ("", "Exp"), [dataclasses.replace(known, translate=broken)])


def break_planner(patch: pytest.MonkeyPatch) -> None:
    """So does what makes plans for open sizes."""
    patch.setattr(model_rounds, "OpenSizes", broken)


def break_derived(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(derived, "_followed", broken)


def break_host_function(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(FUNCTIONS, ("", "Mul"), [HostFunction(1, broken)])


BREAKS = (break_translator, break_planner, break_derived, break_host_function)


@pytest.fixture(params=BREAKS, ids=lambda of: of.__name__)
def broken_dmlvk(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    request.param(monkeypatch)
    yield monkeypatch


def fault_model() -> onnx.ModelProto:
    """Exp(a) in the shape that twice as many rows would have: sizes are computed with."""
    nodes = models.parsed(
        "e = Exp (a)  s = Shape (e)  double = Mul (s, two_halves)  nine = Mul (three, three)"
        " r = Reshape (e, double)  y = Add (r, nine)"
    )
    nodes[4].input[1] = "sizes"
    nodes.insert(4, helper.make_node("Div", ["double", "two_halves"], ["sizes"]))
    constants = {"two_halves": np.array([2, 1]), "three": np.array([3], np.float32)}
    return models.model(nodes, {"a": ["rows", 2]}, ["y"], constants)


def runs(session: ort.InferenceSession) -> None:
    """At three sizes, compared with NumPy."""
    for rows in (3, 4, 7):
        a = np.arange(2 * rows, dtype=np.float32).reshape(rows, 2) / 8
        np.testing.assert_allclose(session.run(None, {"a": a})[0], np.exp(a) + 9, rtol=1e-5)


def test_a_fault_is_raised_in_tests(broken_dmlvk: pytest.MonkeyPatch, any_device: dml.Device) -> None:
    with pytest.raises(faults.FaultError, match="IndexError") as raised:
        runs(ort.InferenceSession(fault_model(), device=any_device))
    assert "broken" in faults.reported[0], raised.value
    faults.reported.clear()


def test_a_users_program_is_right_and_hears_of_the_fault(
    broken_dmlvk: pytest.MonkeyPatch, any_device: dml.Device, caplog: pytest.LogCaptureFixture
) -> None:
    broken_dmlvk.delenv("DMLVK_RAISE_FAULTS")
    broken_dmlvk.setattr(faults, "_kinds", set())
    with caplog.at_level(logging.WARNING, "dmlvk"):
        runs(ort.InferenceSession(fault_model(), device=any_device))
    told = [record.getMessage() for record in caplog.records if record.getMessage().startswith("a fault of dmlvk")]
    assert len(told) == 1 and "return [][1]" in told[0], told


@pytest.mark.skipif(not hasattr(signal, "SIGALRM"), reason="Windows has no timer that sends a signal")
@pytest.mark.parametrize("breaks", BREAKS, ids=lambda of: of.__name__)
def test_what_a_signals_handler_raises_in_the_middle_is_the_programs_and_no_fault(
    breaks: Callable[[pytest.MonkeyPatch], None], any_device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As time limits do: the exception comes out, and the session then computes as if nothing had been."""

    def out_of_time(*_: object) -> None:
        raise TimeoutError("the program's own")

    def interrupted(*_: object, **__: object) -> None:
        signal.raise_signal(signal.SIGALRM)

    before = signal.signal(signal.SIGALRM, out_of_time)
    try:
        session = ort.InferenceSession(fault_model(), device=any_device)
        with monkeypatch.context() as patch:
            patch.setattr("tests.onnx.test_failing_runs.broken", interrupted)
            breaks(patch)
            with pytest.raises(TimeoutError, match="the program's own"):
                runs(ort.InferenceSession(fault_model(), device=any_device))
                runs(session)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not faults.reported
    runs(session)


@pytest.mark.parametrize(
    ("op_type", "domain", "inputs", "attributes"),
    [
        ("FusedMatMul", "com.microsoft", [(2, 2), (2, 2)], {"alpha": "strange"}),
        ("FusedMatMul", "com.microsoft", [(2, 2), (2, 2)], {"transA": [1, 2]}),
        ("SkipLayerNormalization", "com.microsoft", [(1, 2, 4), (1, 2, 4), (4,)], {"epsilon": [1.0, 2.0]}),
        (
            "FusedConv",
            "com.microsoft",
            [(1, 1, 4, 4), (1, 1, 2, 2)],
            {"activation": "LeakyRelu", "activation_params": 2},
        ),
    ],
)
def test_an_attribute_of_another_type_is_an_error_of_the_model(
    op_type: str, domain: str, inputs: list[tuple[int, ...]], attributes: dict[str, Any], any_device: dml.Device
) -> None:
    names = [f"i{number}" for number in range(len(inputs))]
    node = helper.make_node(op_type, names, ["y"], domain=domain, **attributes)
    feed = {name: np.ones(size, np.float32) for name, size in zip(names, inputs, strict=True)}
    with pytest.raises(dml.DmlError, match=op_type):
        session = ort.InferenceSession(models.model([node], feed, ["y"]), device=any_device)
        session.run(None, feed)

"""Signals whose handlers raise, at every step of the provider: raised in the program, and nothing else changes."""

from __future__ import annotations

import gc
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import onnxruntime
import pytest

import dmlvk
import dmlvk.onnxruntime
from tests.onnxruntime.models import BOTH, WIDTH, chain, inputs, session_of

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no such signals")

_PACKAGE = str(Path(dmlvk.__file__).parent)
_PROVIDER = str(Path(dmlvk.onnxruntime.__file__).parent)
_ONNX_RUNTIME = str(Path(onnxruntime.__file__).parent)
_BATCH = 5


class _OfProgram(Exception):
    """What a program has for its time being over."""


KINDS = (KeyboardInterrupt, ValueError, TimeoutError, RuntimeError, SystemExit, _OfProgram, MemoryError)
"""ONNX Runtime's own Python takes the second and the fourth for a provider that fails."""


class _Signals:
    """A handler that raises, and counts how often it has."""

    def __init__(self) -> None:
        self.kind: type[BaseException] = KeyboardInterrupt
        self.count = 0

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
        raise self.kind


@pytest.fixture
def signals() -> Iterator[_Signals]:
    made = _Signals()
    before = signal.signal(signal.SIGALRM, made)
    try:
        yield made
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _create() -> Any:
    return session_of(chain())


def _on_device(array: Any) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array, "gpu", 0, dmlvk.onnxruntime.VENDOR_ID)


def _transfer() -> Any:
    (array,) = inputs(_BATCH).values()
    return _on_device(array).numpy().tobytes()


class _Bound:
    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.session = session
        self.binding = session.io_binding()

    def __call__(self) -> Any:
        self.binding.bind_ortvalue_input("x", _on_device(inputs(_BATCH)["x"]))
        place = ("gpu", 0, dmlvk.onnxruntime.VENDOR_ID)
        value = onnxruntime.OrtValue.ortvalue_from_shape_and_type([_BATCH, WIDTH], np.float32, *place)
        self.binding.bind_ortvalue_output("y", value)
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[0].numpy().tobytes()


def _actions() -> dict[str, Callable[[], Any]]:
    session = _create()
    return {
        "creation": _create,
        "run": lambda: session.run(None, inputs(_BATCH))[0].tobytes(),
        "first run": lambda: _create().run(None, inputs(_BATCH))[0].tobytes(),
        "transfer": _transfer,
        "bound run": _Bound(_create()),
    }


ACTIONS = ("creation", "run", "first run", "transfer", "bound run")


class _Steps:
    """Lets a signal come at one of the lines that dmlvk and ONNX Runtime's own Python execute, and counts them."""

    def __init__(self, at: int) -> None:
        self.at, self.count = at, 0

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith((_PACKAGE, _ONNX_RUNTIME)):
            return None
        if event == "line":
            self.count += 1
            if self.count == self.at:
                signal.raise_signal(signal.SIGALRM)
        return self

    def during(self, action: Callable[[], Any]) -> Any:
        sys.settrace(self)
        try:
            return action()
        finally:
            sys.settrace(None)


def _there() -> tuple[int, int]:
    """Blocks of memory that ONNX Runtime has, and the devices' allocations."""
    gc.collect()
    engines = {device.engine for device in dmlvk.onnxruntime._provider()._devices.values()}
    return dmlvk.onnxruntime.memory_blocks(), sum(len(engine._allocations) for engine in engines)


@pytest.mark.parametrize("name", ACTIONS)
def test_an_interrupt_at_any_step_is_raised_in_the_program_and_changes_nothing(name: str, signals: _Signals) -> None:
    action = _actions()[name]
    wanted = [action() for _ in range(4)].pop()  # runs that repeat others take fewer steps
    counted = _Steps(0)
    counted.during(action)
    assert counted.count > 3, "the provider is at work"
    before = _there()
    random = np.random.default_rng(sum(map(ord, name)))
    for turn, at in enumerate([1, 2, 3, *random.integers(1, counted.count - 2, 14).tolist()]):
        signals.kind, signals.count = KINDS[turn % len(KINDS)], 0
        with pytest.raises(signals.kind):
            _Steps(at).during(action)
        assert signals.count == 1
        assert _there() <= before, f"nothing is left of what was interrupted at step {at}"
        again = action()
        if name == "creation":
            assert again.get_providers() == BOTH
        else:
            assert again == wanted
        del again


class _Lines:
    """Lets a signal come where a line of the provider or of ONNX Runtime's own Python is executed for the first time.

    Attributes:
        begun: those that were executed, until the signal has come.
    """

    def __init__(self, at: tuple[str, int] | None) -> None:
        self.begun: dict[tuple[str, int], None] = {}
        self._at = at

    def __call__(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith((_PROVIDER, _ONNX_RUNTIME)):
            return None
        line = (frame.f_code.co_filename, frame.f_lineno)
        if event == "line" and line not in self.begun:
            self.begun[line] = None
            if line == self._at:
                sys.settrace(None)
                signal.raise_signal(signal.SIGALRM)
        return self


def test_an_interrupt_at_each_line_of_a_session_s_creation_is_raised_instead_of_the_session(signals: _Signals) -> None:
    """ONNX Runtime's own constructor would make another one without the provider, for errors of some kinds."""
    model = chain().SerializeToString()

    def create(at: tuple[str, int] | None) -> _Lines:
        lines = _Lines(at)
        sys.settrace(lines)
        try:
            session = onnxruntime.InferenceSession(model, providers=BOTH)
        finally:
            sys.settrace(None)
        assert session.get_providers() == BOTH
        return lines

    create(None)
    lines = list(create(None).begun)[::3]
    assert len({path for path, _ in lines}) > 5, "ONNX Runtime and the provider are at work"
    for turn, at in enumerate(lines):
        signals.kind, signals.count = KINDS[turn % len(KINDS)], 0
        with pytest.raises(signals.kind):
            create(at)
        assert signals.count == 1, at
    create(None)


def test_signals_at_any_time_are_raised_each_of_them(signals: _Signals) -> None:
    """As the system brings them: also while ONNX Runtime itself is at work, or on the way from it to Python."""
    actions = _actions()
    wanted = {name: action() for name, action in actions.items()}
    random = np.random.default_rng(7)
    raised = 0
    for turn in range(150):
        name = ACTIONS[turn % len(ACTIONS)]
        signals.kind, signals.count = KINDS[turn % 4], 0
        try:
            signal.setitimer(signal.ITIMER_REAL, float(random.uniform(2e-5, 3e-2 if "c" in name else 2e-3)))
            while not signals.count:
                actions[name]()
            time.sleep(0)  # Python raises with the next call, when a session was just let go
        except signals.kind:
            raised += 1
        assert raised == turn + 1, f"{signals.kind.__name__} in {name!r} was lost"
        if name != "creation":
            assert actions[name]() == wanted[name]


def test_a_session_that_was_interrupted_keeps_its_nodes_on_the_device(signals: _Signals) -> None:
    session = onnxruntime.InferenceSession(chain().SerializeToString(), providers=BOTH)  # which may fall back
    wanted = session.run(None, inputs(_BATCH))[0].tobytes()
    for at in range(1, 40, 3):
        with pytest.raises(KeyboardInterrupt):
            _Steps(at).during(lambda: session.run(None, inputs(_BATCH)))
        assert session.get_providers() == BOTH
        assert session.run(None, inputs(_BATCH))[0].tobytes() == wanted


def test_a_handler_that_raises_nothing_runs_when_the_call_is_over(signals: _Signals) -> None:
    session = _create()
    stacks: list[list[str]] = []

    def handler(_number: int, frame: FrameType | None) -> None:
        names = []
        while frame is not None:
            names.append(frame.f_code.co_filename)
            frame = frame.f_back
        stacks.append(names)

    signal.signal(signal.SIGALRM, handler)
    wanted = session.run(None, inputs(_BATCH))[0]
    (found,) = _Steps(5).during(lambda: session.run(None, inputs(_BATCH)))
    (names,) = stacks
    assert not any(name.startswith(_PACKAGE) for name in names)
    assert found.tobytes() == wanted.tobytes()

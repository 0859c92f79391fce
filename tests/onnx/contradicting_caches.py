"""Decoders whose caches contradict the rest; any number: ``python -m tests.attack --only contradicting_caches``.

Attention nodes over caches (tests/onnx/attention_forms.py) of which a size, a type, an input or a number is another one
than the rest asks for. ONNX Runtime, in a process of its own since it dies of some of them, and dmlvk must both refuse
the form, or both give the same numbers; dmlvk by one of its errors, with the caches unchanged, and the session then
computes the right form.
"""

from __future__ import annotations

import multiprocessing
import random
import re
import traceback
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

import dmlvk as dml
import dmlvk.onnx as ort
from tests.onnx.attention_forms import Array, Feed, Form, form_of

DOORS = ("fixed", "open", "bound", "provider")
"""Ways into dmlvk: sessions of fixed and of open sizes, caches bound on the device, ONNX Runtime's provider."""

REFUSED_HERE: tuple[tuple[str, str, str], ...] = (
    (
        "GroupQueryAttention",
        "says that a sequence has .* tokens; .* says at most|seqlens_k .* must be from",
        "total_sequence_length is the longest sequence's; ONNX Runtime holds seqlens_k against the caches' rows",
    ),
    (
        "MultiHeadAttention",
        "past_value .* must have the shape",
        "past values of another width than the new ones: ONNX Runtime reads them as if they had the keys' width",
    ),
    (
        "DecoderMaskedMultiHeadAttention",
        "beam_width .* must have elements",
        "ONNX Runtime reads the number that is not there",
    ),
)
"""What ONNX Runtime computes and dmlvk refuses: the form's operator, dmlvk's words, and why it is right."""

COMPUTED_HERE: tuple[tuple[str, str, str], ...] = (
    (
        "ai.onnx.Attention",
        "inconsistent total_sequence_length \\(between attn_mask",
        "from version 24 on a mask may have fewer columns: those that it has not hide their keys",
    ),
    (
        "ai.onnx.Attention",
        "inconsistent q_sequence_length \\(between attn_mask|attn_mask must be 2D",
        "a mask of one row, or of one dimension, is broadcast, as ONNX says",
    ),
    (
        "ai.onnx.Attention",
        "bound to different types",
        "values may be of another type than queries and keys, as ONNX says",
    ),
)
"""What ONNX Runtime refuses and dmlvk computes: the form's operator, ONNX Runtime's words, and why that is right."""

_CACHES = {"past_key": "present_key", "past_value": "present_value"}


def _serve(connection: Connection) -> None:
    """What the other process does: ONNX Runtime's results, or its words."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    while True:
        model, feed = connection.recv()
        try:
            session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            answer: Any = [np.asarray(result) for result in session.run(None, feed)]
        except Exception as error:  # noqa: BLE001 - its exceptions have no base of their own
            answer = " ".join(str(error).split())
        connection.send(answer)


class OnnxRuntime:
    """ONNX Runtime's CPU in a process of its own."""

    def __init__(self) -> None:
        self._process: Any = None
        self._connection: Any = None

    def run(self, form: Form) -> list[Array] | str:
        """Results of a form; or why there are none."""
        found = self._answer(form.with_presents.model(is_open=True), form.feed)
        return found if isinstance(found, str) else found[: len(form.outputs)]

    def _answer(self, model: bytes, feed: Feed) -> list[Array] | str:
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._connection, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other,), daemon=True)
            self._process.start()
            other.close()
        try:
            self._connection.send((model, feed))
            if self._connection.poll(60):
                answer: list[Array] | str = self._connection.recv()
                return answer
            why = "ends in a hang"
        except (EOFError, OSError):
            why = "ends in a crash"
        self.close()
        return why

    def close(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None


def _run(session: Any, form: Form, door: str) -> list[Array]:
    if door != "bound":
        return [np.asarray(result) for result in session.run(form.outputs, form.feed)]
    binding = session.io_binding()
    values = {}
    for name, array in form.feed.items():
        if name.startswith("past_") and array.ndim == 4 and array.size:
            values[name] = ort.OrtValue.ortvalue_from_numpy(array, "dml")
            binding.bind_ortvalue_input(name, values[name])
        else:
            binding.bind_cpu_input(name, array)
    totals = form.feed.get("total")  # of another type where that is what is wrong
    total = 2**40 if totals is None or totals.dtype.kind != "i" else int(totals.reshape(-1)[:1].sum())
    for name in form.outputs:
        past = next((past for past, present in _CACHES.items() if present == name), "")
        room = form.feed[past].shape[2] if past in values else 0
        is_shared = past in values and ("past_length" in form.feed or total <= room)
        if is_shared:
            binding.bind_ortvalue_output(name, values[past])
        else:
            binding.bind_output(name, "cpu" if name == "y" else "dml")
    try:
        binding.run()
    except dml.DmlError:
        for name, value in values.items():
            np.testing.assert_array_equal(
                value.numpy(), form.feed[name], err_msg=f"{name} was changed by a refused run"
            )
        raise
    return [np.asarray(value.numpy()) for value in binding.get_outputs()]


def _session(form: Form, door: str, device: dml.Device) -> Any:
    if door == "provider":  # what it does not claim is ONNX Runtime's
        import onnxruntime

        from dmlvk.onnxruntime import PROVIDER

        onnxruntime.set_default_logger_severity(4)
        return onnxruntime.InferenceSession(
            form.with_presents.model(is_open=True), providers=[PROVIDER, "CPUExecutionProvider"]
        )
    return ort.InferenceSession(form.model(is_open=door != "fixed"), device=device)


def _computed(form: Form, right: Form, door: str, device: dml.Device) -> tuple[list[Array] | str, list[Array] | str]:
    """Results of a form or why there are none; and those of the right form behind it, where the session takes it."""
    refusals: tuple[type[Exception], ...] = (dml.DmlError,)
    if door == "provider":
        from onnxruntime.capi import onnxruntime_pybind11_state as runtime

        kinds = [kind for kind in vars(runtime).values() if isinstance(kind, type) and issubclass(kind, Exception)]
        refusals = (dml.DmlError, *kinds, RuntimeError)
    try:
        session = _session(form, door, device)
    except refusals as error:
        return str(error), ""
    try:
        found: list[Array] | str = _run(session, form, door)
    except refusals as error:
        found = str(error)
    is_taken = door != "fixed" and _signature(form) == _signature(right)
    behind = _run(session, right, door) if is_taken else ""
    if door != "provider":
        session.close()
    return found, behind


def _signature(form: Form) -> Any:
    return form.attributes, {name: (array.dtype, array.ndim) for name, array in form.feed.items()}


def _is_listed(lists: tuple[tuple[str, str, str], ...], form: Form, words: str) -> bool:
    return any(re.fullmatch(operator, form.operator) and re.search(said, words) for operator, said, _ in lists)


def outcome_of(right: Form, form: Form, door: str, device: dml.Device, runtime: OnnxRuntime) -> tuple[str, str]:
    """``"same"``, ``"refused"``, ``"listed"`` or ``"fault"``; and what is wrong."""
    wanted, expected = runtime.run(form), runtime.run(right)
    found, behind = _computed(form, right, door, device)
    if isinstance(behind, list) and isinstance(expected, list) and (wrong := right.difference(behind, expected)):
        return "fault", f"the right form behind it: {wrong}"
    if isinstance(found, str):
        if isinstance(wanted, str):
            return "refused", found
        is_listed = _is_listed(REFUSED_HERE, form, found)
        return ("listed", found) if is_listed else ("fault", f"is refused: {found}")
    if isinstance(wanted, str):
        is_listed = _is_listed(COMPUTED_HERE, form, wanted)
        return ("listed", wanted) if is_listed else ("fault", f"gives numbers; ONNX Runtime: {wanted}")
    wrong = form.difference(found, wanted)
    return ("fault", wrong) if wrong else ("same", "")


def fault_of(seed: int, number: int, device: dml.Device, runtime: OnnxRuntime, doors: tuple[str, ...] = DOORS) -> Any:
    """The outcome of a form by one door, a label, and what is wrong."""
    right, form = form_of(seed, number)
    door = random.Random(f"door {seed} {number}").choice(doors)
    try:
        outcome, words = outcome_of(right, form, door, device, runtime)
    except Exception:  # noqa: BLE001 - whatever is raised is a fault
        outcome, words = "fault", " ".join(traceback.format_exc().split())[-700:]
    return outcome, f"{seed} {number} {door}: {form.label}", words

"""Single nodes by ONNX Runtime's CPU package, where it is installed."""

from __future__ import annotations

import functools
import importlib
import re
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from dmlvk.onnx.host.evaluation.call import NotComputed
from dmlvk.onnx.model.loading import Step
from dmlvk.onnx.model.node_attributes import subgraphs
from dmlvk.support import faults

_PACKAGE = "onnxruntime"
_IR_VERSION = 10  # Of the models that nodes become: what ONNX Runtime 1.18 and later read

_FOREIGN = re.compile("float4|float8|bfloat16|complex|int2|int4")
"""Types of which it makes no arrays, or such of other types."""

_BEYOND = 2**31
_NARROWED = ("", "com.microsoft")
_OF_64_BITS = ("Constant", "Shape")  # Operators whose integers have 64 bits by their meaning

_importing = threading.Lock()
_sessions: weakref.WeakKeyDictionary[Step, dict[tuple[bytes, ...], Any]] = weakref.WeakKeyDictionary()
_making = threading.Lock()


@functools.cache
def onnx_runtime() -> Any:
    """The package; ``None`` where there is none.

    In a program that has dmlvk.onnx in its place (``dmlvk.onnx.install``) that one stays there.
    """
    with _importing:
        found = _theirs()
        # a process whose environment asks for dmlvk.onnx in its place has that one now, and it stays
        return found if getattr(found, "__name__", _PACKAGE) == _PACKAGE else _theirs()


def _theirs() -> Any:
    is_theirs = getattr(sys.modules.get(_PACKAGE), "__name__", _PACKAGE) == _PACKAGE
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if not is_theirs and _is_of_package(name)}
    try:
        found = importlib.import_module(_PACKAGE)
        return found if hasattr(found, "InferenceSession") else None
    except ImportError:
        return None
    finally:
        if hidden:
            for name in [name for name in sys.modules if _is_of_package(name)]:
                del sys.modules[name]
            sys.modules.update(hidden)


def _is_of_package(name: str) -> bool:
    return name == _PACKAGE or name.startswith(f"{_PACKAGE}.")


def computed(
    step: Step, values: Mapping[str, Any], opsets: Mapping[str, int], is_narrow: Sequence[bool] = ()
) -> list[Any]:
    """What a node gives.

    BFLOAT16, for which the package has next to no operators, becomes FLOAT, and the results are rounded to it.

    Args:
        values: its inputs and whatever its subgraphs read, by name.
        opsets: versions of the operator sets.
        is_narrow: of each output, whether it is of BFLOAT16; empty: nobody knows.

    Raises:
        NotComputed: when there is no such package, or it does not have this operator for these types.
        ValueError: when the node cannot be computed from these values.
    """
    for attribute in step.proto.attribute:
        if abs(attribute.i) >= _BEYOND and step.domain in _NARROWED and step.proto.op_type not in _OF_64_BITS:
            # It takes the lower 32 bits of many of them, and divides by what may be 0 then: the process would end.
            raise NotComputed(f"{attribute.name} is {attribute.i}, which takes more than 32 bits")
    if _would_end(step, values):
        raise NotComputed("takes no such inputs without elements")
    if onnx_runtime() is None:
        raise NotComputed("is not installed (pip install onnxruntime)")
    narrow = next((value.dtype for value in values.values() if _is_narrow(value)), None)
    if narrow is not None and not is_narrow:
        raise NotComputed(f"takes no {narrow} from here")
    feeds = {
        name: _fed(values[name].astype(np.float32) if _is_narrow(values[name]) else values[name]) for name in step.reads
    }
    key = tuple(_type_of(value).SerializeToString() for value in feeds.values())
    with _making:
        made = _sessions.setdefault(step, {})
        if key not in made:
            made[key] = _session(step, feeds, opsets)
    session = made[key]
    if isinstance(session, str):
        raise NotComputed(session)
    names = [name for name in step.proto.output if name]
    try:
        found = iter(session.run(names, feeds))
    except Exception as error:  # its exceptions have no base of their own
        faults.raise_of_handler(error)
        raise ValueError(_said(error)) from error
    results = [_result(next(found)) if name else None for name in step.proto.output]
    if narrow is None:
        return results
    pairs = zip(results, is_narrow, strict=True)
    return [made.astype(narrow) if of and made is not None else made for made, of in pairs]


def _would_end(step: Step, values: Mapping[str, Any]) -> bool:
    """Whether the package (1.32) may end the process: by slices without elements that are compared, such pictures,
    steps and terms, or what has none beside a first input that has some. (Rules of its attention's say what of caches
    may have none.)
    """
    empty = [value for value in values.values() if isinstance(value, np.ndarray) and not value.size]
    if step.proto.op_type == "Unique":
        axes = [attribute.i for attribute in step.proto.attribute if attribute.name == "axis"]
        return any(value.shape[axis] for value in empty for axis in axes if -value.ndim <= axis < value.ndim)
    if step.domain == "com.microsoft" and "Attention" not in step.proto.op_type:
        return bool(empty) and bool(np.size(values.get(step.proto.input[0], ())))
    if step.proto.op_type in ("GRU", "LSTM", "RNN"):
        return 0 in np.shape(values[step.proto.input[0]])
    return step.proto.op_type in ("ConvTranspose", "Einsum") and bool(empty)


def _is_narrow(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.name == "bfloat16"


def _session(step: Step, feeds: Mapping[str, Any], opsets: Mapping[str, int]) -> Any:
    """A session of one node; or why there is none."""
    runtime = onnx_runtime()
    graph = helper.make_graph(
        [step.proto],
        "node",
        [helper.make_value_info(name, _type_of(value)) for name, value in feeds.items()],
        [onnx.ValueInfoProto(name=name) for name in step.proto.output if name],
    )
    versions = dict(opsets)
    if step.schema is not None and not any(True for _ in subgraphs(step.proto)):
        versions = {step.domain: step.version}  # the same operator, of a version that older packages know, too
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    proto = helper.make_model(graph, opset_imports=imports, ir_version=_IR_VERSION)
    options = runtime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.enable_cpu_mem_arena = options.enable_mem_pattern = False
    options.log_severity_level = 4
    try:
        session = runtime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
        foreign = [argument.type for argument in session.get_outputs() if _FOREIGN.search(argument.type)]
        return f"gives {foreign[0]}, which NumPy has not" if foreign else session
    except Exception as error:  # noqa: BLE001 - its exceptions have no base of their own
        faults.raise_of_handler(error)
        return _said(error)


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text.partition("Status Message: ")[2] or text.removeprefix("[ONNXRuntimeError] : ")


def _type_of(value: Any) -> onnx.TypeProto:
    """The type of a value.

    Raises:
        NotComputed: when it has none that ONNX Runtime takes.
    """
    if isinstance(value, np.ndarray):
        return helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(value.dtype), None)
    if isinstance(value, (list, tuple)):
        inner = _type_of(value[0]) if value else helper.make_tensor_type_proto(TensorProto.FLOAT, None)
        return helper.make_sequence_type_proto(inner)
    if isinstance(value, dict) and value:
        key, element = next(iter(value.items()))
        kinds, elements = _kind_of(key), _kind_of(element)
        if kinds is not None and elements is not None:
            proto = onnx.TypeProto()
            proto.map_type.key_type = kinds
            proto.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(elements, None))
            return proto
    raise NotComputed(f"takes no {type(value).__name__}")


def _kind_of(value: Any) -> int | None:
    """The element type of a key or a value of a map."""
    if isinstance(value, str):
        return TensorProto.STRING
    if isinstance(value, (int, np.integer)):
        return TensorProto.INT64
    return TensorProto.FLOAT if isinstance(value, (float, np.floating)) else None


def _fed(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.kind == "V" or (value.dtype.kind not in "biufOU" and value.dtype.isbuiltin != 1):
            raise NotComputed(f"takes no {value.dtype} from here")
        return np.require(value, requirements=["C", "A"])  # weights in a file may begin at any byte
    if isinstance(value, (list, tuple)):
        return [_fed(part) for part in value]
    return value


def _result(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, np.generic) else value

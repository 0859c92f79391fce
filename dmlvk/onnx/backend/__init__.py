"""The ONNX project's own interface for backends, so that its test suite runs unchanged::

import onnx.backend.test
import dmlvk.onnx.backend
tests = onnx.backend.test.BackendTest(dmlvk.onnx.backend, __name__).test_cases
"""

from __future__ import annotations

import atexit
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper
from onnx.backend.base import Backend, BackendRep, namedtupledict

from dmlvk.device import Device
from dmlvk.onnx.api.session import InferenceSession


@functools.cache
def _device(selector: int | str | None) -> Device:
    device = Device(selector)
    atexit.register(device.close)
    return device


class DmlvkBackendRep(BackendRep):
    """A model that is ready to run.

    Attributes:
        session: what runs it.
    """

    def __init__(self, session: InferenceSession) -> None:
        self.session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Runs the model.

        Args:
            inputs: an array for each input, in order or by name; a single one may stand for itself.
            kwargs: ignored.
        """
        names = [argument.name for argument in self.session.get_inputs()]
        if isinstance(inputs, Mapping):
            feed = dict(inputs)
        elif isinstance(inputs, Sequence) and not isinstance(inputs, (str, bytes)):
            feed = dict(zip(names, inputs, strict=False))
        else:
            feed = {names[0]: np.asarray(inputs)}
        outputs = self.session.run(None, feed)
        made = namedtupledict("Outputs", [argument.name for argument in self.session.get_outputs()])
        return made(*outputs)


class DmlvkBackend(Backend):
    """dmlvk as a backend of ONNX. Its device ``CPU`` is dmlvk's default device, whatever that is."""

    @classmethod
    def is_compatible(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        return True

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether the suite is to run with this kind of device."""
        return device.split(":")[0] == "CPU"

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> DmlvkBackendRep:
        """Loads a model.

        Args:
            model: the model.
            device: ``CPU``, or what ``dmlvk.Device`` takes to choose one.
            kwargs: as for :class:`dmlvk.onnx.InferenceSession`.
        """
        selector = None if device.split(":")[0] == "CPU" else device
        return DmlvkBackendRep(InferenceSession(model, device=_device(selector), **kwargs))

    @classmethod
    def run_node(
        cls,
        node: onnx.NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[np.dtype[Any], tuple[int, ...]]] | None = None,
        **kwargs: Any,
    ) -> tuple[Any, ...]:
        """Runs one node of the newest operator set that the onnx package has, or of ``opset_version``."""
        version = int(kwargs.pop("opset_version", onnx.defs.onnx_opset_version()))
        arrays = [np.asarray(array) for array in inputs]
        names = [name for name in node.input if name]
        graph = helper.make_graph(
            [node],
            "node",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
                for name, array in zip(names, arrays, strict=True)
            ],
            [helper.make_value_info(name, onnx.TypeProto()) for name in node.output if name],
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid(node.domain, version)])
        return cls.prepare(model, device, **kwargs).run(arrays)


prepare = DmlvkBackend.prepare
run_model = DmlvkBackend.run_model
run_node = DmlvkBackend.run_node
supports_device = DmlvkBackend.supports_device
is_compatible = DmlvkBackend.is_compatible

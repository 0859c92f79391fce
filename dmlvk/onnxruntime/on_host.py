"""A part of a graph by ONNX Runtime's CPU provider, for runs that the device turns out not to be able to do.

What a part needs of a device may depend on sizes that only a run has: a tensor may be larger than a buffer, say.
ONNX Runtime has handed the part over by then. So nothing ends in an error that the CPU provider alone would compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as kinds

from dmlvk.errors import (
    DeviceLimitError,
    DmlError,
    InvalidArgumentError,
    ModelFileError,
    OutOfMemoryError,
    UnsupportedError,
)
from dmlvk.onnx.model.loading import OnnxModel
from dmlvk.onnx.plan.execution import DeviceValue, Resident
from dmlvk.support.mapped_files import check_unchanged

DEVICE_CANNOT = (DeviceLimitError, ModelFileError, OutOfMemoryError, UnsupportedError)
"""What the device cannot do, and the host may."""

REFUSED = (*DEVICE_CANNOT, InvalidArgumentError)
"""What is tried on the host: inputs that contradict one another, too, since ONNX Runtime's own provider knows by which
kind of error it refuses them. A lost device is not among it."""

_CODES = {"InvalidArgument": 2, "RuntimeException": 6, "NotImplemented": 9, "InvalidGraph": 10}
"""OrtErrorCode of ONNX Runtime's exceptions that runs raise, beside Fail."""

FAIL = 1  # OrtErrorCode. It is no EP_FAIL, after which ONNX Runtime's sessions compute by its CPU provider for ever

_SMALL = 2**20  # Bytes of constants that the session gets a copy of; larger ones are given to each run


class HostRefusedError(Exception):
    """ONNX Runtime's CPU provider cannot compute a part either; the message has its words."""

    def __init__(self, error: Exception) -> None:
        super().__init__(f"{error}")
        # OrtErrorCode of that
        self.code = next((code for name, code in _CODES.items() if isinstance(error, getattr(kinds, name))), FAIL)


class RefusedRunError(DmlError):
    """A run that neither the device nor the host can do.

    Args:
        error: the device's, which names node and rule.
    """

    def __init__(self, error: DmlError, code: int) -> None:
        super().__init__(f"{error}")
        self.code = code


class HostPart:
    """A part, ready to run on the host.

    Raises:
        HostRefusedError: when ONNX Runtime makes no session of it.
        ChangedFileError: when weights lie in a file that was written to since the model was loaded.
    """

    def __init__(self, model: OnnxModel, outputs: Sequence[str]) -> None:
        check_unchanged(model.constants.values())
        self._outputs = list(outputs)
        self._given: dict[str, Any] = {}
        proto = onnx.ModelProto()
        proto.CopyFrom(model.proto)
        for name, array in model.constants.items():
            if array.nbytes <= _SMALL or array.dtype.kind == "V":
                proto.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
            else:
                element = helper.np_dtype_to_tensor_dtype(array.dtype)
                proto.graph.input.append(helper.make_tensor_value_info(name, element, array.shape))
                self._given[name] = array
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        contents = proto.SerializeToString()
        try:
            self._session = onnxruntime.InferenceSession(contents, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # its exceptions have no base of their own
            raise HostRefusedError(error) from error

    def run(self, arrays: Mapping[str, Any]) -> dict[str, Any]:
        """The outputs, by their names.

        Raises:
            HostRefusedError: when ONNX Runtime does not compute them.
            ChangedFileError: as for this class.
        """
        check_unchanged(self._given.values())
        feed = {
            name: value.array() if isinstance(value, (DeviceValue, Resident)) else value
            for name, value in arrays.items()
        }
        try:
            found = self._session.run(self._outputs, {**feed, **self._given})
        except Exception as error:  # likewise
            raise HostRefusedError(error) from error
        return dict(zip(self._outputs, found, strict=True))

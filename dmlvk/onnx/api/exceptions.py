"""ONNX Runtime's exceptions: names for dmlvk's own, so that a program catches what it would have caught there."""

from __future__ import annotations

from dmlvk.errors import DeviceRemovedError, DmlError, InvalidArgumentError, ModelFileError, UnsupportedError


class NoSuchFile(ModelFileError):
    """The model's file is not there."""


class InvalidProtobuf(ModelFileError):
    """The model's bytes are no ONNX model."""


class InvalidModel(ModelFileError, InvalidArgumentError):
    """A model without a graph, or with a node that reads what nothing computes: ONNX Runtime's InvalidArgument."""


class NotAModel(InvalidArgumentError, TypeError):
    """Neither a path nor a model: ONNX Runtime's TypeError."""


DeviceReset = EPFail = DeviceRemovedError
EngineError = Fail = NotFound = RuntimeException = DmlError
InvalidArgument = InvalidArgumentError
InvalidGraph = ModelLoaded = NoModel = ModelRequiresCompilation = ModelLoadCanceled = ModelFileError
NotImplemented = UnsupportedError

__all__ = [
    "DeviceReset", "EPFail", "EngineError", "Fail", "InvalidArgument", "InvalidGraph", "InvalidProtobuf",
    "ModelLoadCanceled", "ModelLoaded", "ModelRequiresCompilation", "NoModel", "NoSuchFile", "NotFound",
    "NotImplemented", "RuntimeException",
]  # fmt: skip

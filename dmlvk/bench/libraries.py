"""What a library must be able to do to be measured, and which libraries there are."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from dmlvk.bench.task import Array, Task


class Prepared(Protocol):
    def result(self) -> Array:
        """Computes once, and brings the first output to NumPy."""

    def seconds(self, repeats: int) -> float:
        """Computes several times back to back; the time of one on the device, or by the wall where it has no clock."""

    def wall_seconds(self) -> float:
        """Computes once, from the call until the result is there (on the device); the time by the wall."""

    def close(self) -> None:
        """Frees the memory."""


class Library(Protocol):
    """Something that can compute a task.

    Attributes:
        name: as it is known.
        version: its version.
        device: what it computes on.
        on_gpu: whether that is a GPU.
    """

    name: str
    version: str
    device: str
    on_gpu: bool

    def prepare(self, task: Task, inputs: Mapping[str, Array]) -> Prepared | None:
        """Makes a task ready; ``None`` where the library does not have the function, the type or the layout.

        Args:
            inputs: the task's.
        """


def module(name: str) -> Any:
    """An installed module; ``None`` where it is not installed, or does not load on this machine."""
    try:
        return importlib.import_module(name)
    except (ImportError, OSError, RuntimeError):
        return None


_MODULES = {
    "numpy": ("dmlvk.bench.numpy_library", "NumPyLibrary"),
    "torch": ("dmlvk.bench.torch_library", "TorchLibrary"),
    "onnxruntime": ("dmlvk.bench.onnx_runtime_library", "OnnxRuntimeLibrary"),
}
LIBRARIES = tuple(_MODULES)  # The libraries to compare with


@contextlib.contextmanager
def opened(names: Sequence[str], device: Any) -> Iterator[tuple[list[Library], dict[str, str]]]:
    """Opens those libraries that are there.

    Args:
        names: of ``LIBRARIES``.
        device: the dmlvk device that the others are compared with.

    Yields:
        The libraries; and for each that cannot be used the reason.
    """
    libraries: list[Library] = []
    absent: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        for name in names:
            where, class_name = _MODULES[name]
            made = getattr(importlib.import_module(where), class_name).open(device)
            if isinstance(made, str):
                absent[name] = made
                continue
            stack.callback(getattr(made, "close", lambda: None))
            libraries.append(made)
        yield libraries, absent

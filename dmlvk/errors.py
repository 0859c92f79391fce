"""The errors that dmlvk raises; all are subclasses of :class:`DmlError`.

A message names the operator or object, the member, the rule with the numbers that break it, and what would be
accepted. DirectML reports the same situations as ``E_INVALIDARG``, ``DXGI_ERROR_UNSUPPORTED``, ``E_OUTOFMEMORY`` or
device removal.
"""

from __future__ import annotations

import re

_LONGEST = 2000
"""Characters of a message that quotes what it was given."""


def _one_line(text: str) -> str:
    line = re.sub(r"\s*\n\s*", " ", text.strip())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 200]} … {line[-190:]}"


class DmlError(Exception):
    """The base of every error that dmlvk raises on purpose."""


class InvalidArgumentError(DmlError, ValueError):
    """An argument, description or binding breaks one of DirectML's rules (DirectML: ``E_INVALIDARG``).

    What is quoted of a long argument is shortened, and its lines become one.
    """

    def __init__(self, *arguments: object) -> None:
        super().__init__(*(_one_line(text) if isinstance(text, str) else text for text in arguments))


class CallError(InvalidArgumentError, TypeError):
    """A function of ``dmlvk.functions``, or a description, was given a name that it does not have, or lacks one."""


class DataTypeError(InvalidArgumentError, TypeError):
    """Arrays or numbers of these data types are not combined, or the device does not compute with them."""


class IndexRangeError(InvalidArgumentError, IndexError):
    """An index of an array lies outside of it."""


class CopyError(InvalidArgumentError, BufferError):
    """Elements would have to be copied, or given in another way, than was asked for."""


class UnsupportedError(DmlError):
    """The rule book allows it, but this feature level, or this version of dmlvk, does not."""


class DeviceLimitError(DmlError):
    """A size or count is above what the chosen device can do.

    Attributes:
        node: the place in its graph of the node whose work is too large, where it is one's.
    """

    def __init__(self, *arguments: object, node: int | None = None) -> None:
        super().__init__(*arguments)
        self.node = node


class OutOfMemoryError(DmlError, MemoryError):
    """A buffer does not fit into the memory that is left."""


class DeviceNotFoundError(DmlError):
    """No Vulkan loader, no driver, or no device that matches the choice."""


class DeviceRemovedError(DmlError):
    """The device was lost or closed; every later call on it raises this too (DirectML: ``DEVICE_REMOVED``)."""


class ValidationLayerError(DmlError):
    """The Vulkan validation layer, switched on by ``DMLVK_VALIDATION``, reported a misuse of Vulkan."""


class ShaderLibraryError(DmlError):
    """A compiled shader is missing from the package or damaged; or, in a source checkout, it cannot be compiled."""


class ShaderCompilationError(DmlError):
    """The machine's GLSL compiler does not work, or refuses a kernel that was put together for a graph."""


class ModelFileError(DmlError):
    """A model file cannot be read or breaks a rule of its format; the message begins with ``file:line:column:``."""


class ArithmeticWarning(UserWarning):
    """A device was opened whose arithmetic breaks what results rely on; the message names what, with an example."""

"""A device of PyTorch's: ``tensor.to("dmlvk")``, by its interface for devices written in Python."""

from __future__ import annotations

import _thread
import functools
import logging
import signal
import sys
import threading
import time
import traceback
import weakref
from types import FrameType
from typing import Any

import torch
from torch._dynamo.eval_frame import skip_code
from torch.utils import backend_registration, weak

from dmlvk.errors import UnsupportedError
from dmlvk.torch.composites import COMPOSITES, OWN
from dmlvk.torch.device import autocast, memory, module, steps
from dmlvk.torch.device.composed import COMPOSED
from dmlvk.torch.device.kernels import Kernel, fallbacks, functional_of, set_fallback, tell
from dmlvk.torch.device.lists import list_kernels
from dmlvk.torch.device.tensors import DeviceStorage
from dmlvk.torch.device.transfers import SPECIAL, stored
from dmlvk.torch.lowering import LOWERINGS
from dmlvk.torch.types import NAME

_log = logging.getLogger("dmlvk")

_libraries: list[torch.library.Library] = []


def _is_registered(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _kernels() -> dict[str, Any]:
    """What is registered: by names, what the table or the decompositions have, and what writes their results."""
    from dmlvk.torch.decompositions import decompositions

    known = {str(operator) for operator in (*decompositions(), *COMPOSITES)} | {f"aten.{name}" for name in LOWERINGS}
    made: dict[str, Any] = {}
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        if space != "aten" or _is_registered(full, "CompositeImplicitAutograd"):
            continue
        name, _, overload = rest.partition(".")
        try:
            operator = getattr(getattr(torch.ops.aten, name), overload or "default")
        except AttributeError:
            continue
        functional = functional_of(operator)
        is_view = any(one.alias_info and not one.alias_info.is_write for one in operator._schema.returns)
        is_view |= torch.Tag.inplace_view in operator.tags
        is_empty = name.removeprefix("new_").startswith("empty")  # PyTorch makes it by empty_strided
        if functional is not None and str(functional) in known and not is_view and not is_empty:
            made[rest] = Kernel(operator, functional)
    made |= SPECIAL
    return made | dict(list_kernels(made))


def _fallback(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """Any other operator."""
    return _kernel(operator)(*args, **kwargs)


@functools.cache
def _kernel(operator: Any) -> Kernel:
    return Kernel(operator, functional_of(operator))


_OTHER_TENSORS = {
    "SparsePrivateUse1": "sparse",
    "SparseCsrPrivateUse1": "compressed sparse",
    "QuantizedPrivateUse1": "quantized",
    "NestedTensorPrivateUse1": "nested",
}
"""Kinds that the device has none of, by PyTorch's keys."""


def _refusal(kind: str) -> Any:
    def refused(operator: Any, *_: Any, **__: Any) -> Any:
        raise UnsupportedError(f"torch: {operator} needs {kind} tensors, which the device {NAME} does not have")

    return refused


class _Hooks(torch._C._acc.PrivateUse1Hooks):  # type: ignore[name-defined,misc]  # PyTorch's own
    def is_available(self) -> bool:
        return True

    def has_primary_context(self, _: int) -> bool:
        return True

    def is_built(self) -> bool:
        return True


class _Guard(torch._C._acc.DeviceGuard):  # type: ignore[name-defined,misc]  # PyTorch's own
    """Says which type the device is of, where PyTorch allows no exception: an interrupt would end the process.

    Between the look at the attribute and the call PyTorch has Python's handlers of signals run.
    """

    _type = torch._C._autograd.DeviceType.PrivateUse1
    is_asked = False  # by the main thread, which alone is interrupted

    @property
    def type_(self) -> Any:
        if threading.get_ident() == _MAIN:
            _Guard.is_asked = True
        return self._answer

    def _answer(self) -> Any:
        if threading.get_ident() == _MAIN:
            _Guard.is_asked = False
        return self._type


_DEFERRED = 1e-3  # Seconds
_MAIN = threading.main_thread().ident
_interrupted = signal.default_int_handler
_WEAK = {weakref.__file__, weakref.WeakSet.__init__.__code__.co_filename, weak.__file__}
"""Files of what is called when something that is referred to weakly goes."""
_CODES = (_Guard.__dict__["type_"].fget.__code__, _Guard._answer.__code__)


def _interrupt_later(number: int, frame: FrameType | None) -> None:
    """Interrupts as Python does, but not while PyTorch asks what the device is, nor in finalizers, which drop it."""
    codes = [each.f_code for each, _ in traceback.walk_stack(frame)]
    is_finalizing = any(code.co_name == "__del__" or code.co_filename in _WEAK for code in codes)
    if _Guard.is_asked or is_finalizing or (frame is not None and frame.f_code in _CODES):
        _thread.start_new_thread(_interrupt, (number,))
    else:
        _interrupted(number, frame)


def _interrupt(number: int) -> None:
    time.sleep(_DEFERRED)
    _thread.interrupt_main(signal.Signals(number))


def register() -> bool:
    """Registers the device with PyTorch; says whether it is there: PyTorch has room for one such device."""
    before = torch._C._get_privateuse1_backend_name()
    if before == NAME:
        return True
    if before != "privateuseone":
        _log.warning("torch: no device %s: PyTorch has another one, %s", NAME, before)
        return False
    backend_registration._setup_privateuseone_for_python_backend(NAME, module, _Hooks(), _Guard())
    sys.modules[f"torch.{NAME}"] = module
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in _kernels().items():
        library.impl(name, kernel, "PrivateUse1")
    for name, function in (OWN | COMPOSED).items():
        library.impl(name, function, "PrivateUse1")
        library.impl(name, function, "AutogradPrivateUse1")
    rest = torch.library.Library("_", "IMPL")
    rest.fallback(_fallback, "PrivateUse1")
    for key, kind in _OTHER_TENSORS.items():
        rest.fallback(_refusal(kind), key)
    autocast.register(library, rest)
    memory.register(library)
    _libraries.extend((library, rest))
    if threading.get_ident() == _MAIN and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        for code in _CODES:
            skip_code(code)  # which TorchDynamo would compile
        signal.signal(signal.SIGINT, _interrupt_later)
        # By which programs tell whether there is a handler of their own.
        signal.default_int_handler = _interrupt_later  # type: ignore[assignment]
    torch.serialization.register_package(15, _tag, _restored)
    _help_pytorch()
    steps.register()
    if torch.cuda.device_count():  # by NVML: it initializes nothing that a fork would miss
        _log.warning(
            "torch: beside the device %s PyTorch computes no gradients on CUDA in this process "
            "(pytorch/pytorch#161129); DMLVK_TORCH_DEVICE=none leaves the device out",
            NAME,
        )
    return True


def _help_pytorch() -> None:
    """What PyTorch has no place for where a device is written in Python.

    It would crash where a program makes a storage by itself, as copies of tensors do, wants such copies to be of one
    class, and prints tensors by operators whose results depend on data, unless they are copied first, which it does for
    devices that it knows by name. Of a parameter that modules share it makes one for each when they come to the device.
    """
    applied = torch.nn.Module._apply
    plain, printed = torch.UntypedStorage.__new__, torch._tensor_str._tensor_str
    wrapped = torch.TypedStorage._new_wrapped_storage

    def new(cls: Any, *args: Any, device: Any = None, **kwargs: Any) -> Any:
        if device is None or torch.device(device).type != NAME:
            return plain(cls, *args, **({} if device is None else {"device": device}), **kwargs)
        return torch.empty(args[0] if args else 0, dtype=torch.uint8, device=NAME).untyped_storage()

    def shown(tensor: torch.Tensor, indent: int) -> str:
        return printed(tensor.cpu() if tensor.device.type == NAME else tensor, indent)

    def typed(self: torch.TypedStorage, storage: Any) -> torch.TypedStorage:
        if isinstance(storage, DeviceStorage):
            return torch.TypedStorage(wrap_storage=storage, dtype=self.dtype, _internal=True)
        return wrapped(self, storage)

    def moved(self: torch.nn.Module, function: Any, recurse: bool = True) -> torch.nn.Module:
        places: dict[Any, list[tuple[dict[str, Any], str]]] = {}
        for each in self.modules() if recurse else [self]:
            for name, parameter in each._parameters.items():
                places.setdefault(parameter, []).append((each._parameters, name))
        made = applied(self, function, recurse)
        for parameter, (first, *others) in places.items():
            one = first[0][first[1]]
            for parameters, name in others:
                if one is not None and NAME in (one.device.type, parameter.device.type):
                    parameters[name] = one
        return made

    torch.nn.Module._apply = moved  # type: ignore[method-assign]  # as every module moves its own, on purpose
    torch.UntypedStorage.__new__ = staticmethod(new)  # type: ignore[assignment]
    torch.TypedStorage._new_wrapped_storage = typed  # type: ignore[method-assign]
    torch._tensor_str._tensor_str = shown


def _tag(storage: Any) -> str | None:
    return NAME if isinstance(getattr(storage, "_untyped_storage", storage), DeviceStorage) else None


def _restored(storage: Any, location: str) -> Any:
    if location.partition(":")[0] != NAME:
        return None
    return stored(getattr(storage, "_untyped_storage", storage))


__all__ = ["NAME", "fallbacks", "register", "set_fallback", "tell"]

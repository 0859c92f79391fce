"""Models on their way between processes: they pickle as what they were made from, never as anything of a device.

Where one arrives, nothing is opened (a scheduler that only passes it on has no device). It is made when it is used for
the first time: on the device that runs it, else on the one that the process shares, :func:`default_device`. A model
that arrives again, as tasks of Dask bring it, is the one that is there already.
"""

from __future__ import annotations

import abc
import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from dmlvk.errors import UnsupportedError
from dmlvk.operators import FeatureLevel
from dmlvk.support.arithmetic import Arithmetic, default_arithmetic
from dmlvk.support.recent import Recent

if TYPE_CHECKING:
    from dmlvk.device import Device

_KEPT_ARRIVALS = 32
"""Models that arrived and stay, so that they need not be made anew when they arrive again; the last ones."""

PortableT = TypeVar("PortableT", bound="Portable")
DeviceT = TypeVar("DeviceT", bound="Device")


class _ProcessState:
    """What a process shares among the models that arrive in it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # while something is opened or made
        self.arrivals_lock = threading.Lock()  # only for a moment: what unpickles must not wait for compilers
        self.devices: dict[FeatureLevel, Device] = {}
        self.shared: weakref.WeakValueDictionary[tuple[object, ...], Device] = weakref.WeakValueDictionary()
        self.users: weakref.WeakKeyDictionary[Device, weakref.WeakSet[Any]] = weakref.WeakKeyDictionary()
        self.arrivals: Recent[tuple[str, str], Portable] = Recent(_KEPT_ARRIVALS)


_process = _ProcessState()


_of_parents: list[_ProcessState] = []
"""What processes before this one had: kept, since a driver that frees something in a child waits for threads that the
child does not have."""


def _begin_anew() -> None:
    """In a process that was forked: what its parent has opened is the parent's, and a thread may have the lock."""
    global _process
    _of_parents.append(_process)
    _process = _ProcessState()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


_ways_to_open: list[Callable[..., Device]] = []


def opens_devices(kind: type[DeviceT]) -> type[DeviceT]:
    """Decorates the class of devices: so this module, which devices need, need not know it."""
    _ways_to_open.append(kind)
    return kind


def _open(selector: int | str | None = None, **options: Any) -> Device:
    return _ways_to_open[-1](selector, **options)


def default_device(feature_level: FeatureLevel = FeatureLevel.LEVEL_6_4) -> Device:
    """The device that this process shares: opened by the first call, the same one for all others.

    Models that arrived pickled run on it. It is chosen as ``Device()`` chooses; when it is lost or closed, the next
    call opens it anew.

    Args:
        feature_level: as for ``Device``; there is a device for each.

    Raises:
        DeviceNotFoundError: when there is no device, or none that DMLVK_DEVICE describes.
        UnsupportedError: when it cannot run dmlvk's shaders, or not in a process that was forked.
    """
    level = FeatureLevel(feature_level)
    with _process.lock:
        device = _process.devices.get(level)
        if device is None or device.engine.is_removed:
            if device is not None:
                with contextlib.suppress(RuntimeError):  # what was lost may not even be freed
                    device.close()
            device = _process.devices[level] = _open(feature_level=level)
        return device


def shared_device(
    user: object, selector: int | str | None, feature_level: FeatureLevel, arithmetic: Arithmetic | None
) -> Device:
    """A device that is opened once for all who ask for the same one, as long as one of them is alive.

    Args:
        user: who asks, until :func:`leave_device`; it is not kept alive.
        selector: as for ``Device``.
        feature_level: as for ``Device``.
        arithmetic: as for ``Device``.

    Raises:
        InvalidArgumentError, DeviceNotFoundError, UnsupportedError: as for ``Device``.
    """
    try:
        level = FeatureLevel(feature_level)
    except ValueError:
        return _open(selector, feature_level=feature_level, arithmetic=arithmetic)  # which says what is wrong
    how = default_arithmetic() if arithmetic is None else arithmetic
    with _process.lock:
        device = _process.devices.get(level) if selector is None else None
        if device is not None and not device.engine.is_removed and device.arithmetic == how:
            return device  # the default device, which nobody closes
        key = (type(selector), selector, os.environ.get("DMLVK_DEVICE"), level, how)
        device = _process.shared.get(key)
        if device is None or device.engine.is_removed:
            device = _process.shared[key] = _open(selector, feature_level=level, arithmetic=how)
        _process.users.setdefault(device, weakref.WeakSet()).add(user)
        return device


def leave_device(user: object, device: Device) -> None:
    """Closes what :func:`shared_device` gave, where nobody else uses it any more."""
    with _process.lock:
        users = _process.users.get(device)
        if users is None or user not in users:
            return
        users.discard(user)
        if len(users):
            return
        del _process.users[device]
    device.close()


class Origin(abc.ABC):
    """What a model was made from: it pickles, and knows nothing of devices.

    Attributes:
        feature_level: of the device for which the model was made.
    """

    feature_level: FeatureLevel

    @property
    @abc.abstractmethod
    def token(self) -> str:
        """Equal for models that compute the same."""

    @abc.abstractmethod
    def made(self, device: Device) -> Portable:
        """The model on a device.

        Raises:
            InvalidArgumentError, UnsupportedError, DeviceLimitError, OutOfMemoryError: when the device cannot have it.
        """


class Portable:
    """A model that pickles as what it was made from."""

    _pending = False  # Whether it arrived and was not used yet: of all its attributes it has only the next one

    @property
    def origin(self) -> Origin:
        """What it was made from."""
        origin = self.__dict__.get("_origin")
        return origin if origin is not None else self._made_from()

    def _made_from(self) -> Origin:
        raise NotImplementedError

    @property
    def is_pending(self) -> bool:
        """Whether it arrived pickled and was not used yet, and so is on no device."""
        return self._pending

    def settle(self, device: Device | None = None) -> None:
        """Makes a model that arrived and was not used yet; one that is made stays as it is.

        Args:
            device: where; ``None``: on the device that the process shares.
        """
        if not self._pending:
            return
        with _process.lock:
            if self._pending:
                origin = self.__dict__["_origin"]
                made = origin.made(default_device(origin.feature_level) if device is None else device)
                # All at once: other threads find either nothing, and wait here, or all of it.
                self.__dict__.update({**made.__dict__, "_pending": False})

    def on(self: PortableT, device: Device) -> PortableT:
        """The same model for another device.

        Raises:
            InvalidArgumentError, UnsupportedError, DeviceLimitError, OutOfMemoryError: when that one cannot have it.
        """
        made = self.origin.made(device)
        assert isinstance(made, type(self))
        return made

    def _token(self) -> str:
        """Its origin's, which is a digest of all weights: made once."""
        known: str | None = self.__dict__.get("_known_token")
        if known is None:
            known = self.__dict__["_known_token"] = self.origin.token
        return known

    def __reduce__(self) -> tuple[Any, ...]:
        return _arrived, (type(self), self._token(), self.origin)

    def __dask_tokenize__(self) -> tuple[str, str]:
        return type(self).__qualname__, self._token()

    if not TYPE_CHECKING:  # there it would accept any attribute

        def __getattr__(self, name: str) -> Any:
            """Of what arrived: it is made when anything of it is asked for."""
            if not self.__dict__.get("_pending") or name.startswith("__"):
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            self.settle()
            return getattr(self, name)


def pending(kind: type[PortableT], origin: Origin) -> PortableT:
    """A model that is made when it is used for the first time, as one that arrived.

    Args:
        kind: its class.
        origin: what it is made from.
    """
    model = kind.__new__(kind)
    model.__dict__.update(_origin=origin, _pending=True)
    return model


def _arrived(kind: type[Portable], token: str, origin: Origin) -> Portable:
    """The model that unpickling gives: the one that arrived before, where it still works, or one to be made later."""
    key = (kind.__qualname__, token)
    with _process.arrivals_lock:
        known = _process.arrivals.get(key)
        if known is None or not (known.is_pending or not _is_lost(known)):
            known = pending(kind, origin)
            known.__dict__["_known_token"] = token
        return _process.arrivals.keep(key, known)


def _is_lost(model: Any) -> bool:
    return bool(model.device.engine.is_removed)


def refuse_pickling(what: str, instead: str) -> NoReturn:
    """Why something of a device cannot be pickled.

    Args:
        what: whose class it is.
        instead: what to do.
    """
    raise UnsupportedError(f"{what}: belongs to a device of this process and cannot be pickled; {instead}")

"""What stands around Kompute's calls: their errors, and what the validation layers report meanwhile."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from dmlvk.errors import DeviceRemovedError, DmlError
from dmlvk.runtime import validation

if TYPE_CHECKING:
    from dmlvk.runtime.engine_memory import EngineMemory


class Guard:
    """Inside it Kompute's errors become dmlvk's, and a lost device stays lost.

    Its user holds the engine's lock, or only waits for the device. It is a class, because a generator costs a small
    operator 2 µs.

    Args:
        is_begun: in the middle of a call, for which a device that is being closed waits.
    """

    __slots__ = ("_action", "_engine", "_is_begun")

    def __init__(self, engine: EngineMemory, action: str, *, is_begun: bool = False) -> None:
        self._engine = engine
        self._action = action
        self._is_begun = is_begun

    def __enter__(self) -> None:
        if not self._is_begun:
            self._engine.check_open()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is not None or validation.is_watching():  # else a small operator would notice five calls
            if error is None or isinstance(error, RuntimeError):
                raise_messages(self._engine, self._action)
            if isinstance(error, RuntimeError):
                self._raise_translated(error)

    def _raise_translated(self, error: RuntimeError) -> None:
        name = self._engine.info.name
        if "DeviceLost" in str(error):
            reason = f"{name}: the device was lost while {self._action} ({error})"
            raise DeviceRemovedError(self._engine.lose(reason)) from error
        raise DmlError(f"{name}: {self._action} failed: {error}") from error


def raise_messages(engine: EngineMemory, action: str) -> None:
    """Raises what the validation layers have complained of."""
    validation.raise_new_messages(f"{engine.info.name}: {action}", except_for=is_repeated_copy)


def is_repeated_copy(message: validation.ValidationMessage) -> bool:
    """Whether synchronization validation reports two copies to one staging buffer, for which Kompute has no barrier.

    The second one overwrites what nobody has read: the host reads when all is done.
    """
    return (
        bool(re.search("WRITE.AFTER.WRITE", message.identifier))
        and "vkCmdCopyBuffer" in message.text
        and ("SHADER" not in message.text)
    )

"""Vulkan's validation layer: on when ``DMLVK_VALIDATION`` asks for it, its messages as errors; off otherwise.

The environment variable ``DMLVK_VALIDATION`` is read when the first Vulkan instance is made:

========== =======================================================================================================
unset      no validation layer, unless Vulkan's own ``VK_INSTANCE_LAYERS`` or ``VK_LOADER_LAYERS_ENABLE`` names it
``0``      no validation layer at all
``1``      the layer ``VK_LAYER_KHRONOS_validation`` in every instance that dmlvk makes, Kompute's included
``sync``   the same, with synchronization validation, which finds missing barriers
========== =======================================================================================================

Kompute offers no way to configure layers, so the Vulkan loader and the layer get their orders through environment
variables and a settings file. The variables are set inside :func:`new_instance` only: loader and layer read them when
an instance is made, and neither child processes nor other users of Vulkan in this process shall inherit them.

The layer writes its messages to a file and opens that file anew, empty, for every instance, under a name that it reads
only once. :func:`new_instance` therefore moves the file of the last instance out of the way first; the layer goes on
writing to the moved file, and :func:`raise_new_messages` reads all of them. (Windows does not let an open file be
moved: there only one instance at a time can be validated.)

A Kompute that was built with its debug layers switches the layer on by itself wherever it is installed. Against that,
:func:`new_instance` hides the layer when it is not asked for: ``VK_LOADER_LAYERS_DISABLE`` for loaders from 1.3.234 on,
a ``VK_LAYER_PATH`` without layers for older ones. Variables that the user has set keep their meaning: filters are added
to, an empty ``VK_LOADER_LAYERS_DISABLE`` stays empty, a ``VK_LAYER_PATH`` stays.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from dmlvk.errors import InvalidArgumentError, ValidationLayerError

LAYER = "VK_LAYER_KHRONOS_validation"

Mode = Literal["off", "unasked", "on", "sync"]
_MODES: dict[str | None, Mode] = {None: "unasked", "": "unasked", "0": "off", "1": "on", "sync": "sync"}

# Layers from here on know validate_sync and, from 1.4.335 on, warn about the older way to say the same.
_VALIDATE_SYNC_SINCE = 1 << 22 | 3 << 12 | 290

# The message that _prove_reporting provokes.
_PROOF = "VUID-VkPhysicalDeviceProperties2-sType-sType"

# In older layers a message begins with "VUID-…(ERROR / SPEC): msgNum: 1 - Validation Error: [ VUID-… ] …", in newer
# ones with "Validation Error: [ VUID-… ] | MessageID = …"; both go on in the lines below.
_MESSAGE_START = r"^(?:\S.* - )?Validation (?P<severity>[A-Z][A-Za-z ]*): \[ (?P<identifier>[^\]]*?) \]"


@dataclass(frozen=True)
class ValidationMessage:
    severity: str  # ``error`` or ``warning``
    identifier: str  # the rule's name in the Vulkan specification, ``VUID-…``, or the layer's own ``UNASSIGNED-…``
    text: str  # the message as the layer wrote it


class _ValidationSession:
    """What the process knows about its validation: made when the first instance is, removed at exit."""

    def __init__(self, mode: Mode) -> None:
        self.mode = mode
        self.pending: list[ValidationMessage] = []
        self.folder = Path()
        self.logs: dict[Path, int] = {}  # file -> bytes already read
        if mode in ("on", "sync"):
            import tempfile  # here, because importing it takes longer than importing this module

            self.folder = Path(tempfile.mkdtemp(prefix="dmlvk-validation-"))
            self.logs[self.current_log] = 0
            self._write_settings(_layer_version(mode))
            atexit.register(self.report_rest_and_remove)

    @property
    def current_log(self) -> Path:
        """The file that the layer opens for the next instance."""
        return self.folder / "messages.txt"

    @property
    def settings(self) -> Path:
        return self.folder / "vk_layer_settings.txt"

    def _write_settings(self, layer_version: int) -> None:
        lines = [
            "khronos_validation.debug_action = VK_DBG_LAYER_ACTION_LOG_MSG",
            "khronos_validation.report_flags = error,warn",
            f"khronos_validation.log_filename = {self.current_log}",
            "khronos_validation.enable_message_limit = false",
        ]
        if self.mode == "sync":
            if layer_version >= _VALIDATE_SYNC_SINCE:
                lines.append("khronos_validation.validate_sync = true")
            else:
                feature = "VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT"
                lines.append(f"khronos_validation.enables = {feature}")
        self.settings.write_text("\n".join(lines) + "\n", encoding="utf-8")

    def set_last_log_aside(self) -> None:
        """Keep what earlier instances wrote, and go on reading it: the next instance empties the current file."""
        if self.current_log.exists():
            aside = self.folder / f"messages-{len(self.logs)}.txt"
            try:
                self.current_log.rename(aside)
            except OSError as error:
                raise ValidationLayerError(
                    "DMLVK_VALIDATION: this system cannot validate a second Vulkan instance while the first one lives "
                    f"({error})"
                ) from error
            self.logs[aside] = self.logs[self.current_log]
            self.logs[self.current_log] = 0

    def read(self) -> list[ValidationMessage]:
        messages, self.pending = self.pending, []
        for path, offset in self.logs.items():
            if path.exists() and path.stat().st_size > offset:
                with path.open("rb") as file:
                    file.seek(offset)
                    content = file.read()
                self.logs[path] = offset + len(content)
                messages += parse_messages(content.decode("utf-8", errors="replace"))
        return messages

    def report_rest_and_remove(self) -> None:
        """At exit: shows what nobody asked for, and removes the files."""
        import shutil

        for message in self.read():
            sys.stderr.write(f"Vulkan validation, reported too late for an exception: {message.text}\n")
        shutil.rmtree(self.folder, ignore_errors=True)


_lock = threading.RLock()
_session: _ValidationSession | None = None


def _leave_to_parent() -> None:
    """In a process that was forked: another thread of the parent may have the lock, and the files are the parent's."""
    global _lock
    _lock = threading.RLock()
    if _session is not None:
        atexit.unregister(_session.report_rest_and_remove)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)


def _begin() -> _ValidationSession:
    """Read ``DMLVK_VALIDATION``, once for each process; with it, prove that messages arrive."""
    global _session
    if _session is None:
        value = os.environ.get("DMLVK_VALIDATION")
        if value not in _MODES:
            raise InvalidArgumentError(f"DMLVK_VALIDATION must be unset, 0, 1 or sync; got {value!r}")
        session = _ValidationSession(_MODES[value])
        if session.mode in ("on", "sync"):
            _prove_reporting(session)
        _session = session
    return _session


def _layer_version(mode: Mode) -> int:
    """The installed layer's version.

    Raises:
        ValidationLayerError: it is not installed, or hidden from the loader.
    """
    from dmlvk.runtime.vulkan import loader

    with _environment(_orders_to_validate(None)):
        version = loader.instance_layers().get(LAYER)
    if version is None:
        hidden = [name for name in ("VK_LAYER_PATH", "VK_LOADER_LAYERS_DISABLE") if os.environ.get(name)]
        raise ValidationLayerError(
            f"DMLVK_VALIDATION={'1' if mode == 'on' else mode} asks for {LAYER}, which the Vulkan loader does not find"
            + (f" (looked with {' and '.join(hidden)} set)" if hidden else "")
            + ". Install it, on Debian or Ubuntu: apt install vulkan-validationlayers"
        )
    return version


def _prove_reporting(session: _ValidationSession) -> None:
    """Break a rule on purpose on an instance of our own: from then on, silence means that there is nothing to report.

    Raises:
        ValidationLayerError: the message does not arrive.
    """
    from dmlvk.runtime.vulkan import loader

    with _environment(_orders_to_validate(session)), loader.Instance() as instance:
        instance.provoke_validation()
    session.set_last_log_aside()
    messages = session.read()
    if _PROOF not in [message.identifier for message in messages]:
        raise ValidationLayerError(
            f"{LAYER} is switched on but its messages do not arrive in {session.current_log}; "
            "is there another vk_layer_settings.txt, for example from the Vulkan Configurator?"
        )
    session.pending = [message for message in messages if message.identifier != _PROOF]


def _orders_to_validate(session: _ValidationSession | None) -> dict[str, str]:
    """Environment variables with which the loader switches the layer on, after the layers that the user has listed."""
    layers = [name for name in os.environ.get("VK_INSTANCE_LAYERS", "").split(os.pathsep) if name]
    disabled = [name for name in os.environ.get("VK_LOADER_LAYERS_DISABLE", "").split(",") if name != LAYER]
    orders = {
        "VK_INSTANCE_LAYERS": os.pathsep.join(layers if LAYER in layers else [*layers, LAYER]),
        "VK_LOADER_LAYERS_DISABLE": ",".join(disabled),
    }
    if session is not None:
        orders["VK_LAYER_SETTINGS_PATH"] = str(session.settings)
    return orders


def _orders_not_to_validate(mode: Mode) -> dict[str, str]:
    """Environment variables with which the loader hides the layer even from a program that asks for it."""
    variables = {name: os.environ.get(name) for name in ("VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE")}
    orders: dict[str, str] = {}
    if mode == "off":
        for name, separator in (("VK_INSTANCE_LAYERS", os.pathsep), ("VK_LOADER_LAYERS_ENABLE", ",")):
            kept = [layer for layer in (variables[name] or "").split(separator) if layer and layer != LAYER]
            orders[name] = separator.join(kept)
    elif any(LAYER in (value or "") for value in variables.values()):
        return {}
    disabled = os.environ.get("VK_LOADER_LAYERS_DISABLE")
    if disabled != "" or mode == "off":
        orders["VK_LOADER_LAYERS_DISABLE"] = ",".join([*(disabled or "").split(","), LAYER]).lstrip(",")
    wants_layers = ("KOMPUTE_ENV_DEBUG_LAYERS", "VK_LAYER_PATH", "VK_ADD_LAYER_PATH")
    if not any(variables.values()) and not any(os.environ.get(name) for name in wants_layers):
        orders["VK_LAYER_PATH"] = os.devnull  # a place without layers; implicit layers are looked up elsewhere
    return orders


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set environment variables for a while; an empty value removes one."""
    before = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        _set(name, value or None)
    try:
        yield
    finally:
        for name, old in before.items():
            _set(name, old)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


@contextmanager
def new_instance() -> Iterator[None]:
    """Make one Vulkan instance inside this: ``with new_instance(): manager = kp.Manager(index)``.

    Inside, the environment tells loader and layer what ``DMLVK_VALIDATION`` asks for.

    Raises:
        InvalidArgumentError: ``DMLVK_VALIDATION`` has a value that means nothing.
        ValidationLayerError: validation is asked for and the layer is not installed, or its messages do not arrive.
    """
    with _lock:
        session = _begin()
        if session.mode in ("on", "sync"):
            session.set_last_log_aside()
            orders = _orders_to_validate(session)
        else:
            orders = _orders_not_to_validate(session.mode)
        with _environment(orders):
            yield


def enabled() -> bool:
    """Whether instances made through :func:`new_instance` are validated."""
    with _lock:
        return _begin().mode in ("on", "sync")


def synchronization_enabled() -> bool:
    """Whether missing barriers are looked for too.

    The layer knows Vulkan's barriers only: neither a ``coherent`` buffer nor a chain of barriers on other buffers is
    a memory dependency to it. What it accepts from Kompute: uploads in a submission of their own, and between two
    dispatches an ``OpTensorSyncLocal`` of the very tensors (of type ``device``) that the first one wrote; of any
    tensor where the first one only read.
    """
    with _lock:
        return _begin().mode == "sync"


def is_watching() -> bool:
    """Whether there may be messages, without the lock, which a small operator would notice."""
    session = _session
    return session is not None and session.mode in ("on", "sync")


def new_messages() -> list[ValidationMessage]:
    """Errors and warnings that the layer has written since the last call; always empty when validation is off."""
    session = _session
    if session is None or not is_watching():
        return []
    with _lock:
        return session.read()


def raise_new_messages(
    context: str, *, except_for: Callable[[ValidationMessage], bool] = lambda message: False
) -> None:
    """Raise what the layer has written since the last call; costs next to nothing when validation is off.

    Args:
        context: what was being done, for the message: ``"ELEMENT_WISE_SIGN: dispatch"``.
        except_for: tells which messages are expected, and dropped.

    Raises:
        ValidationLayerError: there are messages; its text has the first one, its rule and the number of the others.
    """
    written = new_messages()
    messages = [message for message in written if not except_for(message)] if written else written
    if messages:
        first, others = messages[0], len(messages) - 1
        more = f" (and {others} more message{'s' if others > 1 else ''})" if others else ""
        rule = f"Vulkan validation {first.severity} {first.identifier}{more}"
        raise ValidationLayerError(f"{context}: {rule}: {first.text}")


def parse_messages(text: str) -> list[ValidationMessage]:
    """Split what the layer wrote into messages, in order; text in an unknown form counts as an error."""
    starts = list(re.finditer(_MESSAGE_START, text, re.MULTILINE))
    messages = []
    if unknown := text[: starts[0].start() if starts else None].strip():
        messages.append(ValidationMessage("error", "in an unknown form", unknown))
    bounds = [*(start.start() for start in starts), len(text)]
    for start, end in zip(starts, bounds[1:], strict=True):
        body = text[start.start() : end].strip()
        severity = "error" if start["severity"] == "Error" else "warning"
        messages.append(ValidationMessage(severity, start["identifier"], body))
    return messages

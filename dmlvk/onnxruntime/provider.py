"""What ONNX Runtime asks of dmlvk's execution provider: devices, sessions, parts of graphs, runs."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any

import dmlvk
from dmlvk.device import Device
from dmlvk.errors import DmlError, InvalidArgumentError
from dmlvk.onnxruntime.claims import claims_of
from dmlvk.onnxruntime.graphs import RuntimeGraph, constant_names, read_by
from dmlvk.onnxruntime.interface import EP_FAIL, GPU, INFO, VERBOSE, Api
from dmlvk.onnxruntime.library import ProviderLibrary
from dmlvk.onnxruntime.memory import Memory
from dmlvk.onnxruntime.on_host import FAIL, RefusedRunError
from dmlvk.onnxruntime.parts import Part, table_of
from dmlvk.onnxruntime.sessions import Session
from dmlvk.operators import FeatureLevel
from dmlvk.runtime.vulkan import DeviceInfo, select_device
from dmlvk.support import faults
from dmlvk.support.arithmetic import Arithmetic, checked_arithmetic
from dmlvk.support.mapped_files import ChangedFileError

PROVIDER = "DmlVkExecutionProvider"  # The provider's name, for ``providers=[…]``

OPTIONS = ("device", "feature_level", "arithmetic")  # What its options may say

_FROM_DEVICE, _ON_DEVICE = 1, 3

_log = logging.getLogger("dmlvk")


class _FusionOptions(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("drop_constant_initializers", ctypes.c_bool))


class Provider:
    def __init__(self, library: ProviderLibrary) -> None:
        self.memory = Memory()
        self._library = library
        self._apis: dict[int, Api] = {}
        self._devices: dict[tuple[int, FeatureLevel, str], Device] = {}
        self._indices: dict[int, int] = {}
        self._sessions: dict[int, Session] = {}
        self._parts: dict[int, Part] = {}
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def functions(self) -> dict[str, Callable[..., int]]:
        """By the names of ``FUNCTIONS`` in library.py."""
        return {
            "devices": self._guarded(self._api, self._offer_devices),
            "create_ep": self._guarded(self._api, self._create_ep),
            "release_ep": self._release_ep,
            "capability": self._guarded(self._session, self._claim),
            "compile": self._guarded(self._session, self._compile),
            "release_program": self._release_part,
            "compute": self._compute,
            "allocate": self.memory.allocate,
            "free": self.memory.free,
            "copy": self._guarded(self._api, self._copy),
            "start_profiling": self._guarded(self._session, lambda session, *given: session.profiles.start(*given)),
            "end_profiling": self._guarded(
                self._session, lambda session, *given: session.profiles.end(session.api, *given)
            ),
        }

    # Errors become statuses. No interrupt is among them: python.h sees to that.

    def _api(self, factory: int) -> Api:
        found = self._apis.get(factory)
        if found is None:
            with self._lock:
                found = self._apis.setdefault(factory, Api(self._library, factory))
        return found

    def _session(self, number: int) -> Session:
        return self._sessions[number]

    @staticmethod
    def _guarded(owner_of: Callable[[int], Any], function: Callable[..., None]) -> Callable[..., int]:
        """A function whose errors are statuses.

        Args:
            owner_of: gives what it is called with first: ONNX Runtime's functions, or a session.
        """

        def call(number: int, *arguments: Any) -> int:
            owner = owner_of(number)
            try:
                function(owner, *arguments)
            except Exception as error:  # noqa: BLE001 - it would be lost in C
                return _status_of(owner if isinstance(owner, Api) else owner.api, error, function)
            return 0

        return call

    # Devices.

    def _offer_devices(self, api: Api, hardware: int, count: int, found: int, most: int, number: int) -> None:
        there = (ctypes.c_void_p * count).from_address(hardware) if hardware and count else ()
        unused = [pointer for pointer in there if pointer and api.call("HardwareDevice_Type", pointer) == GPU]
        offered_devices = (ctypes.c_void_p * most).from_address(found)
        made = 0
        for info in dmlvk.list_devices():
            if not info.usable or made == most:
                continue
            known = next((pointer for pointer in unused if _is_same(api, pointer, info)), None)
            if known is not None:
                unused.remove(known)
            pairs = api.made_pairs(_said_of(info))
            try:
                pointer = known or self._new_hardware(api, info, pairs)
                offered = api.pointer("CreateEpDevice", api.factory, pointer, pairs, None)
                assert offered is not None
                self._add_memory(api, offered, info)
                offered_devices[made] = offered
            finally:
                api.call("ReleaseKeyValuePairs", pairs)
            self._indices[pointer] = info.index
            made += 1
        ctypes.c_int64.from_address(number).value = made

    @staticmethod
    def _new_hardware(api: Api, info: DeviceInfo, pairs: int) -> int:
        """A device that ONNX Runtime did not find itself; it stays for ever, since sessions may."""
        vendor = info.driver.encode()
        made = api.pointer("CreateHardwareDevice", GPU, info.vendor_id, info.device_id, vendor, pairs)
        assert made is not None
        return made

    # Sessions.

    def _create_ep(self, api: Api, devices: int, count: int, options: int, logger: int, number: int) -> None:
        there = (ctypes.c_void_p * count).from_address(devices) if devices and count else ()
        pairs = api.pointer("GetSessionOptionsConfigEntries", options)
        assert pairs is not None
        try:
            said = _options(api.pairs(pairs), is_own=self._library.memory_vendor(api.factory) != 0)
        finally:
            api.call("ReleaseKeyValuePairs", pairs)
        chosen = [self._indices[pointer] for pointer in there if pointer in self._indices]
        device = self._device(said, chosen)
        with self._lock:
            key = next(self._numbers)
            self._sessions[key] = Session(api, device, logger)
        ctypes.c_int64.from_address(number).value = key
        self._library.watch_signals()  # likewise where no InferenceSession is made: onnxruntime-genai
        api.log(logger, INFO, f"{PROVIDER}: {device.info.name}, feature level {device.feature_level.label}")

    def _device(self, options: Mapping[str, str], chosen: list[int]) -> Device:
        """The device that options ask for; sessions that ask for the same share it."""
        for name in options:
            if name not in OPTIONS:
                raise InvalidArgumentError(f"{PROVIDER} has no option {name!r}; it has {', '.join(OPTIONS)}")
        said = options.get("device") or (str(chosen[0]) if len(chosen) == 1 else None)
        info = select_device(int(said) if said is not None and said.isdecimal() else said)
        level = FeatureLevel.from_name(options.get("feature_level") or FeatureLevel.LEVEL_6_4.label)
        wanted = options.get("arithmetic") or None
        arithmetic: Arithmetic | None = (
            None if wanted is None else checked_arithmetic(wanted, f"{PROVIDER}: the option arithmetic")
        )
        key = (info.index, level, str(arithmetic))
        with self._lock:
            device = self._devices.get(key)
            if device is None or device.engine.is_removed:
                device = self._devices[key] = Device(info.index, feature_level=level, arithmetic=arithmetic)
            return device

    def _release_ep(self, number: int) -> int:
        with self._lock:
            self._sessions.pop(number, None)
        return 0

    # Graphs.

    def _claim(self, session: Session, handle: int, support: int) -> None:
        api = session.api
        graph = RuntimeGraph(api, handle)
        if not graph.nodes:
            return
        claims = claims_of(session.device, graph)
        options = _FusionOptions(self._library.abi_version, True)
        for part in claims.parts:
            nodes = (ctypes.c_void_p * len(part))(*(node.handle for node in part))
            api.call("EpGraphSupportInfo_AddNodesToFuse", support, nodes, len(part), ctypes.byref(options))
        taken = sum(len(part) for part in claims.parts)
        where = f"{PROVIDER}: {graph.name or 'a graph'}"
        session.log(
            INFO, f"{where}: the device computes {taken} of {len(graph.nodes)} nodes, in {len(claims.parts)} parts"
        )
        for index, reason in claims.reasons.items():
            proto = graph.nodes[index].proto
            name = proto.name or next(iter(proto.output), "")
            session.log(VERBOSE, f"{where}: node {name!r} ({proto.op_type}) stays: {reason}")

    def _compile(self, session: Session, handle: int, node: int, number: int) -> None:
        api = session.api
        graph = RuntimeGraph(api, handle)
        name = api.text("Node_GetName", node)
        given = [_name_of(api, value) for value in api.pointers("Node", "Inputs", node)]
        outputs = [_name_of(api, value) for value in api.pointers("Node", "Outputs", node)]
        read = read_by(graph.nodes)
        constants = graph.constants(constant_names(graph, read), are_kept=True)
        needed = [value for value in dict.fromkeys(given) if value and value in graph.values and value not in constants]
        model = graph.model(graph.nodes, needed, outputs, constants, name=name)
        part = Part(
            session, self._library, self.memory, model, [value if value in needed else None for value in given], outputs
        )
        with self._lock:
            key = next(self._numbers)
            self._parts[key] = part
        ctypes.c_int64.from_address(number).value = key

    def _release_part(self, number: int) -> int:
        with self._lock:
            part = self._parts.pop(number, None)
        try:
            if part is not None:
                part.forget()
        except Exception:  # noqa: BLE001 - nobody asks what becomes of a release
            _log.exception("dmlvk.onnxruntime: a part of a graph that is let go")
        return 0

    def _compute(self, number: int, context: int, inputs: int, count: int) -> int:
        part = self._parts[number]
        self._library.threads.add(threading.get_ident())
        try:
            part.run(context, table_of(inputs, count))
        except Exception as error:  # noqa: BLE001 - it would be lost in C
            return _status_of(part.api, error, self._compute)
        return 0

    # Memory.

    def _add_memory(self, api: Api, ep_device: int, info: DeviceInfo) -> None:
        """Says where values lie on a device; what says so stays for ever, since sessions may."""
        vendor = self._library.memory_vendor(api.factory)
        made = api.pointer("CreateMemoryInfo_V2", b"DmlVk", GPU, vendor, info.index, 0, 0, 0)
        api.call("EpDevice_AddAllocatorInfo", ep_device, made)

    def _copy(self, api: Api, way: int, source: int, target: int, size: int) -> None:
        """Copies bytes: from the device where the first bit of the way is set, to it where the second one is."""
        if way == _ON_DEVICE:
            self.memory.copied(source, target, size)
        elif way == _FROM_DEVICE:
            self.memory.fetch(source, size, target)
        else:
            self.memory.put_from(target, size, source)


def _options(pairs: Mapping[str, str], *, is_own: bool) -> dict[str, str]:
    """A session's options for the provider.

    Args:
        is_own: whether the provider has its own name; where it stands in for another one, it is given that one's
            options, and none is meant for it.
    """
    prefix = f"ep.{PROVIDER.lower()}."
    return {key[len(prefix) :]: value for key, value in pairs.items() if is_own and key.lower().startswith(prefix)}


def _name_of(api: Api, value: int) -> str:
    return api.text("GetValueInfoName", value) if value else ""


def _is_same(api: Api, hardware: int, info: DeviceInfo) -> bool:
    """Whether a device that ONNX Runtime found is one of Vulkan's."""
    vendor = api.call("HardwareDevice_VendorId", hardware)
    return bool(vendor == info.vendor_id and api.call("HardwareDevice_DeviceId", hardware) == info.device_id)


def _said_of(info: DeviceInfo) -> list[tuple[str, str]]:
    """What programs may want to know of a device."""
    pairs = [
        ("Description", info.name),
        ("name", info.name),
        ("driver", f"{info.driver} {info.driver_version}"),
        ("kind", info.kind),
        ("index", str(info.index)),
        ("memory", str(info.memory)),
    ]
    if info.uuid is not None:
        pairs.append(("uuid", info.uuid))
    if info.pci_address is not None:
        pairs.append(("pci_bus_id", info.pci_address))
    return pairs


def _status_of(api: Api, error: Exception, function: Callable[..., Any]) -> int:
    """A status that says in one line what went wrong; faults of dmlvk's own are told with their traceback, too."""
    message = " ".join(f"{error}".split())
    if isinstance(error, DmlError):
        is_files = isinstance(error, ChangedFileError)
        code = error.code if isinstance(error, RefusedRunError) else FAIL if is_files else EP_FAIL
        return api.failure(f"dmlvk: {message}", code)
    with contextlib.suppress(Exception):  # where faults are raised, ONNX Runtime's error is what is raised
        faults.report(error, f"serving ONNX Runtime ({function.__name__})")
    return api.failure(f"dmlvk: {type(error).__name__}: {message}")

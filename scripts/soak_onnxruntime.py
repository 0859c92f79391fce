#!/usr/bin/env python3
"""Uses dmlvk's provider inside of ONNX Runtime as long-lived programs do, and reports what grows or goes wrong.

    python scripts/soak_onnxruntime.py [--runs 10000] [--sessions 1000]

Runs of one session with sizes in turn, from arrays and from values on the device, some of them wrong, some in several
threads; sessions that are made, used and dropped; and the provider taken away and registered again, with a session that
lives on. Every result is compared with the first one of its kind. What is in use must not grow by more than 10 MiB from
the end of the first fifth on.

Exit status: 0 nothing found, 1 something was, 2 wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import faulthandler
import gc
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
import onnxruntime

import dmlvk.onnxruntime
from dmlvk.bench.onnx_models import WIDTH, chain
from scripts.soak import resident_mib, used_mib
from tests.onnxruntime.models import inputs, session_of

_SIZES = (1, 2, 3, 5, 8, 13)
_MOST_GROWTH_MIB = 10.0
_HANG_SECONDS = 300


class ProviderFault(Exception):
    """A result that is not right, or an error that did not come."""


class RandomProgram:
    """What is tried."""

    def __init__(self) -> None:
        self.model = chain()
        self.session = session_of(self.model)
        self.feeds = {size: inputs(size, size) for size in _SIZES}
        self.wanted = {size: self.session.run(None, feed)[0].tobytes() for size, feed in self.feeds.items()}

    def check(self, found: bytes, size: int) -> None:
        """Compares a result."""
        if found != self.wanted[size]:
            raise ProviderFault(f"another result for {size} rows")

    def run(self, number: int) -> None:
        """One run, in one of several ways."""
        size = _SIZES[number % len(_SIZES)]
        if number % 50 == 0:
            self._threads(size)
        elif number % 10 == 1:
            self._wrong()
        elif number % 2:
            self.check(self.session.run(None, self.feeds[size])[0].tobytes(), size)
        else:
            binding = self.session.io_binding()
            vendor = dmlvk.onnxruntime.VENDOR_ID
            value = onnxruntime.OrtValue.ortvalue_from_numpy(self.feeds[size]["x"], "gpu", 0, vendor)
            target = onnxruntime.OrtValue.ortvalue_from_shape_and_type([size, WIDTH], np.float32, "gpu", 0, vendor)
            binding.bind_ortvalue_input("x", value)
            binding.bind_ortvalue_output("y", target)
            self.session.run_with_iobinding(binding)
            self.check(target.numpy().tobytes(), size)

    def _wrong(self) -> None:
        try:
            self.session.run(None, {"x": np.zeros((2, WIDTH + 1), np.float32)})
        except Exception:  # noqa: BLE001 - ONNX Runtime's own kinds
            return
        raise ProviderFault("a shape that does not fit was accepted")

    def _threads(self, size: int) -> None:
        found: list[bytes] = []
        threads = [
            threading.Thread(target=lambda: found.append(self.session.run(None, self.feeds[size])[0].tobytes()))
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if len(found) != len(threads):
            raise ProviderFault("a run in a thread gave nothing")
        for result in found:
            self.check(result, size)

    def make_session(self, number: int) -> None:
        """A session that is made, used and dropped; now and then without the provider in between."""
        size = _SIZES[number % len(_SIZES)]
        session = session_of(self.model)
        self.check(session.run(None, self.feeds[size])[0].tobytes(), size)
        if number % 100 == 99:
            dmlvk.onnxruntime.unregister()
            with contextlib.suppress(Exception):  # a run without the provider's copies may be refused
                session.run(None, self.feeds[size])
            del session
            dmlvk.onnxruntime.register()


def repeated(what: str, action: Callable[[int], None], count: int) -> list[str]:
    """Does something often; returns what was found."""
    points: list[float] = []
    faults: list[str] = []
    for number in range(count):
        faulthandler.dump_traceback_later(_HANG_SECONDS, exit=True)
        try:
            action(number)
        except Exception as error:  # noqa: BLE001 - whatever goes wrong is what is looked for
            faults.append(f"{what} {number}: {type(error).__name__}: {error}")
            if len(faults) > 10:
                break
        if number % max(count // 50, 1) == 0:
            gc.collect()
            points.append(used_mib())
    faulthandler.cancel_dump_traceback_later()
    later = points[len(points) // 5 :]
    growth = max(later) - later[0] if later else 0.0
    print(f"{what}: {count}, in use +{growth:.1f} MiB, resident {resident_mib(trimmed=True):.0f} MiB", flush=True)
    if growth > _MOST_GROWTH_MIB:
        faults.append(f"{what}: memory in use grows by {growth:.1f} MiB")
    return faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the script; returns the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--sessions", type=int, default=1_000)
    options = parser.parse_args(arguments)
    onnxruntime.set_default_logger_severity(4)
    program = RandomProgram()
    faults = repeated("runs", program.run, options.runs)
    faults += repeated("sessions", program.make_session, options.sessions)
    blocks = dmlvk.onnxruntime.memory_blocks()
    if blocks:
        faults.append(f"{blocks} blocks of the device's memory are left")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

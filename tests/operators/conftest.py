"""All devices at once: what costs time to prepare is prepared once and run on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench
from tests.targets import all_walk_as_gpus


@pytest.fixture(autouse=True)
def _processors_walk_as_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """What GPUs run is tested on processors."""
    all_walk_as_gpus(monkeypatch)


@pytest.fixture(scope="session")
def benches() -> Iterator[list[Workbench]]:
    """A workbench on every device, open for the whole session."""
    with ExitStack() as stack:
        devices = [stack.enter_context(dml.Device(info.index)) for info in dml.list_devices() if info.usable]
        yield [stack.enter_context(closing(Workbench(device))) for device in devices]

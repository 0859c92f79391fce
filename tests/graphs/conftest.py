"""All devices at once: what costs time to prepare is prepared once and run on each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing

import pytest

import dmlvk as dml
from dmlvk.conformance.execution import Workbench


@pytest.fixture(scope="session")
def benches() -> Iterator[list[Workbench]]:
    """A workbench on every device, open for the whole session."""
    with ExitStack() as stack:
        devices = [stack.enter_context(dml.Device(info.index)) for info in dml.list_devices() if info.usable]
        yield [stack.enter_context(closing(Workbench(device))) for device in devices]


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fused kernels are kept in a directory of the tests: what is tested is what the compiler makes today."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLVK_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield

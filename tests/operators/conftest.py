"""All devices at once: what costs time to prepare is prepared once and run on each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dmlvk.conformance.execution import Workbench
from tests.targets import all_compute_as_gpus, every_bench


@pytest.fixture(autouse=True)
def _processors_compute_as_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    all_compute_as_gpus(monkeypatch)


@pytest.fixture(scope="session")
def benches() -> Iterator[list[Workbench]]:
    """A workbench on every device, open for the whole session."""
    with every_bench() as benches:
        yield benches

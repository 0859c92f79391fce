"""All devices at once: what costs time to prepare is prepared once and run on each of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dmlvk.conformance.execution import Workbench
from tests.targets import every_bench


@pytest.fixture(scope="session")
def benches() -> Iterator[list[Workbench]]:
    """A workbench on every device, open for the whole session."""
    with every_bench() as benches:
        yield benches


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fused kernels are kept in a directory of the tests: what is tested is what the compiler makes today."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLVK_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield

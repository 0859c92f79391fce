"""Kernels of the tests' own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Fused kernels are kept in a directory of the tests: what is tested is what the compiler makes today."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DMLVK_CACHE_DIR", str(tmp_path_factory.mktemp("kernels")))
        yield

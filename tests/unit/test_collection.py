"""Python's garbage collector is as it was, once many objects have been made without it."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from dmlvk.support.collection import collection_paused


@pytest.fixture
def nothing_frozen() -> Iterator[None]:
    """What the tests themselves have frozen is frozen again afterwards."""
    was_frozen = gc.get_freeze_count() > 0
    gc.unfreeze()
    yield
    gc.unfreeze()
    if was_frozen:
        gc.freeze()


@pytest.mark.usefixtures("nothing_frozen")
def test_the_collector_works_again_and_nothing_stays_frozen() -> None:
    with collection_paused():
        with collection_paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "the outer pause has not ended"
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


@pytest.mark.usefixtures("nothing_frozen")
def test_what_an_application_froze_stays_frozen() -> None:
    gc.freeze()
    with collection_paused():
        assert not gc.isenabled()
    assert gc.isenabled()
    assert gc.get_freeze_count() > 0


@pytest.mark.usefixtures("nothing_frozen")
def test_a_collector_that_was_switched_off_stays_so() -> None:
    gc.disable()
    try:
        with collection_paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()

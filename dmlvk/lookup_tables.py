"""The tables of results that a device's compiled operators share."""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from dmlvk.buffers import Buffer
from dmlvk.kernels.lookup import TABLE_ENTRIES, TABLE_SIZE_IN_BYTES
from dmlvk.kernels.program import operator_step
from dmlvk.operators import OperatorDesc
from dmlvk.recording import run_once

if TYPE_CHECKING:
    from dmlvk.runtime.kompute import Engine


class LookupTables:
    """Makes each table once, and keeps it for as long as a compiled operator refers to it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._tables: weakref.WeakValueDictionary[OperatorDesc, Buffer] = weakref.WeakValueDictionary()

    def table(self, desc: OperatorDesc) -> Buffer:
        """The results of an operator for every pattern of 16 bits.

        Args:
            desc: as :func:`dmlvk.kernels.lookup.table_desc` makes it.

        Raises:
            OutOfMemoryError: when the device has no memory for it.
            DeviceRemovedError: when the device is lost or closed.
        """
        with self._engine.exclusive():
            table = self._tables.get(desc)
            if table is None:
                table = self._tables[desc] = self._computed(desc)
            return table

    def _computed(self, desc: OperatorDesc) -> Buffer:
        table = Buffer(self._engine, TABLE_SIZE_IN_BYTES)
        with Buffer(self._engine, TABLE_SIZE_IN_BYTES) as patterns:
            patterns.upload(np.arange(TABLE_ENTRIES, dtype=np.uint16))
            run_once(self._engine, partial(operator_step, desc), (patterns,), table)
        return table

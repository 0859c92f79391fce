"""The tables of results that a device's compiled operators share."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

import numpy as np

from dmlvk.kernels.lookup import TABLE_ENTRIES, TABLE_SIZE_IN_BYTES
from dmlvk.kernels.lowering import lower
from dmlvk.kernels.target import Target
from dmlvk.objects.buffers import Buffer
from dmlvk.objects.recording import run_once
from dmlvk.operators import OperatorDesc

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
        with self._engine.afterwards, self._engine.lock:
            table = self._tables.get(desc)
            if table is None:
                table = self._tables[desc] = self._computed(desc)
            return table

    def _computed(self, desc: OperatorDesc) -> Buffer:
        table = Buffer(self._engine, TABLE_SIZE_IN_BYTES)
        with Buffer(self._engine, TABLE_SIZE_IN_BYTES) as patterns:
            patterns.upload(np.arange(TABLE_ENTRIES, dtype=np.uint16))
            program = lower(desc, Target.of(self._engine.info))
            run_once(self._engine, lambda reads, writes: program.placed(reads, writes, None), (patterns,), table)
        return table

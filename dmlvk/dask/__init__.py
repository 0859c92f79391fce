"""More than one device, and more than memory: models over Dask's arrays::

    import dask.array as da
    from dmlvk import functions as F
    from dmlvk.dask import LocalCluster, map_blocks

    with LocalCluster(devices="all") as cluster, cluster.get_client():
        y = map_blocks(lambda x: F.relu(2 * x + 1), x)      # x: a dask array; one block after the other, on all devices
        y.compute()

A cluster of unlike devices gives the same bits as one of them. Needs ``pip install dmlvk[dask]``.
"""

try:
    import dask.array as _array
    import distributed as _distributed
except ImportError as _error:  # pragma: no cover - the tests have them
    raise ImportError("dmlvk.dask needs dask and distributed: pip install dmlvk[dask]") from _error

from dmlvk.dask.cluster import DevicePlugin, LocalCluster
from dmlvk.dask.files import from_npy, store
from dmlvk.dask.mapping import BlockFunction, map_blocks, map_overlap
from dmlvk.dask.reductions import reduce

assert _array
assert _distributed

__all__ = ["BlockFunction", "DevicePlugin", "LocalCluster", "from_npy", "map_blocks", "map_overlap", "reduce", "store"]

"""The networks of ``dmlvk bench models`` compute what PyTorch computes with the same weights."""

from __future__ import annotations

import numpy as np
import pytest

import dmlvk as dml
from dmlvk.bench.network_graphs import compiled_network
from dmlvk.bench.network_torch import TorchNetwork
from dmlvk.bench.networks import NETWORKS

torch = pytest.importorskip("torch")


@pytest.mark.parametrize("name", NETWORKS)
def test_a_network_has_the_results_that_pytorch_has(device: dml.Device, name: str) -> None:
    compiled = compiled_network(device, NETWORKS[name], 2, dml.FLOAT32, small=True)
    (given,) = compiled.input_tensors
    assert given is not None
    values = np.random.default_rng(3).standard_normal(given.sizes).astype(np.float32)
    made = device.run(compiled, {"x": values})["y"]
    network = TorchNetwork(NETWORKS[name], torch.from_numpy(values), small=True)
    for _ in range(2):  # made with new weights, and with those
        expected = network.run().numpy()
        assert np.abs(made - expected).max() <= 4e-6 * np.abs(expected).max()

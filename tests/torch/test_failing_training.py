"""A step of training that fails or is interrupted anywhere is done or not done, and the next ones go on from there."""

from __future__ import annotations

from typing import Any

import pytest

import dmlvk as dml

torch = pytest.importorskip("torch")

import dmlvk.torch  # noqa: E402 - needs PyTorch

STEPS = 2  # In which something fails; as many follow

_MOST_CALLS = 60


class _Training:
    """A network with two groups of parameters, and the optimizer of them."""

    def __init__(self, device: dml.Device) -> None:
        torch.compiler.reset()
        torch.manual_seed(0)
        self._options = {"device": device}
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
        self.compiled = torch.compile(self.model, backend="dmlvk", options=self._options)
        self.x, self.labels = torch.randn(6, 8), torch.randint(0, 4, (6,))
        self._start = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.begin()

    def begin(self) -> None:
        self.model.load_state_dict(self._start)
        groups = [
            {"params": list(layer.parameters()), "lr": lr}
            for layer, lr in zip(self.model[::2], (0.05, 0.02), strict=True)
        ]
        self.optimizer = dmlvk.torch.Adam(groups, weight_decay=0.01, options=self._options)

    def step(self) -> None:
        self.optimizer.zero_grad()
        torch.nn.functional.cross_entropy(self.compiled(self.x), self.labels).backward()
        self.optimizer.step()

    def state(self) -> bytes:
        moments = [torch.as_tensor(each) for kept in self._kept() for _, each in sorted(kept.items())]
        return b"".join(each.detach().numpy().tobytes() for each in (*self.model.parameters(), *moments))

    def _kept(self) -> Any:
        return self.optimizer.state_dict()["state"].values()

    def check_device(self, when: str) -> None:
        """The device computes with the parameters that the program sees."""
        with torch.no_grad():
            found, wanted = self.compiled(self.x), self.model(self.x)
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5, msg=lambda text: f"{when}: {text}")


@pytest.mark.parametrize("is_before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize("name", ["write", "read", "submit_prepared", "begin"])
def test_the_state_is_always_one_that_whole_steps_lead_to(
    name: str, is_before: bool, device: dml.Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = _Training(device)
    wanted = []
    for _ in range(2 * STEPS):
        training.step()
        wanted.append(training.state())
    engine = type(device.engine)
    works = getattr(engine, name)
    failures = 0
    for call in range(_MOST_CALLS):
        calls = 0

        def fails(*arguments: Any, at: int = call, **named: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at + 1 and is_before:
                raise KeyboardInterrupt
            made = works(*arguments, **named)
            if calls == at + 1:
                raise KeyboardInterrupt
            return made

        training.begin()
        has_failed = False
        monkeypatch.setattr(engine, name, fails)
        for _ in range(STEPS):
            try:
                training.step()
            except KeyboardInterrupt:
                has_failed = True
        monkeypatch.undo()
        failures += has_failed
        for more in range(STEPS):
            when = f"{more} steps after call {call + 1} of {name} had failed"
            training.check_device(when)
            assert training.state() in wanted, when
            training.step()
        if not has_failed:
            break
    assert failures, f"nothing calls {name}"

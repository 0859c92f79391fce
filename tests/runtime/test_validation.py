"""The validation layer: on when asked for, its messages as errors, and off otherwise.

The layer is chosen for a whole process, so that most of these tests run programs of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dmlvk.errors import ValidationLayerError
from dmlvk.runtime import validation, vulkan
from dmlvk.runtime.validation import LAYER

DEVICES = vulkan.list_devices()
EACH_DEVICE = pytest.mark.parametrize("index", range(len(DEVICES)), ids=[info.name.split()[0] for info in DEVICES])

# Adds a push constant to a buffer's first word: `layout(local_size_x = 1) in; … void main() { b[0] = a[0] + n; }`,
# assembled by hand to need no shader compiler.
PRELUDE = '''
import logging, os, sys
import numpy as np
from dmlvk.errors import InvalidArgumentError, ValidationLayerError
from dmlvk.runtime.kompute_library import kompute
kp = kompute()
from dmlvk.runtime import validation, vulkan
logging.disable()

def assemble(text):
    names, words = {}, []
    def number(token):
        return names.setdefault(token, len(names) + 1) if token.startswith("%") else int(token, 0)
    for line in text.strip().splitlines():
        opcode, *operands = line.split()
        operands = [w for token in operands for w in (string(token) if token.startswith('"') else [number(token)])]
        words += [(len(operands) + 1) << 16 | int(opcode), *operands]
    return np.array([0x07230203, 0x10300, 0, len(names) + 1, 0, *words], np.uint32).tobytes()

def string(token):
    raw = token.strip('"').encode() + b"\\0"
    return list(np.frombuffer(raw + b"\\0" * (-len(raw) % 4), np.uint32))

ADD = assemble("""
17 1
14 0 1
15 5 %main "main"
16 %main 17 1 1 1
71 %array 6 4
72 %block 0 35 0
71 %block 3
71 %a 34 0
71 %a 33 0
71 %b 34 0
71 %b 33 1
72 %constants 0 35 0
71 %constants 2
19 %void
33 %function %void
21 %uint 32 0
43 %uint %zero 0
29 %array %uint
30 %block %array
32 %blockpointer 2 %block
32 %uintpointer 2 %uint
30 %constants %uint
32 %constantspointer 9 %constants
32 %constantpointer 9 %uint
59 %blockpointer %a 2
59 %blockpointer %b 2
59 %constantspointer %n 9
54 %void %main 0 %function
248 %entry
65 %uintpointer %from %a %zero %zero
61 %uint %left %from
65 %constantpointer %constant %n %zero
61 %uint %right %constant
128 %uint %sum %left %right
65 %uintpointer %to %b %zero %zero
62 %to %sum
253
56
""")

def manager(index):
    with validation.new_instance():
        return kp.Manager(index)

def tensor(manager):
    return manager.tensor_t(np.full(4, 5, np.uint32), kp.TensorTypes.device)

def add(manager, a, b, groups=1):
    three = np.array([3], np.uint32)
    return kp.OpAlgoDispatch(manager.algorithm([a, b], ADD, (groups, 1, 1), np.array([], np.uint32), three), three)

def upload(manager, *tensors):
    manager.sequence().record(kp.OpTensorSyncDevice(list(tensors))).eval()

def run(manager, groups=1):
    a, b = tensor(manager), tensor(manager)
    upload(manager, a, b)
    manager.sequence().record(add(manager, a, b, groups)).record(kp.OpTensorSyncLocal([b])).eval()
    return int(b.data()[0])
'''


def run_program(program: str, mode: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program with ``DMLVK_VALIDATION`` set to ``mode``; an empty value takes a variable away."""
    merged = {**os.environ, "DMLVK_VALIDATION": mode, **environment}
    return subprocess.run(
        [sys.executable, "-c", PRELUDE + program],
        env={name: value for name, value in merged.items() if value},
        capture_output=True,
        text=True,
        timeout=300,
    )


def output_of(program: str, mode: str, **environment: str) -> str:
    """What the program prints; it must end well."""
    outcome = run_program(program, mode, **environment)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@EACH_DEVICE
@pytest.mark.parametrize("mode", ["1", "sync"])
def test_correct_work_raises_nothing(index: int, mode: str) -> None:
    program = f"""
assert validation.enabled()
info = vulkan.list_devices()[{index}]
with vulkan.MemoryGuard(info) as guard:
    guard.claim(vulkan.MemoryRequest(100 << 20))
    m = manager({index})
    assert run(m) == 8
    validation.raise_new_messages("run")
    m.destroy()
validation.raise_new_messages("close")
print("clean")
"""
    assert output_of(program, mode) == "clean\n"


@EACH_DEVICE
def test_a_violation_by_kompute_is_raised_with_its_rule_and_text(index: int) -> None:
    program = f"""
m = manager({index})
groups = vulkan.list_devices()[{index}].limits.max_compute_work_group_count[1] + 1
a, b = tensor(m), tensor(m)
three = np.array([3], np.uint32)
algorithm = m.algorithm([a, b], ADD, (1, groups, 1), np.array([], np.uint32), three)
m.sequence().record(kp.OpAlgoDispatch(algorithm, three))
try:
    validation.raise_new_messages("SIGN: dispatch")
except ValidationLayerError as error:
    print(error)
validation.raise_new_messages("nothing is raised twice")
"""
    message = output_of(program, "1")
    assert message.startswith("SIGN: dispatch: Vulkan validation error VUID-vkCmdDispatch-groupCountY-00387")
    assert "exceeds device limit maxComputeWorkGroupCount[1]" in message


def test_every_instances_messages_arrive_also_after_another_one_was_made() -> None:
    """The layer empties its file for every instance: older ones must not lose or garble theirs."""
    program = """
def violate(m):
    a, b = tensor(m), tensor(m)
    three = np.array([3], np.uint32)
    algorithm = m.algorithm([a, b], ADD, (1, 1, 1 << 30), np.array([], np.uint32), three)
    m.sequence().record(kp.OpAlgoDispatch(algorithm, three))

devices = range(len(vulkan.list_devices()))
managers = [manager(index) for index in devices for _ in range(2)]
for m in managers + managers[::-1]:
    vulkan.list_devices()
    violate(m)
    vulkan.list_devices()
    messages = validation.new_messages()
    assert [message.identifier for message in messages] == ["VUID-vkCmdDispatch-groupCountZ-00388"], messages
print("all arrived")
"""
    assert output_of(program, "1") == "all arrived\n"


@EACH_DEVICE
@pytest.mark.parametrize("mode", ["1", "sync"])
def test_a_missing_barrier_is_found_with_sync_only(index: int, mode: str) -> None:
    program = f"""
assert validation.synchronization_enabled() == {mode == "sync"}
m = manager({index})
a, b, c = tensor(m), tensor(m), tensor(m)
upload(m, a, b, c)
def chain(*between):
    sequence = m.sequence().record(add(m, a, b))
    for operation in between:
        sequence.record(operation)
    sequence.record(add(m, b, c)).eval()
    return [message.identifier for message in validation.new_messages()]
print(chain(), chain(kp.OpTensorSyncLocal([b])))
"""
    missing = "['SYNC-HAZARD-READ-AFTER-WRITE']" if mode == "sync" else "[]"
    assert output_of(program, mode) == f"{missing} []\n"


LOADED_LAYER = """
loaded = "libVkLayer_khronos_validation" in open("/proc/self/maps").read() if sys.platform == "linux" else None
print(loaded, validation.enabled())
"""


@pytest.mark.parametrize("mode", ["", "0"])
def test_without_the_variable_no_validation_layer_is_active(mode: str) -> None:
    program = f"vulkan.list_devices(); m = manager(0); run(m)\n{LOADED_LAYER}"
    assert output_of(program, mode) in ("False False\n", "None False\n")


@pytest.mark.parametrize("old_loader", [False, True])
def test_without_the_variable_a_kompute_with_debug_layers_does_not_find_the_layer(old_loader: bool) -> None:
    """Such a Kompute switches on what vkEnumerateInstanceLayerProperties offers."""
    program = f"""
from dmlvk.runtime.vulkan import loader
assert "{LAYER}" in loader.instance_layers(), "install vulkan-validationlayers to run the tests"
with validation.new_instance():
    if {old_loader}:
        del os.environ["VK_LOADER_LAYERS_DISABLE"]  # which loaders before 1.3.234 do not know
    else:
        del os.environ["VK_LAYER_PATH"]
    assert "{LAYER}" not in loader.instance_layers()
print("hidden")
"""
    assert output_of(program, "") == "hidden\n"


def test_vulkans_own_variable_switches_the_layer_on_unless_zero_forbids_it() -> None:
    program = f"vulkan.list_devices(); m = manager(0)\n{LOADED_LAYER}"
    assert output_of(program, "", VK_INSTANCE_LAYERS=LAYER) in ("True False\n", "None False\n")
    assert output_of(program, "0", VK_INSTANCE_LAYERS=LAYER) in ("False False\n", "None False\n")


def test_a_missing_layer_is_an_error_that_names_the_package(tmp_path: Path) -> None:
    outcome = run_program("vulkan.list_devices()", "1", VK_LAYER_PATH=str(tmp_path))
    assert outcome.returncode != 0
    last_line = outcome.stderr.strip().splitlines()[-1]
    assert f"ValidationLayerError: DMLVK_VALIDATION=1 asks for {LAYER}" in last_line
    assert "looked with VK_LAYER_PATH set" in last_line
    assert "apt install vulkan-validationlayers" in last_line


def test_kompute_is_not_opened_unvalidated_when_the_layer_is_missing(tmp_path: Path) -> None:
    outcome = run_program("manager(0); print('opened')", "sync", VK_LAYER_PATH=str(tmp_path))
    assert "DMLVK_VALIDATION=sync asks for" in outcome.stderr
    assert outcome.stdout == ""


def test_messages_that_do_not_arrive_are_an_error() -> None:
    program = """
from dmlvk.runtime.vulkan import loader
loader.Instance.provoke_validation = lambda self: None
try:
    vulkan.list_devices()
except ValidationLayerError as error:
    print(error)
"""
    assert f"{LAYER} is switched on but its messages do not arrive" in output_of(program, "1")


def test_a_meaningless_value_is_refused() -> None:
    program = """
try:
    vulkan.list_devices()
except InvalidArgumentError as error:
    print(error)
"""
    assert output_of(program, "yes") == "DMLVK_VALIDATION must be unset, 0, 1 or sync; got 'yes'\n"


@pytest.mark.parametrize("mode", ["", "1"])
def test_the_environment_is_left_as_it_was(mode: str) -> None:
    program = """
def vulkan_variables():
    return {name: value for name, value in os.environ.items() if name.startswith("VK_")}
before = vulkan_variables()
vulkan.list_devices()
m = manager(0)
assert vulkan_variables() == before
print("same")
"""
    assert output_of(program, mode, VK_LOADER_LAYERS_DISABLE="*steam*") == "same\n"


def test_messages_that_nobody_asked_for_are_told_at_exit_and_files_are_removed() -> None:
    program = """
m = manager(0)
a, b = tensor(m), tensor(m)
three = np.array([3], np.uint32)
m.sequence().record(kp.OpAlgoDispatch(m.algorithm([a, b], ADD, (1, 1 << 30, 1), np.array([], np.uint32), three), three))
print(validation._session.folder)
"""
    outcome = run_program(program, "1")
    assert outcome.returncode == 0
    assert "Vulkan validation, reported too late for an exception: " in outcome.stderr
    assert "VUID-vkCmdDispatch-groupCountY-00387" in outcome.stderr
    folder = Path(outcome.stdout.strip())
    assert folder.name.startswith("dmlvk-validation-") and not folder.exists()


# What the loader is told, without asking it.


def set_variables(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    for name in ("VK_INSTANCE_LAYERS", "VK_LOADER_LAYERS_ENABLE", "VK_LOADER_LAYERS_DISABLE", "VK_LAYER_PATH"):
        monkeypatch.delenv(name, raising=False)
    for name in ("VK_ADD_LAYER_PATH", "KOMPUTE_ENV_DEBUG_LAYERS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_the_layer_goes_after_the_layers_that_the_user_has_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, VK_INSTANCE_LAYERS=os.pathsep.join(["VK_LAYER_A", "VK_LAYER_B"]))
    orders = validation._orders_to_validate(None)
    assert orders["VK_INSTANCE_LAYERS"] == os.pathsep.join(["VK_LAYER_A", "VK_LAYER_B", LAYER])
    set_variables(monkeypatch, VK_INSTANCE_LAYERS=os.pathsep.join([LAYER, "VK_LAYER_B"]))
    assert validation._orders_to_validate(None)["VK_INSTANCE_LAYERS"] == os.pathsep.join([LAYER, "VK_LAYER_B"])


def test_asking_for_validation_overrides_a_filter_that_names_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, VK_LOADER_LAYERS_DISABLE=f"*steam*,{LAYER}")
    assert validation._orders_to_validate(None)["VK_LOADER_LAYERS_DISABLE"] == "*steam*"


def test_hiding_the_layer_adds_to_the_users_filters(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch)
    assert validation._orders_not_to_validate("unasked") == {
        "VK_LOADER_LAYERS_DISABLE": LAYER,
        "VK_LAYER_PATH": os.devnull,
    }
    set_variables(monkeypatch, VK_LOADER_LAYERS_DISABLE="~implicit~")
    assert validation._orders_not_to_validate("unasked")["VK_LOADER_LAYERS_DISABLE"] == f"~implicit~,{LAYER}"


@pytest.mark.parametrize("variable", ["VK_LAYER_PATH", "VK_ADD_LAYER_PATH", "KOMPUTE_ENV_DEBUG_LAYERS"])
def test_layers_that_the_user_wants_stay_where_they_are(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    set_variables(monkeypatch, **{variable: "something"})
    assert validation._orders_not_to_validate("unasked") == {"VK_LOADER_LAYERS_DISABLE": LAYER}


def test_an_empty_filter_and_a_layer_that_the_user_asks_for_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    set_variables(monkeypatch, VK_LOADER_LAYERS_DISABLE="", VK_LAYER_PATH="/layers")
    assert validation._orders_not_to_validate("unasked") == {}
    set_variables(monkeypatch, VK_LOADER_LAYERS_ENABLE=f"*mesa*,{LAYER}")
    assert validation._orders_not_to_validate("unasked") == {}
    off = validation._orders_not_to_validate("off")
    assert (off["VK_LOADER_LAYERS_ENABLE"], off["VK_LOADER_LAYERS_DISABLE"]) == ("*mesa*", LAYER)


# Reading what the layer wrote.

OLDER_LAYER = (
    "VUID-vkCmdDispatch-groupCountX-00386(ERROR / SPEC): msgNum: -19 - "
    "Validation Error: [ VUID-vkCmdDispatch-groupCountX-00386 ] Object 0: handle = 0x55; | MessageID = 0x8e | "
    """vkCmdDispatch(): too many. The Vulkan spec states: fewer
    Objects: 1
        [0] 0x5571752f0410, type: 6, name: NULL

"""
    "UNASSIGNED-CoreValidation-Shader-OutputNotConsumed(WARN / SPEC): msgNum: 101 - "
    "Validation Warning: [ UNASSIGNED-CoreValidation-Shader-OutputNotConsumed ] Object 0: handle = 0x77; | "
    """MessageID = 0x60 | unused
    Objects: 1
        [0] 0x77, type: 15, name: NULL
"""
)
NEWER_LAYER = """Validation Error: [ VUID-vkCmdDispatch-groupCountX-00386 ] | MessageID = 0x8e927036
vkCmdDispatch(): groupCountX (70000) exceeds device limit.
Objects: 1
    [0] VkCommandBuffer 0x5571752f0410

Validation Warning: [ VALIDATION-SETTINGS ] | MessageID = 0x7f1922d7
vkCreateInstance(): a setting is deprecated.
"""


def test_messages_of_older_and_newer_layers_are_understood() -> None:
    error, warning = validation.parse_messages(OLDER_LAYER)
    assert (error.severity, error.identifier) == ("error", "VUID-vkCmdDispatch-groupCountX-00386")
    assert "too many" in error.text and "0x5571752f0410" in error.text and "unused" not in error.text
    assert warning.severity == "warning"
    assert warning.identifier == "UNASSIGNED-CoreValidation-Shader-OutputNotConsumed"
    error, warning = validation.parse_messages(NEWER_LAYER)
    assert (error.severity, error.identifier) == ("error", "VUID-vkCmdDispatch-groupCountX-00386")
    assert "exceeds device limit" in error.text and "deprecated" not in error.text
    assert (warning.severity, warning.identifier) == ("warning", "VALIDATION-SETTINGS")


def test_text_in_an_unknown_form_is_an_error_and_not_nothing() -> None:
    (message,) = validation.parse_messages("something quite different\n")
    assert (message.severity, message.text) == ("error", "something quite different")
    assert [message.severity for message in validation.parse_messages("?\n" + NEWER_LAYER)] == [
        "error",
        "error",
        "warning",
    ]
    assert validation.parse_messages("\n \n") == []


def test_the_error_tells_how_many_messages_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "new_messages", lambda: validation.parse_messages(NEWER_LAYER * 2))
    with pytest.raises(ValidationLayerError) as caught:
        validation.raise_new_messages("GEMM: dispatch")
    beginning = "GEMM: dispatch: Vulkan validation error VUID-vkCmdDispatch-groupCountX-00386 (and 3 more messages): "
    assert str(caught.value).startswith(beginning)


def test_synchronization_validation_is_asked_for_in_the_words_of_the_layers_version(tmp_path: Path) -> None:
    session = validation._ValidationSession("off")
    session.mode, session.folder = "sync", tmp_path
    session._write_settings(1 << 22 | 3 << 12 | 239)
    assert "enables = VK_VALIDATION_FEATURE_ENABLE_SYNCHRONIZATION_VALIDATION_EXT" in session.settings.read_text()
    session._write_settings(1 << 22 | 4 << 12 | 335)
    assert "validate_sync = true" in session.settings.read_text()
    assert "enables" not in session.settings.read_text()

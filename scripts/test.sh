#!/usr/bin/env bash
# The second command on a fresh machine: set up what is missing, then run the tests on every CPU driver at hand.
#
#     scripts/test.sh          the quick tests: every operator on every driver, and what else three minutes have time for,
#                              by what tests take (tests/effort.py, tests/costs.py); the fast ones first
#     scripts/test.sh -k sign  arguments go to pytest: of these tests those that they choose
#     scripts/test.sh --all    all tests, as CI runs them: most on one of the drivers
#     scripts/test.sh --every-driver             all tests, on every driver
#     scripts/test.sh tests/operators -k sign    a folder, a file: all its tests, on every driver;
#                                                --quick or --all before them: as above
#     scripts/test.sh --measure                  a few tests of each function; writes what they take to tests/costs.json
#
# They run in a process for each core, 8 at most; -n 0 runs them in one, and so does -s, which shows what they print.
#
# A driver that the tests would use but that cannot be had here is named, never silently left out.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

names_tests() { # names_tests ARGUMENT...: whether one of them is a folder, a file or a test
    local argument
    for argument in "$@"; do
        [[ $argument != tests* || ! -e ${argument%%::*} ]] || return 0
    done
    return 1
}

extent=${1:---quick}
if [[ $extent == -* ]] && ! names_tests "$@"; then
    [[ $extent == --@(quick|all|every-driver|measure) ]] || set -- --quick "$@"
fi
case ${1:---quick} in
    --quick) export DMLVK_TEST_QUICK=1 DMLVK_TEST_TURNS=1 && shift $(($# > 0)) ;;
    --measure) export DMLVK_TEST_TURNS=1 DMLVK_TEST_MEASURE=1 && shift ;;
    --all) export DMLVK_TEST_TURNS=1 && shift ;;
    --every-driver) shift ;;
esac

scripts/setup.sh --tests

first_of() { # first_of PATTERN...: the first file that matches one of the patterns, or nothing
    compgen -G "$1" | head -n 1 || true
}

printf '\nDrivers under test:\n'
llvmpipe=$(first_of '/usr/share/vulkan/icd.d/lvp_icd*.json')
printf '  llvmpipe:         %s\n' "${llvmpipe:-NOT TESTED, its package mesa-vulkan-drivers is not installed}"
if [[ -z ${DMLVK_TEST_SWIFTSHADER_ICD:-} ]]; then
    DMLVK_TEST_SWIFTSHADER_ICD=$(scripts/fetch_swiftshader.sh) || DMLVK_TEST_SWIFTSHADER_ICD=
fi
printf '  SwiftShader:      %s\n' "${DMLVK_TEST_SWIFTSHADER_ICD:-NOT TESTED, see above}"
layer=$(first_of '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json')
printf '  validation layer: %s\n\n' "${layer:-NOT TESTED, its package vulkan-validationlayers is not installed}"
if [[ -z $llvmpipe && -z $DMLVK_TEST_SWIFTSHADER_ICD ]]; then
    echo "test.sh: there is no CPU driver to test on" >&2
    exit 2
fi
if [[ ${CI:-} == true ]] && [[ -z $llvmpipe || -z $DMLVK_TEST_SWIFTSHADER_ICD || -z $layer ]]; then
    echo "test.sh: CI tests on llvmpipe, on SwiftShader and under the validation layer; see above what is missing" >&2
    exit 2
fi

# Some hundred processes are started by tests, and workers read the tests themselves: where the environment has Python
# write no bytecode, each of them would compile all sources anew, which takes it longer than what it is started for.
unset PYTHONDONTWRITEBYTECODE

# tests/conftest.py makes the Vulkan loader offer exactly these drivers.
if [[ -n $DMLVK_TEST_SWIFTSHADER_ICD ]]; then
    export DMLVK_TEST_SWIFTSHADER_ICD
else
    unset DMLVK_TEST_SWIFTSHADER_ICD
fi

# A test is mostly Python, NumPy and a driver's compiler, which use one core: so one process for each. 8 at most, since
# the drivers have threads of their own. worksteal hands out long runs of neighbours, so that what a file prepares for
# all of its tests is mostly prepared once, and evens out at the end; load hands out the quick tests in their order, which is the
# fast ones first. The arguments come later: their -n counts. tests/conftest.py says when auto is none; without the plugin there are
# none of these options.
processes=(-n auto --maxprocesses 8 --dist worksteal)
[[ ${DMLVK_TEST_QUICK:-} != 1 ]] || processes=(-n auto --maxprocesses 8 --dist load)
if [[ " $* " == *" -p no:xdist "* || " $* " == *" -pno:xdist "* ]]; then
    processes=()
fi

# All tests together need every shader: compiled here, none is compiled twice by two processes that need it at once. The
# quick ones compile what they run.
if (($# == 0)) && [[ ${DMLVK_TEST_QUICK:-} != 1 ]]; then
    .venv/bin/python scripts/compile_shaders.py
fi
exec .venv/bin/python -m pytest "${processes[@]}" "$@"

#!/usr/bin/env bash
# Set up everything that dmlvk needs on Debian or Ubuntu: system packages, .venv, Kompute, dmlvk itself, and a compiler
# of its shaders, which are compiled when they are first needed.
#
#   scripts/setup.sh            what running needs
#   scripts/setup.sh --tests    and what only the tests and a change need (pytest, ruff, onnx and so on, vulkaninfo, the
#                               Vulkan validation layer, the pages that follow from declarations)
#
# Run it as often as you like: what is in place is left alone, and the second run takes a second or two.
# Exit status: 0 done, 1 a step failed (the log's last lines are shown), 2 something must be installed by hand first.
#
# DMLVK_PYTHON=/path/to/python3 names the Python (>= 3.10) that a new .venv is made with.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

readonly ROOT=$PWD
readonly VENV=$ROOT/.venv
readonly STAMP=$VENV/.dmlvk-setup
readonly LOG=$ROOT/build/setup.log
readonly STEPS=5

WITH_TESTS=no
case "${1:-}" in
    "") ;;
    --tests) WITH_TESTS=yes ;;
    *) echo "usage: scripts/setup.sh [--tests]" >&2; exit 2 ;;
esac

# Other environments' settings must not leak into this one.
unset PYTHONHOME PYTHONPATH PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

# ---------------------------------------------------------------------------------------------------- progress

STEP=0
step() { # step TITLE: announce the next step
    STEP=$((STEP + 1))
    STEP_START=$SECONDS
    printf '[%d/%d] %s\n' "$STEP" "$STEPS" "$1"
}

note() { printf '      %s\n' "$*"; }

finish_step() { note "$1 ($((SECONDS - STEP_START)) s)"; }

fail() { # fail MESSAGE: one clear line, after the end of the log of what went wrong
    printf '%s\n' "---- last lines of ${LOG#"$ROOT"/} ----" >&2
    tail -n 15 -- "$LOG" | cut -c 1-240 >&2
    printf '%s\nsetup.sh: %s (whole log: %s)\n' "----" "$1" "${LOG#"$ROOT"/}" >&2
    exit 1
}

stop() { # stop MESSAGE: the person has to do something first
    printf 'setup.sh: %s\n' "$1" >&2
    exit 2
}

logged() { # logged COMMAND...: run it with all its output in the log
    printf '\n+ %s\n' "$*" >>"$LOG"
    "$@" >>"$LOG" 2>&1 </dev/null
}

# ---------------------------------------------------------------------------------------------------- step 1

python_works() { # python_works PYTHON: recent enough, and able to make an environment?
    "$1" - >/dev/null 2>&1 <<'PYTHON'
import ensurepip, sys, venv  # Debian and Ubuntu ship ensurepip in python3-venv
sys.exit(0 if sys.version_info >= (3, 10) else 1)
PYTHON
}

find_python() { # sets PYTHON to the first one that works; status 1 if none does
    local candidate
    for candidate in ${DMLVK_PYTHON:+"$DMLVK_PYTHON"} python3 /usr/bin/python3 \
        python3.13 python3.12 python3.11 python3.10; do
        if python_works "$candidate"; then
            PYTHON=$candidate
            return 0
        fi
        if [[ $candidate == "${DMLVK_PYTHON:-}" ]]; then
            stop "DMLVK_PYTHON=$candidate cannot be used: it must be Python >= 3.10 with its venv module"
        fi
    done
    return 1
}

includes() { # includes HEADER: does the compiler find it?
    printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" | c++ -E -x c++ - >/dev/null 2>&1
}

has_program() { command -v "$1" >/dev/null; }

works() { "$1" --version >/dev/null 2>&1; }

has_loader() { PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | grep -q 'libvulkan\.so\.1'; }

has_file() { compgen -G "$1" >/dev/null; }

need() { # need PACKAGE CHECK...: note the package as missing unless it is installed or the check succeeds
    local package=$1
    shift
    [[ $INSTALLED == *" $package "* ]] || "$@" || MISSING+=("$package")
}

installed_packages() { # those among the arguments that dpkg has, between spaces
    if command -v dpkg-query >/dev/null; then
        # dpkg-query fails when it does not know one of the names; what it does know is printed all the same.
        # shellcheck disable=SC2016  # dpkg-query's own variables
        { dpkg-query -W -f='${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true; } |
            awk '$2 == "installed" { printf " %s ", $1 }'
    fi
}

find_missing() { # sets MISSING to the packages without which set-up cannot go on, OPTIONAL to those it can do without
    MISSING=()
    INSTALLED=$(installed_packages g++ libvulkan-dev libvulkan1 glslang-tools glslang-dev \
        spirv-tools mesa-vulkan-drivers vulkan-tools vulkan-validationlayers)
    find_python || MISSING+=(python3 python3-venv)
    need g++ works c++
    need libvulkan-dev includes vulkan/vulkan.hpp
    need libvulkan1 has_loader
    need glslang-tools works glslangValidator
    need spirv-tools works spirv-val
    local required=("${MISSING[@]}")
    MISSING=()
    # For a compiler of many shaders; without it glslangValidator compiles one at a time.
    need glslang-dev includes glslang/Public/ShaderLang.h
    # llvmpipe, a driver that runs on the processor: always there, with or without a GPU.
    need mesa-vulkan-drivers has_file '/usr/share/vulkan/icd.d/lvp_icd*.json'
    if [[ $WITH_TESTS == yes ]]; then
        need vulkan-tools has_program vulkaninfo # one test compares what dmlvk asks Vulkan with it
        need vulkan-validationlayers has_file '/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json'
    fi
    OPTIONAL=("${MISSING[@]}")
    MISSING=("${required[@]}")
    # Without any driver at all nothing runs, so then llvmpipe is not optional.
    if [[ " ${OPTIONAL[*]} " == *" mesa-vulkan-drivers "* ]] && ! has_any_driver; then
        MISSING+=(mesa-vulkan-drivers)
        OPTIONAL=("${OPTIONAL[@]/mesa-vulkan-drivers/}")
    fi
}

has_any_driver() {
    [[ -n ${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-} ]] ||
        has_file '/usr/share/vulkan/icd.d/*.json' || has_file '/etc/vulkan/icd.d/*.json'
}

system_packages() {
    step "System packages"
    find_missing
    local wanted=("${MISSING[@]}" "${OPTIONAL[@]}")
    read -ra wanted <<<"${wanted[*]}" # drops empty words
    if ((${#wanted[@]} == 0)); then
        finish_step "nothing is missing"
        return
    fi
    local hint="apt-get update && apt-get install -y --no-install-recommends ${wanted[*]}"
    command -v apt-get >/dev/null || {
        ((${#MISSING[@]} == 0)) || stop "not found: ${MISSING[*]} (Debian's names; set-up installs packages only on \
Debian and Ubuntu, see README.md, section \"Install elsewhere\")"
        note "not found, and not strictly needed: ${wanted[*]}"
        return
    }
    local -a as_root
    if ((EUID == 0)); then
        as_root=(env)
    elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
        as_root=(sudo -n env)
    elif command -v sudo >/dev/null && ((${#MISSING[@]} > 0)) && [[ -t 0 ]]; then
        note "sudo may ask for your password to install: ${wanted[*]}"
        sudo -v || stop "as root, run: $hint"
        as_root=(sudo env)
    elif ((${#MISSING[@]} > 0)); then
        stop "some packages are missing; run this as root, then run me again: $hint"
    else
        note "without root these are left out: ${wanted[*]}"
        return
    fi
    note "installing ${wanted[*]} ..."
    local -a apt=("${as_root[@]}" DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -q)
    logged "${apt[@]}" update || note "apt-get update had errors (see ${LOG#"$ROOT"/}); going on with the lists at hand"
    logged "${apt[@]}" install -y --no-install-recommends "${wanted[@]}" || fail "apt-get could not install: ${wanted[*]}"
    hash -r
    find_missing
    ((${#MISSING[@]} == 0)) || stop "still missing after installing: ${MISSING[*]}$(python_complaint)"
    finish_step "installed"
}

python_complaint() { # why no Python was found, if that is so
    find_python || printf '%s' " (python3 is $(python3 --version 2>&1 || true); dmlvk needs Python >= 3.10 with venv: \
install one and name it in DMLVK_PYTHON)"
}

# ---------------------------------------------------------------------------------------------------- steps 2 to 5

environment_stamp() { # environment_stamp WITH_TESTS: a text that changes when what is in .venv has to change
    printf '%s\n' "$ROOT" "$("$VENV/bin/python" -VV)"
    cksum pyproject.toml
    [[ $1 == yes ]] || echo "without what tests need"
}

environment_is_current() { # what tests need may be there, and must be for --tests
    [[ -f $STAMP && -x $VENV/bin/dmlvk ]] || return 1
    [[ $(<"$STAMP") == "$(environment_stamp yes)" ]] ||
        [[ $WITH_TESTS == no && $(<"$STAMP") == "$(environment_stamp no)" ]] || return 1
    "$VENV/bin/python" -c 'import dmlvk' >/dev/null 2>&1
}

virtual_environment() {
    step "Python environment in .venv"
    if [[ -f $STAMP && $(head -n 1 "$STAMP") != "$ROOT" ]]; then
        note "made for another folder: making it anew"
        rm -rf -- "$VENV"
    fi
    if python_works "$VENV/bin/python" && "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
        finish_step "there already, $("$VENV/bin/python" --version)"
        return
    fi
    rm -rf -- "$VENV"
    logged "$PYTHON" -m venv "$VENV" || fail "$PYTHON could not make a virtual environment"
    finish_step "made with $("$VENV/bin/python" --version), $(command -v "$PYTHON")"
}

kompute() { # compiled anew where its recipe has changed, or where the system's libraries have under it
    step "Kompute"
    local load='import ctypes, sys; ctypes.CDLL(sys.argv[1])' library found="from the user's cache"
    if ! library=$("$VENV/bin/python" scripts/build_kompute.py --library --cached-only 2>>"$LOG") ||
        ! logged "$VENV/bin/python" -c "$load" "$library"; then
        found=compiled
        library=$("$VENV/bin/python" scripts/build_kompute.py --library --rebuild 2>>"$LOG" </dev/null) ||
            fail "Kompute could not be built"
        logged "$VENV/bin/python" -c "$load" "$library" || fail "Kompute was built but cannot be loaded"
    fi
    finish_step "$found"
}

install_dmlvk() {
    step "dmlvk and the Python packages it needs"
    # Build isolation would download the build tools at every run; kept in .venv they serve offline too.
    logged "$VENV/bin/python" -m pip install 'hatchling>=1.24' 'editables>=0.5' || fail "pip could not install hatchling"
    local what='.[onnx]'
    [[ $WITH_TESTS == no ]] || what='.[dev]'
    logged "$VENV/bin/python" -m pip install --no-build-isolation --editable "$what" || fail "pip could not install dmlvk"
    environment_stamp "$WITH_TESTS" >"$STAMP"
    finish_step "installed"
}

begin_shader_compiler() { # beside Kompute, which takes the other core
    "$VENV/bin/python" scripts/build_compiler.py >build/compiler.log 2>&1 </dev/null &
    COMPILER=$!
}

shader_compiler() {
    step "Compiler of the shaders"
    local status=0
    wait "$COMPILER" || status=$?
    cat build/compiler.log >>"$LOG"
    if ((status == 0)); then
        finish_step "built and current"
    else
        finish_step "without scripts/build_compiler.py's program (see ${LOG#"$ROOT"/}) glslangValidator compiles, more slowly"
    fi
}

generated_files() { # what follows from the declarations and is not in git: pages, and types for editors
    if [[ $WITH_TESTS == no ]]; then
        [[ -f dmlvk/functions.pyi ]] || logged "$VENV/bin/python" -m scripts.docs_tools.function_stubs ||
            fail "scripts/docs_tools/function_stubs.py could not write the functions' types"
    elif [[ ! -f dmlvk/functions.pyi || ! -f docs/onnx-operators.md ]] || [[ -n $(find dmlvk/operators dmlvk/graphs \
        dmlvk/onnx/nodes docs/accuracy.md scripts/docs_tools scripts/make_docs.py -type f ! -name '*.pyc' \
        -newer dmlvk/functions.pyi -print -quit) ]]; then
        logged "$VENV/bin/python" scripts/make_docs.py || fail "scripts/make_docs.py could not write the documents"
        touch dmlvk/functions.pyi
    fi
}

main() {
    case "$(uname -s)" in
        Linux) ;;
        *) stop "this script is for Debian and Ubuntu; for $(uname -s) see README.md, section \"Install elsewhere\"" ;;
    esac
    mkdir -p build
    # One at a time: two set-ups in one folder would write over each other.
    exec 9>build/setup.lock
    if command -v flock >/dev/null && ! flock -n 9; then
        echo "waiting for another set-up in this folder ..."
        flock 9
    fi
    date >"$LOG"
    trap 'printf "setup.sh: stopped at line %s (log: %s)\n" "$LINENO" "$LOG" >&2' ERR
    system_packages
    if environment_is_current; then
        step "Python environment in .venv"
        finish_step "unchanged since the last set-up"
        step "dmlvk and the Python packages it needs"
        finish_step "unchanged since the last set-up"
    else
        virtual_environment
        install_dmlvk
    fi
    begin_shader_compiler
    kompute
    shader_compiler
    generated_files
    printf 'set-up is complete after %d s\n' "$SECONDS"
}

main

#!/usr/bin/env bash
# Get SwiftShader, a Vulkan driver that runs on the processor, for the tests; print the path of its ICD file.
#
# SwiftShader has none of the optional features that llvmpipe has, so what passes on both uses no optional feature.
# It is in no package of its own: it comes with Chromium. Where a browser has brought it, it is used in place; else
# Debian's package chromium-common is downloaded (about 30 MB, once), not installed, and its two files are kept in
# the user's cache. No root is needed where apt's package lists are up to date.
#
# Exit status: 0 and the path on standard output; 3 if there is none to be had, and why on standard error.
set -euo pipefail

readonly LIBRARY=libvk_swiftshader.so
readonly ICD=vk_swiftshader_icd.json
readonly PACKAGE=chromium-common
readonly KEPT=${XDG_CACHE_HOME:-${HOME:?}/.cache}/dmlvk/swiftshader

unavailable() {
    printf 'SwiftShader is not available here: %s\n' "$1" >&2
    exit 3
}

for folder in "$KEPT" /usr/lib/chromium /opt/google/chrome; do
    if [[ -f $folder/$ICD && -f $folder/$LIBRARY ]]; then
        printf '%s\n' "$folder/$ICD"
        exit 0
    fi
done

if ! command -v apt-get >/dev/null || ! command -v dpkg >/dev/null; then
    unavailable "it comes from Debian's package $PACKAGE, and this is not Debian"
fi

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
chmod 755 "$work" # apt downloads as a user of its own when root runs it
cd -- "$work"

download() { apt-get -q download "$PACKAGE" >log 2>&1; }

update() { # new package lists, where that is allowed
    if ((EUID == 0)); then
        apt-get -q update >log 2>&1
    else
        # shellcheck disable=SC2024  # the log is the caller's
        command -v sudo >/dev/null && sudo -n apt-get -q update >log 2>&1
    fi
}

# The lists may be missing, or so old that the server no longer has what they name: get new ones and try again.
if ! download && ! { update && download; }; then
    unavailable "$PACKAGE could not be downloaded with apt-get ($(tail -n 1 log)); Ubuntu does not have this package"
fi
dpkg -x "$PACKAGE"_*.deb unpacked
for file in "$LIBRARY" "$ICD"; do
    [[ -f unpacked/usr/lib/chromium/$file ]] || unavailable "$file is not in $(echo "$PACKAGE"_*.deb)"
done
mkdir -p -- "$KEPT"
# The ICD file last: it is what the next call looks for.
for file in "$LIBRARY" "$ICD"; do
    cp -- "unpacked/usr/lib/chromium/$file" "$KEPT/$file.$$"
    mv -f -- "$KEPT/$file.$$" "$KEPT/$file"
done
printf '%s\n' "$KEPT/$ICD"

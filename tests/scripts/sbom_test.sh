#!/usr/bin/env bash
# scripts/make-sbom lists all that the program loads and all whose headers are in it, with the versions and licences of this machine.
#   sbom_test.sh SOURCE_ROOT PROGRAM TORCH
set -euo pipefail
root=$1 program=$2 torch=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong() { echo "$*"; exit 1; }

"$root/scripts/make-sbom" "$program" "$torch" 9.8.7 >"$work/bill"
ldd "$program" | sed -n 's/^[[:space:]]*\([^ ]*\) => \/.*/\1/p' | grep -v '^liblonghaul' | sort >"$work/loaded"

# What the other tools of the system say is compared with what stands in the bill.
python3 - "$work/bill" "$work/loaded" "$torch" "$(dpkg -s zlib1g | sed -n 's/^Version: //p')" "$(dpkg --print-architecture)" <<'PYTHON'
import json, re, sys
bill = json.load(open(sys.argv[1]))
loaded, torch, zlib, machine = open(sys.argv[2]).read().split(), *sys.argv[3:]
def same(found, expected, what):
    if found != expected:
        sys.exit(f"{what}: expected {expected!r}, found {found!r}")
same((bill["bomFormat"], bill["specVersion"]), ("CycloneDX", "1.5"), "form")
same(bill["metadata"]["component"]["version"], "9.8.7", "own version")
parts = {part["name"]: part for part in bill["components"]}
def said(part, name):
    return [each["value"] for each in parts[part].get("properties", []) if each["name"] == "longhaul:" + name]
same(sorted(library for part in parts for library in said(part, "library")), loaded, "libraries")
same([name for name in parts if not parts[name].get("version")], [], "packages without a version")
same([name for name in parts if not parts[name]["licenses"]], [], "packages without a licence")
same(parts["zlib1g"]["version"], zlib, "version of zlib1g")
same(parts["zlib1g"]["licenses"], [{"license": {"id": "Zlib"}}], "licence of zlib1g")
same(parts["zlib1g"]["purl"].partition("@")[2].partition("&")[0], zlib.replace(":", "%3A").replace("+", "%2B") + "?arch=" + machine, "address of zlib1g")
same(parts["libzstd1"]["licenses"], [{"expression": "BSD-3-Clause OR GPL-2.0-only"}], "licence of libzstd1")
same(sorted(part for part in parts if said(part, "headers")), ["libcli11-dev", "libhwy-dev", "nlohmann-json3-dev"], "headers alone")
same([part for part in parts if said(part, "shipped")], ["libc6"], "what every machine has")
same(parts["torch"]["version"], re.search(r"__version__ = '(.*)'", open(torch + "/version.py").read())[1], "version of LibTorch")
refs = [part["bom-ref"] for part in bill["components"]]
same(len(set(refs)), len(refs), "different references")
same(bill["dependencies"], [{"ref": bill["metadata"]["component"]["bom-ref"], "dependsOn": refs}], "dependencies")
PYTHON

# What loads no library is no program of ours, and a LibTorch of unknown version is not made up.
status=0
"$root/scripts/make-sbom" "$root/README.md" "$torch" 1 >/dev/null 2>"$work/said" || status=$?
((status == 64)) && grep -q 'README.md is no program' "$work/said" || wrong "README.md ended with $status: $(<"$work/said")"
mkdir "$work/lone"
ln -s "$torch" "$work/lone/torch"
status=0
"$root/scripts/make-sbom" "$program" "$work/lone/torch" 1 >/dev/null 2>"$work/said" || status=$?
((status == 65)) && grep -q 'the version of torch is not known' "$work/said" || wrong "a LibTorch without its facts ended with $status: $(<"$work/said")"

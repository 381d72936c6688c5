#!/usr/bin/env bash
# scripts/check-names must accept a tree in which every name of an unnamed namespace is its folder's only one, and name each that two files have. Usage: check_names_test.sh SOURCE_ROOT
set -euo pipefail
source "$(dirname "$0")/planted_tree.sh"

plant_clean_tree() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/src/plan/inner "$tree/tests"
  cat >"$tree/src/plan/first.cpp" <<'CODE'
namespace longhaul {
namespace {
constexpr int kLimit = 3;
struct Row {
  int kOwn = 0;
};
double cost_of(const Row& row) { const int kInner = row.kOwn; return kInner; }
}  // namespace
int outside() { return kLimit; }
}  // namespace longhaul
CODE
  cat >"$tree/src/plan/second.cpp" <<'CODE'
namespace longhaul {
namespace {
constexpr int kOther = 3;
double cost_of(int64_t bytes, int64_t more, double factor) { return bytes * more * factor; }
double cost_of(int64_t bytes) { constexpr int kInner = 2; return kInner * bytes; }
}  // namespace
struct Row;
}  // namespace longhaul
CODE
  cp "$tree/src/plan/first.cpp" "$tree/src/plan/inner/first.cpp"  # another folder
}

# expect NAME TEXT LINE: the clean tree with LINE in an unnamed namespace of a third file fails, and the report holds TEXT.
expect() {
  local name=$1 text=$2 line=$3
  plant_clean_tree
  printf 'namespace longhaul {\nnamespace {\n%s\n}  // namespace\n}  // namespace longhaul\n' "$line" >"$tree/src/plan/third.cpp"
  expect_report check-names "$name" "src/plan: *$text*third.cpp*"
}

expect_silence check-names
expect "constant" "kLimit" 'constexpr double kLimit = 0.5;'
expect "type" "Row" 'class Row { public: int x = 0; };'
expect "function" "cost_of(int64_t)" 'double cost_of(int64_t other_name) { return 0; }'
expect "a function that the same call means" "cost_of(int64_t)" 'double cost_of(const int64_t& bytes, const Limits& limits = {}) { return 0; }'
expect "array" "kOther" 'constexpr int kOther[] = {1, 2};'
((failures == 0))

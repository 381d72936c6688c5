#include "detect/trials/fault_types.h"

#include "base/error.h"
#include "base/text/text.h"

namespace longhaul::detect {
namespace {

constexpr FaultType kTypes[] = {
    {"ecc_error", "ECC error", 38.9, 25.7, .1, .8, .65, .3, false},
    {"pcie_downgrading", "PCIe downgrading", 6.6, 8.6, 1, .05, .3, .1, true},
    {"nic_dropout", "NIC dropout", 5.7, 5.7, .7, .9, .9, .3, false},
    {"gpu_card_drop", "GPU card drop", 2.0, 6.0, .05, .75, .8, .3, false},
    {"nvlink_error", "NVLink error", 1.7, 6.0, .15, .65, .8, .9, false},
    {"aoc_error", "AOC (optical cable) error", 0.9, 4.0, .5, .25, .25, .05, false},
    {"cuda_execution_error", "CUDA execution error", 14.6, 15.0, .1, .7, .7, .2, false},
    {"gpu_execution_error", "GPU execution error", 7.7, 10.0, .2, .6, .6, .2, true},
    {"hdfs_error", "HDFS error", 5.7, 9.0, .05, .7, .4, .05, false},
    {"machine_unreachable", "machine unreachable", 6.0, 10.0, .1, .8, .8, .3, false},
};

}  // namespace

std::span<const FaultType> fault_types() { return kTypes; }

const FaultType& fault_named(std::string_view name) {
  std::string names;
  std::vector<std::string> all;
  for (const FaultType& type : kTypes) {
    if (type.name == name) return type;
    names += (names.empty() ? "" : ", ") + std::string(type.name);
    all.emplace_back(type.name);
  }
  const std::string nearest = nearest_spelling(std::string(name), all);
  throw Error({.code = ExitCode::kUsage,
               .what = "no such fault type",
               .expected = "any, none, " + names,
               .found = std::string(name),
               .where = "--fault",
               .hint = nearest.empty() ? "" : "did you mean " + nearest + "?"});
}

}  // namespace longhaul::detect

#include "plan/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"
#include "plan/calibration.h"
#include "recipe/options/toml_reader.h"

namespace longhaul::plan {
namespace {

struct ClusterField {
  double* into;
  const char* unit;
  double least, most, factor = 1;
};

Cluster cluster_of(const Accelerator& device) {
  return {.name = device.name, .device = device, .efficiency = efficiency_of(device)};
}

void read_field(const recipe::TomlEntry& entry, const std::string& where, const ClusterField& field) {
  const double value = entry.value.is_integer()  ? static_cast<double>(entry.value.as_integer())
                       : entry.value.is_number() ? entry.value.as_number()
                                                 : std::nan("");
  if (value >= field.least && value <= field.most) {
    *field.into = value * field.factor;
    return;
  }
  throw Error({.code = ExitCode::kUsage,
               .what = fmt::format("{} cannot be that", entry.key),
               .expected = fmt::format("{} from {:g} to {:g}", field.unit, field.least, field.most),
               .found = entry.value.toml(),
               .where = where});
}

}  // namespace

Cluster load_cluster(const std::string& name_or_file, int64_t gpus) {
  if (!name_or_file.ends_with(".toml")) {
    Cluster cluster = cluster_of(accelerator(name_or_file));
    if (gpus > 0) cluster.gpus = gpus;
    return cluster;
  }
  const auto entries = recipe::read_toml(read_text(name_or_file, ExitCode::kUsage, 1 << 20), name_or_file);
  const auto named = std::ranges::find(entries, "accelerator", &recipe::TomlEntry::key);
  if (named == entries.end() || !named->value.is_text()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the cluster has no accelerator",
                 .expected = "accelerator = \"h100\"",
                 .where = name_or_file});
  }
  Cluster cluster = cluster_of(accelerator(named->value.as_text()));
  cluster.name = name_or_file;
  double count = static_cast<double>(cluster.gpus), node = static_cast<double>(cluster.device.node),
         version = 1;
  const std::map<std::string, ClusterField> fields = {
      {"version", {&version, "the version of this format", 1, 1}},
      {"gpus", {&count, "devices", 1, 1e7}},
      {"gpus_per_node", {&node, "devices", 1, 1e4}},
      {"peak_tflops", {&cluster.device.bf16_flops, "TFLOP/s, dense bf16", 1e-3, 1e6, 1e12}},
      {"memory_gb", {&cluster.device.memory_bytes, "GB", 0.1, 1e5, 1e9}},
      {"memory_gb_per_s", {&cluster.device.memory_rate, "GB/s", 0.1, 1e6, 1e9}},
      {"link_gb_per_s", {&cluster.device.link_rate, "GB/s", 1e-3, 1e5, 1e9}},
      {"nic_gb_per_s", {&cluster.device.nic_rate, "GB/s", 1e-3, 1e5, 1e9}},
      {"host_gb_per_s", {&cluster.host_rate, "GB/s", 1e-3, 1e5, 1e9}},
      {"file_gb_per_s", {&cluster.file_rate, "GB/s", 1e-3, 1e5, 1e9}},
      {"thermal_watts", {&cluster.device.thermal_watts, "W", 1, 1e5}},
      {"product_efficiency", {&cluster.efficiency.products, "a share of the peak", 0.01, 1}},
      {"memory_efficiency", {&cluster.efficiency.memory, "a share of the memory's rate", 0.01, 1}},
      {"layer_seconds", {&cluster.efficiency.layer_s, "seconds", 0, 10}},
      {"failures_per_node_day", {&cluster.failures_per_node_day, "failures", 0, 100}},
      {"restart_seconds", {&cluster.restart_s, "seconds", 0, 1e6}},
      {"checkpoint_seconds", {&cluster.checkpoint_s, "seconds", 0, 1e5}},
      {"price_per_gpu_hour", {&cluster.price_per_gpu_hour, "money an hour", 0, 1e6}},
      {"reserved_gb", {&cluster.reserved_bytes, "GB", 0, 1e4, 1e9}},
  };
  std::vector<std::string> known = {"accelerator"};
  for (const auto& [key, field] : fields) known.push_back(key);
  for (const recipe::TomlEntry& entry : entries) {
    if (entry.key == "accelerator") continue;
    const std::string where = fmt::format("{}:{}:{}", name_or_file, entry.line, entry.column);
    const auto field = fields.find(entry.key);
    if (field == fields.end() || entry.is_section) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "no such option of a cluster",
                   .expected = fmt::format("one of {}", fmt::join(known, ", ")),
                   .found = entry.key,
                   .where = where,
                   .hint = nearest_spelling(entry.key, known)});
    }
    read_field(entry, where, field->second);
    if (entry.key.ends_with("efficiency") || entry.key == "layer_seconds")
      cluster.efficiency.source = name_or_file;
  }
  cluster.gpus = gpus > 0 ? gpus : static_cast<int64_t>(count);
  cluster.device.node = static_cast<int64_t>(node);
  return cluster;
}

}  // namespace longhaul::plan

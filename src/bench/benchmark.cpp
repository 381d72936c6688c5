#include "bench/benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/threads/parallel.h"
#include "observe/table.h"

namespace longhaul::bench {
namespace {

std::string key(const char* what, const Pass& pass) {
  return pass.name.empty() ? what : fmt::format("{}_{}", what, pass.name);
}

void add_passes(nlohmann::ordered_json& json, const std::vector<Pass>& passes) {
  for (const Pass& pass : passes) {
    json[key("milliseconds", pass)] = pass.time.median;
    json[key("fastest_milliseconds", pass)] = pass.time.fastest;
    json[key("slowest_milliseconds", pass)] = pass.time.slowest;
    if (pass.flops > 0) json[key("gflops_per_second", pass)] = pass.flops / pass.time.median * 1e-6;
    if (pass.bytes > 0) json[key("gigabytes_per_second", pass)] = pass.bytes / pass.time.median * 1e-6;
  }
}

std::string rate_text(const Pass& pass) {
  if (pass.flops > 0) return fmt::format("{:.1f} GFLOP/s", pass.flops / pass.time.median * 1e-6);
  if (pass.bytes > 0) return fmt::format("{:.1f} GB/s", pass.bytes / pass.time.median * 1e-6);
  return "";
}

}  // namespace

Timing time_of(const std::function<void()>& work, double budget_s, const std::function<void()>& before) {
  constexpr size_t kFewest = 3, kMost = 1000;
  if (before) before();
  work();
  std::vector<double> milliseconds;
  const Stopwatch watch;
  while (milliseconds.size() < kFewest || (watch.seconds() < budget_s && milliseconds.size() < kMost)) {
    if (before) before();
    const Stopwatch run;
    work();
    milliseconds.push_back(run.milliseconds());
  }
  std::sort(milliseconds.begin(), milliseconds.end());
  return {milliseconds[milliseconds.size() / 2], milliseconds.front(), milliseconds.back(),
          static_cast<int64_t>(milliseconds.size())};
}

double share_of_limit(const Pass& pass, const std::string& dtype, const MachineProfile& peak) {
  const double seconds = pass.time.median * 1e-3;
  if (seconds <= 0) return 0;
  const double by_flops = pass.flops > 0 ? pass.flops / peak.gemm(dtype) : 0,
               by_bytes = pass.bytes / peak.memory_bytes_per_second;
  return std::max(by_flops, by_bytes) / seconds;
}

nlohmann::ordered_json to_json(const Result& result, const MachineProfile& peak) {
  nlohmann::ordered_json json = {
      {"name", result.name},     {"shape", result.shape},
      {"dtype", result.dtype},   {"threads", threads()},
      {"machine", peak.machine}, {"limits_measured", wall_time_text(peak.measured_at)}};
  if (!result.implementation.empty()) json["implementation"] = result.implementation;
  add_passes(json, result.passes);
  for (const Pass& pass : result.passes)
    json[key("of_limit", pass)] = share_of_limit(pass, result.dtype, peak);
  for (const auto& [name, value] : result.figures) json[name] = value;
  if (result.peak_bytes > 0) json["peak_bytes"] = result.peak_bytes;
  json["correct"] = result.correct();
  if (result.error >= 0) json["relative_error"] = result.error;
  if (result.peer) {
    nlohmann::ordered_json peer = {{"name", result.peer->name}};
    add_passes(peer, result.peer->passes);
    if (result.peer->peak_bytes > 0) peer["peak_bytes"] = result.peer->peak_bytes;
    for (size_t i = 0; i < result.peer->passes.size(); ++i) {
      json[key("times_faster", result.passes[i])] =
          result.peer->passes[i].time.median / result.passes[i].time.median;
    }
    json["peer"] = std::move(peer);
  }
  return json;
}

std::string table_of(const Results& results, const MachineProfile& peak, bool colours) {
  using observe::Align;
  const bool peers = std::any_of(results.begin(), results.end(),
                                 [](const Result& result) { return result.peer.has_value(); });
  std::vector<observe::Column> columns = {{"name"},
                                          {"shape"},
                                          {"dtype"},
                                          {"by"},
                                          {"ms", Align::kRight},
                                          {"spread", Align::kRight},
                                          {"rate", Align::kRight},
                                          {"of limit", Align::kRight}};
  if (peers)
    columns.insert(columns.end(),
                   {{"peer", Align::kLeft}, {"peer ms", Align::kRight}, {"times faster", Align::kRight}});
  columns.push_back({"check"});
  observe::Table table("benchmarks; limits " + peak.when(), columns);
  for (const Result& result : results) {
    for (size_t i = 0; i < result.passes.size(); ++i) {
      const Pass& pass = result.passes[i];
      std::vector<std::string> row = {
          pass.name.empty() ? result.name : result.name + " " + pass.name,
          result.shape,
          result.dtype,
          result.implementation,
          fmt::format("{:.3f}", pass.time.median),
          fmt::format("{:.3f}–{:.3f}", pass.time.fastest, pass.time.slowest),
          rate_text(pass),
          fmt::format("{:.0f} %", 100 * share_of_limit(pass, result.dtype, peak))};
      if (peers) {
        const bool has = result.peer && i < result.peer->passes.size();
        row.push_back(has ? result.peer->name : "");
        row.push_back(has ? fmt::format("{:.3f}", result.peer->passes[i].time.median) : "");
        row.push_back(has ? fmt::format("{:.2f}", result.peer->passes[i].time.median / pass.time.median)
                          : "");
      }
      row.push_back(result.error < 0
                        ? ""
                        : fmt::format("{} ({:.1e})", result.correct() ? "ok" : "WRONG", result.error));
      table.row(row);
    }
  }
  observe::Table others("beside times", {{"name"}, {"shape"}, {"figure"}, {"value", Align::kRight}});
  bool any = false;
  const auto other = [&](const std::string& name, const Result& result, const std::string& figure,
                         const std::string& value) {
    any = true;
    others.row({name, result.shape, figure, value});
  };
  for (const Result& result : results) {
    for (const auto& [name, value] : result.figures)
      other(result.name, result, name, fmt::format("{:.4g}", value));
    if (result.peak_bytes > 0)
      other(result.name, result, "peak memory", fmt::format("{:.1f} MB", result.peak_bytes * 1e-6));
    if (result.peer && result.peer->peak_bytes > 0)
      other(result.peer->name, result, "peak memory",
            fmt::format("{:.1f} MB", result.peer->peak_bytes * 1e-6));
  }
  return table.text(colours) + (any ? others.text(colours) : "");
}

}  // namespace longhaul::bench

#include "bench/models/operator_table.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "observe/table.h"

namespace longhaul::bench {
namespace {

// of the step: a rate of less, of operators that pass tensors on, tells nothing
constexpr double kShown = 1e-3;

// "123.4 GFLOP/s (61 %)"; empty: nothing was counted.
std::string rate_of(double amount, double milliseconds, double limit, const char* unit) {
  if (amount <= 0) return "";
  const double rate = amount / (milliseconds * 1e-3);
  return fmt::format("{:.1f} {} ({:.0f} %)", rate * 1e-9, unit, 100 * rate / limit);
}

}  // namespace

std::string operator_table(const std::vector<kernels::OperatorTime>& rows, int64_t steps,
                           const std::string& dtype, const MachineProfile& peak, bool colours) {
  using observe::Align;
  observe::Table table("operators of a step", {{"operator"},
                                               {"pass"},
                                               {"calls", Align::kRight},
                                               {"ms", Align::kRight},
                                               {"share", Align::kRight},
                                               {"products (of the peak)", Align::kRight},
                                               {"moved at least (of memory's rate)", Align::kRight}});
  kernels::OperatorTime all{.op = "all", .pass = ""};
  for (const kernels::OperatorTime& row : rows) {
    all.calls += row.calls;
    all.milliseconds += row.milliseconds;
    all.flops += row.flops;
    all.bytes += row.bytes;
  }
  const auto cells = [&](const kernels::OperatorTime& row) -> std::vector<std::string> {
    const bool long_enough = row.milliseconds >= kShown * all.milliseconds;
    return {row.op,
            row.pass,
            fmt::format("{:g}", static_cast<double>(row.calls) / static_cast<double>(steps)),
            fmt::format("{:.3f}", row.milliseconds / static_cast<double>(steps)),
            fmt::format("{:.1f} %", 100 * row.milliseconds / all.milliseconds),
            long_enough ? rate_of(row.flops, row.milliseconds, peak.gemm(dtype), "GFLOP/s") : "",
            long_enough ? rate_of(row.bytes, row.milliseconds, peak.memory_bytes_per_second, "GB/s") : ""};
  };
  for (const kernels::OperatorTime& row : rows) table.row(cells(row));
  table.total(cells(all));
  return table.text(colours);
}

nlohmann::ordered_json operators_json(const std::vector<kernels::OperatorTime>& rows, int64_t steps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  const auto of_step = [&](double number) { return number / static_cast<double>(steps); };
  for (const kernels::OperatorTime& row : rows) {
    list.push_back({{"operator", row.op},
                    {"pass", row.pass},
                    {"calls", of_step(static_cast<double>(row.calls))},
                    {"milliseconds", of_step(row.milliseconds)},
                    {"flops", of_step(row.flops)},
                    {"bytes", of_step(row.bytes)}});
  }
  return list;
}

}  // namespace longhaul::bench

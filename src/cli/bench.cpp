// `longhaul bench`: operators on this machine. Each checks its answer first, then prints time, rate and share of the measured peak.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/parallel.h"
#include "base/random.h"
#include "base/terminal.h"
#include "cli/command.h"
#include "kernels/linear_recurrence/op.h"
#include "observe/table.h"
#include "tensor/machine_profile.h"
#include "tensor/random_fill.h"

namespace longhaul::cli {
namespace {

using nlohmann::ordered_json;

struct Measurement {
  std::string name, shape, dtype;
  double milliseconds = 0;
  double rate = 0;      // FLOPs or bytes per second
  std::string unit;     // "GFLOP/s", "GB/s"
  double of_peak = 0;   // share of this machine's measured limit; 0: not known
  double error = -1;    // of the check against the reference, relative; -1: exact by construction
  bool correct = true;
};
using Measurements = std::vector<Measurement>;

void bench_gemm(Measurements& into, const MachineProfile& peak) {
  constexpr std::array<std::array<int64_t, 3>, 4> kShapes = {{{512, 512, 512}, {1024, 1024, 1024}, {4096, 512, 512}, {4096, 1024, 512}}};
  for (const char* dtype : {"fp32", "bf16"}) {
    for (const auto& [m, n, k] : kShapes) {
      const GemmRate rate = measured_gemm(m, n, k, dtype, 0.3);
      into.push_back({"gemm", fmt::format("{}x{}x{}", m, n, k), dtype, rate.milliseconds, rate.flops_per_second, "GFLOP/s",
                      rate.flops_per_second / peak.gemm(dtype)});
    }
  }
}

void bench_copy(Measurements& into, const MachineProfile& peak) {
  for (const int64_t megabytes : {1, 16, 128}) {
    const double rate = measured_copy(megabytes << 20);
    into.push_back({"copy", fmt::format("{} MiB", megabytes), "fp32", 2e3 * static_cast<double>(megabytes << 20) / rate, rate, "GB/s",
                    rate / peak.copy_bytes_per_second});
  }
}

struct Inputs {
  Tensor q_thk, k_thk, v_thv, log_decay_h;
};

Inputs recurrence_inputs(int64_t tokens, int64_t heads, int64_t width) {
  const auto filled = [&](const char* name) {
    const layout::Shape shape = {tokens, heads, width};
    Tensor tensor = at::empty(shape, at::kFloat);
    fill_normal(tensor, RandomStream(0, fmt::format("bench/linear_recurrence/{}", name)), 0.5, shape, layout::Rectangle::whole(shape));
    return tensor;
  };
  Inputs inputs{filled("q"), filled("k"), filled("v"), -at::exp2(-at::linspace(1, 8, heads, at::kFloat))};
  return inputs;
}

double relative_difference(const Tensor& found, const Tensor& expected) {
  return ((found - expected).norm() / expected.norm()).item<double>();
}

// Values and gradients of the operator as dispatched against the reference's.
double recurrence_error(const Inputs& inputs, const kernels::LinearRecurrenceOptions& options) {
  std::vector<Tensor> results[2];
  for (const bool reference : {false, true}) {
    std::vector<Tensor> leaves;
    for (const Tensor& each : {inputs.q_thk, inputs.k_thk, inputs.v_thv}) leaves.push_back(each.clone().requires_grad_());
    const auto call = reference ? &kernels::linear_recurrence_reference : &kernels::linear_recurrence;
    const Tensor o_thd = call(leaves[0], leaves[1], leaves[2], inputs.log_decay_h, Tensor(), Tensor(), options).o_thd;
    o_thd.square().sum().backward();
    results[reference] = {o_thd.detach(), leaves[0].grad(), leaves[1].grad(), leaves[2].grad()};
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) worst = std::max(worst, relative_difference(results[0][i], results[1][i]));
  return worst;
}

// FLOPs the recurrence itself needs: two products of a [key, value] state with a vector, per token and head.
double recurrence_flops(int64_t tokens, int64_t heads, int64_t width) {
  return 4.0 * static_cast<double>(tokens) * static_cast<double>(heads) * static_cast<double>(width) * static_cast<double>(width);
}

void bench_linear_recurrence(Measurements& into, const MachineProfile& peak) {
  constexpr int64_t kHeads = 8, kWidth = 64, kRuns = 3;
  constexpr double kTolerance = 1e-4;  // fp32 sums of 200 terms in another order
  const kernels::LinearRecurrenceOptions options{.scale = 1.0 / 8};
  const double error = recurrence_error(recurrence_inputs(200, kHeads, kWidth), options);
  for (const int64_t tokens : {1024, 4096}) {
    const Inputs inputs = recurrence_inputs(tokens, kHeads, kWidth);
    double forward_ms = std::numeric_limits<double>::infinity(), backward_ms = forward_ms;
    for (int64_t run = 0; run < kRuns; ++run) {
      for (const Tensor& each : {inputs.q_thk, inputs.k_thk, inputs.v_thv}) each.requires_grad_().mutable_grad() = Tensor();
      const Stopwatch forward;
      const Tensor o_thd = kernels::linear_recurrence(inputs.q_thk, inputs.k_thk, inputs.v_thv, inputs.log_decay_h, Tensor(), Tensor(), options).o_thd;
      forward_ms = std::min(forward_ms, forward.milliseconds());
      const Tensor gradient = at::ones_like(o_thd);
      const Stopwatch backward;
      o_thd.backward(gradient);
      backward_ms = std::min(backward_ms, backward.milliseconds());
    }
    const std::string shape = fmt::format("T {} H {} D {}", tokens, kHeads, kWidth);
    const auto add = [&](const char* pass, double ms, double flops) {
      const double rate = flops / (ms * 1e-3);
      into.push_back({fmt::format("linear_recurrence {}", pass), shape, "fp32", ms, rate, "GFLOP/s", rate / peak.gemm_fp32, error, error < kTolerance});
    };
    add("forward", forward_ms, recurrence_flops(tokens, kHeads, kWidth));
    add("backward", backward_ms, 2.5 * recurrence_flops(tokens, kHeads, kWidth));  // five products against two
  }
}

struct Benchmark {
  const char* name;
  const char* purpose;
  void (*run)(Measurements&, const MachineProfile&);
};
constexpr std::array<Benchmark, 3> kBenchmarks = {{
    {"gemm", "matrix products, fp32 and bf16", bench_gemm},
    {"copy", "memory copies, in and out of cache", bench_copy},
    {"linear_recurrence", "the recurrence of lightning attention, forward and backward, checked against its reference", bench_linear_recurrence},
}};

const Benchmark& benchmark_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Benchmark& each : kBenchmarks) {
    if (name == each.name) return each;
    names.emplace_back(each.name);
  }
  const std::string nearest = nearest_name(name, names);
  throw Error({.code = ExitCode::kUsage, .what = "unknown benchmark", .expected = fmt::format("{}", fmt::join(names, ", ")), .found = name,
               .hint = nearest.empty() ? "longhaul bench --list" : "longhaul bench " + nearest});
}

void show(const Measurements& measurements, bool json) {
  if (json) {
    for (const Measurement& each : measurements) {
      ordered_json line = {{"name", each.name}, {"shape", each.shape}, {"dtype", each.dtype}, {"threads", threads()}, {"milliseconds", each.milliseconds},
                           {each.unit == "GB/s" ? "gigabytes_per_second" : "gflops_per_second", each.rate / 1e9}, {"of_peak", each.of_peak}, {"correct", each.correct}};
      if (each.error >= 0) line["relative_error"] = each.error;
      print_json(line);
    }
    return;
  }
  observe::Table table("benchmarks", {{"name"}, {"shape"}, {"dtype"}, {"ms", observe::Align::kRight}, {"rate", observe::Align::kRight},
                                      {"of peak", observe::Align::kRight}, {"check"}});
  for (const Measurement& each : measurements) {
    table.row({each.name, each.shape, each.dtype, fmt::format("{:.3f}", each.milliseconds), fmt::format("{:.1f} {}", each.rate / 1e9, each.unit),
               fmt::format("{:.0f} %", 100 * each.of_peak),
               each.error < 0 ? "" : fmt::format("{} ({:.1e})", each.correct ? "ok" : "WRONG", each.error)});
  }
  print(table.text(colours_wanted(stdout)));
}

}  // namespace

void add_bench(CLI::App& program, Command& command) {
  struct Arguments {
    std::vector<std::string> names;
    bool list = false, fresh = false, json = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* bench = add_command(program, "bench", "measure operators beside this machine's limits (exit 1: a wrong answer)",
                                {{"everything", "bench"}, {"one of them", "bench linear_recurrence"}, {"for a script", "bench gemm copy --json"}});
  bench->add_option("NAME", arguments->names, "gemm, copy, linear_recurrence; all when none is named");
  bench->add_flag("--list", arguments->list, "only list them");
  bench->add_flag("--fresh", arguments->fresh, "measure the machine's limits again first");
  add_json_flag(bench, arguments->json, "print one JSON object a line");
  on_run(bench, command, [arguments] {
    if (arguments->list) {
      for (const Benchmark& each : kBenchmarks) {
        if (arguments->json) print_json({{"name", each.name}, {"purpose", each.purpose}});
        else print(fmt::format("{:<18} {}\n", each.name, each.purpose));
      }
      return ExitCode::kDone;
    }
    std::vector<const Benchmark*> chosen;
    for (const std::string& name : arguments->names) chosen.push_back(&benchmark_named(name));
    if (chosen.empty()) {
      for (const Benchmark& each : kBenchmarks) chosen.push_back(&each);
    }
    const MachineProfile peak = measured_profile(arguments->fresh);
    Measurements measurements;
    for (const Benchmark* each : chosen) each->run(measurements, peak);
    show(measurements, arguments->json);
    const bool correct = std::all_of(measurements.begin(), measurements.end(), [](const Measurement& each) { return each.correct; });
    return correct ? ExitCode::kDone : ExitCode::kCheckFailed;
  });
}

}  // namespace longhaul::cli

// Benchmark: measures one operator (or a whole training step) on this machine. Each benchmark checks the
// operator's answer first, then reports the time of a pass, the machine's measured limit and, when asked,
// the time of the peer that a user would choose instead, measured in the same call.
//
//   void bench_attention(const Request& request, Results& into);      declared in register.h, one file each
//
// A Result is one shape: its passes ("forward", "backward", or "" when there is only one), the
// implementation that answered, and the error of the check. The JSON has name, shape, dtype,
// milliseconds_<pass> (or milliseconds), gflops/gigabytes per second, and the share of the limit.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "tensor/machine_profile.h"

namespace longhaul::bench {

// Durations of repeated runs, in milliseconds.
struct Timing {
  double median = 0, fastest = 0, slowest = 0;
  int64_t runs = 0;
};

struct Pass {
  std::string name;  // "forward", "backward", or empty
  Timing time;
  double flops = 0, bytes = 0;  // of one run: what the operator must compute and move; 0: not counted
};

struct Peer {
  std::string name;          // "LibTorch mm"
  std::vector<Pass> passes;  // same names, same order
  double peak_bytes = 0;     // 0: not measured
};

struct Result {
  std::string name, shape, dtype;
  std::string implementation;  // the implementation that answered; empty if there is only one
  std::vector<Pass> passes;
  double error = -1;  // largest relative error of the check; -1: exact by construction
  double tolerance = 0;
  double peak_bytes = 0;  // most memory held at once beyond the arguments; 0: not measured
  std::optional<Peer> peer;
  std::vector<std::pair<std::string, double>> figures;  // further figures by name: "tokens_per_second"

  bool correct() const { return error <= tolerance; }
};
using Results = std::vector<Result>;

struct Request {
  MachineProfile peak;
  bool peer = false;
};

// Runs `work` until budget_s is used up and at least three times, after one run that is not counted; `before`
// is not timed.
Timing time_of(const std::function<void()>& work, double budget_s = 0.5,
               const std::function<void()>& before = {});

// The share of the machine's limit that is reached: FLOPs against its matrix products in this dtype, bytes
// against its memory; the larger of both.
double share_of_limit(const Pass& pass, const std::string& dtype, const MachineProfile& peak);

nlohmann::ordered_json to_json(const Result& result, const MachineProfile& peak);
std::string table_of(const Results& results, const MachineProfile& peak, bool colours);

}  // namespace longhaul::bench

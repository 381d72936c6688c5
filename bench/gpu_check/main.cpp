// gpu-check: checks every CUDA kernel of Longhaul against references compiled into this program, then times
// them. No LibTorch, no libraries beside the CUDA runtime, which is linked in. Exit status: 0 all checks
// passed, 1 one failed, 64 a wrong argument, 71 no GPU that can be used, or CUDA failed.
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>

#include "gpu_check/session.h"

namespace {

using namespace longhaul::gpu_check;

// as everywhere in Longhaul: docs/reference/exit-codes.md
constexpr int kDone = 0, kCheckFailed = 1, kUsage = 64, kDevice = 71;

constexpr const char* kHelp =
    "gpu-check: check the CUDA kernels against fp64 references, then time them\n"
    "\n"
    "  gpu-check                          check and time everything\n"
    "  gpu-check --json gpu.json          and write the results as JSON\n"
    "  gpu-check --only attention --no-timing   only check one group\n"
    "  gpu-check --only attention --no-checks   only time it\n"
    "\n"
    "groups: linear_recurrence delta_rule attention norms fused feature_maps short_convolution products "
    "losses "
    "experts adamw\n"
    "exit status: 0 all passed, 1 a check failed, 64 wrong argument, 71 no usable GPU\n";

struct Options {
  std::string json, only;
  bool checks = true, timing = true, help = false;
};

// Empty: understood. Otherwise what is wrong.
std::string parse(int count, char** arguments, Options& options) {
  for (int i = 1; i < count; ++i) {
    const std::string argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      options.help = true;
    } else if (argument == "--no-timing") {
      options.timing = false;
    } else if (argument == "--no-checks") {
      options.checks = false;
    } else if ((argument == "--json" || argument == "--only") && i + 1 < count) {
      (argument == "--json" ? options.json : options.only) = arguments[++i];
    } else {
      return "not understood: " + argument;
    }
  }
  if (options.only.empty()) return "";
  for (const Operator& op : operators()) {
    if (options.only == op.name) return "";
  }
  return "--only " + options.only + ": no such group";
}

int run(const Options& options) {
  Session session(longhaul::kernels::cuda::runtime::machine());
  const auto& machine = session.machine;
  if (!machine.usable) {
    std::fprintf(stderr,
                 "gpu-check: no GPU can be used here: %s\n  nothing was checked and nothing was timed; run "
                 "it on a machine with an NVIDIA GPU of sm_80 or later\n",
                 machine.reason.c_str());
    return kDevice;
  }
  std::printf("%s, compute capability %d.%d, %d multiprocessors, %.0f GiB, driver for CUDA %d.%d\n",
              machine.name.c_str(), machine.major, machine.minor, machine.multiprocessors,
              static_cast<double>(machine.memory_bytes) / (1 << 30), machine.driver_version / 1000,
              machine.driver_version % 1000 / 10);
  for (const Operator& op : operators()) {
    if (!options.checks || (!options.only.empty() && options.only != op.name)) continue;
    std::fprintf(stderr, "gpu-check: checking %s\n", op.name);
    op.check(session);
  }
  if (options.timing) {
    session.measure_limits();
    for (const Operator& op : operators()) {
      if (!options.only.empty() && options.only != op.name) continue;
      std::fprintf(stderr, "gpu-check: timing %s\n", op.name);
      op.time(session);
    }
  }
  std::fputs(session.table().c_str(), stdout);
  if (!options.json.empty()) {
    std::FILE* file = std::fopen(options.json.c_str(), "w");
    const std::string text = session.json();
    const bool written = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
      std::fprintf(stderr, "gpu-check: cannot write %s\n", options.json.c_str());
      return 73;
    }
  }
  if (options.checks) std::printf("%s\n", session.passed() ? "all checks passed" : "A CHECK FAILED");
  return session.passed() ? kDone : kCheckFailed;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  const std::string wrong = parse(count, arguments, options);
  if (!wrong.empty()) {
    std::fprintf(stderr, "gpu-check: %s\n%s", wrong.c_str(), kHelp);
    return kUsage;
  }
  if (options.help) {
    std::fputs(kHelp, stdout);
    return kDone;
  }
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu-check: %s\n", error.what());
    return kDevice;
  }
}

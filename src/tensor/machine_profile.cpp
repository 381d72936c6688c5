#include "tensor/machine_profile.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <limits>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "base/checksum.h"
#include "base/clock.h"
#include "base/files/file.h"
#include "base/files/folders.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/threads/parallel.h"
#include "tensor/device.h"
#include "tensor/libtorch_folder.h"
#include "tensor/tensor.h"

namespace longhaul {
namespace {

using nlohmann::json;

constexpr int kProfileVersion = 3;
constexpr double kBusyProfileLasts_s = 600;
// of the threads' time that the processor gave them; compute threads never sleep
constexpr double kUndisturbedShare = 0.75;

std::string machine_key(at::Device device) {
  const Machine& here = machine();
  if (device.is_cuda()) {
    const GpuDescription gpu = describe_gpu(device);
    return fmt::format("{}; {}; compute capability {}.{}; {} multiprocessors; LibTorch {}", gpu.name,
                       bytes_text(gpu.memory_bytes), gpu.major, gpu.minor, gpu.multiprocessors,
                       libtorch_version());
  }
  return fmt::format("{}; {}; {} threads; LibTorch {}", here.processor, fmt::join(here.features, " "),
                     threads(), libtorch_version());
}

std::filesystem::path profile_path(const std::string& key) {
  return user_cache_folder() / "machine-profile" / fmt::format("{:016x}.json", xxh3(key));
}

// Fastest run of `body`, in seconds, the device's work included: other programs only ever make it slower.
double fastest(double budget_s, int64_t& runs, at::Device device, const std::function<void()>& body) {
  synchronize(device);
  const Stopwatch all;
  double best = std::numeric_limits<double>::infinity();
  do {
    const Stopwatch one;
    body();
    synchronize(device);
    best = std::min(best, one.seconds());
    ++runs;
  } while (all.seconds() < budget_s);
  return best;
}

// The largest of a few square products that takes no more than about a fifth of a second: a dtype without
// vector instructions must not stop the clock for minutes. A GPU needs larger ones to be busy.
double peak_gemm(std::string_view dtype, at::Device device) {
  const std::vector<int64_t> sizes =
      device.is_cuda() ? std::vector<int64_t>{8192, 4096, 2048} : std::vector<int64_t>{2048, 1024, 512};
  const int64_t small = device.is_cuda() ? 1024 : 256;
  const double first = measured_gemm(small, small, small, dtype, 0.02, device).flops_per_second;
  for (const int64_t n : sizes) {
    if (2.0 * static_cast<double>(n * n * n) / first < 0.2)
      return std::max(first, measured_gemm(n, n, n, dtype, 0.4, device).flops_per_second);
  }
  return first;
}

// Nothing when there is none, or none that can be read: it is measured again then.
std::optional<MachineProfile> cached_profile(const std::string& key) {
  const auto path = profile_path(key);
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const json read = json::parse(read_text(path, ExitCode::kData, 1 << 16));
    if (read.at("version") != kProfileVersion || read.at("machine") != key) return std::nullopt;
    MachineProfile profile{.machine = key,
                           .measured_at = read.at("measured_at"),
                           .measurements = read.at("measurements"),
                           .threads = read.at("threads"),
                           .gemm_fp32 = read.at("gemm_fp32"),
                           .gemm_bf16 = read.at("gemm_bf16"),
                           .gemm_fp64 = read.at("gemm_fp64"),
                           .memory_bytes_per_second = read.at("memory_bytes_per_second"),
                           .busy = read.at("busy"),
                           .from_cache = true};
    const bool sound = profile.gemm_fp32 > 0 && profile.gemm_bf16 > 0 && profile.gemm_fp64 > 0 &&
                       profile.memory_bytes_per_second > 0;
    return sound ? std::optional(profile) : std::nullopt;
  } catch (const std::exception& error) {
    log_warning("{} cannot be used, the machine is measured again: {}", path.string(), error.what());
    return std::nullopt;
  }
}

void take_the_best(MachineProfile& profile, const MachineProfile& earlier) {
  for (double MachineProfile::*rate :
       {&MachineProfile::gemm_fp32, &MachineProfile::gemm_bf16, &MachineProfile::gemm_fp64,
        &MachineProfile::memory_bytes_per_second}) {
    profile.*rate = std::max(profile.*rate, earlier.*rate);
  }
  profile.busy = profile.busy && earlier.busy;
  profile.measurements = earlier.measurements + 1;
}

void keep(const MachineProfile& profile) {
  const json written = {{"version", kProfileVersion},
                        {"machine", profile.machine},
                        {"measured_at", profile.measured_at},
                        {"measurements", profile.measurements},
                        {"threads", profile.threads},
                        {"gemm_fp32", profile.gemm_fp32},
                        {"gemm_bf16", profile.gemm_bf16},
                        {"gemm_fp64", profile.gemm_fp64},
                        {"memory_bytes_per_second", profile.memory_bytes_per_second},
                        {"busy", profile.busy}};
  const auto path = profile_path(profile.machine);
  try {
    make_folders(path.parent_path());
    write_text_atomically(path, written.dump(2) + "\n");
  } catch (const Error& error) {
    log_warning("the machine profile is not kept: {}", error.what());
  }
}

}  // namespace

std::string MachineProfile::when() const {
  return fmt::format("measured {}{}{}", wall_time_text(measured_at),
                     measurements > 1 ? fmt::format(", the best of {}", measurements) : "",
                     busy ? ", while other programs used the cores: the true rates are higher" : "");
}

double MachineProfile::gemm(std::string_view dtype) const {
  if (dtype == "fp32") return gemm_fp32;
  if (dtype == "bf16") return gemm_bf16;
  if (dtype == "fp64") return gemm_fp64;
  throw Error({.code = ExitCode::kUsage,
               .what = "no measured rate for this dtype",
               .expected = "fp32, bf16 or fp64",
               .found = std::string(dtype)});
}

GemmRate measured_gemm(int64_t m, int64_t n, int64_t k, std::string_view dtype, double budget_s,
                       at::Device device) {
  const c10::NoGradGuard no_grad;
  const auto options = at::TensorOptions().dtype(scalar_type_named(dtype)).device(device);
  const Tensor a_mk = at::full({m, k}, 0.5, options), b_nk = at::full({n, k}, 0.25, options);
  Tensor c_mn = at::mm(a_mk, b_nk.t());
  LONGHAUL_ASSERT(c_mn[m - 1][n - 1].item<double>() == 0.125 * static_cast<double>(k) || k > 1024,
                  "a matrix product is wrong");
  GemmRate rate;
  const double seconds = fastest(budget_s, rate.runs, device, [&] { at::mm_out(c_mn, a_mk, b_nk.t()); });
  rate.milliseconds = seconds * 1e3;
  rate.flops_per_second =
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / seconds;
  return rate;
}

double measured_copy(int64_t bytes, double budget_s, at::Device device) {
  const c10::NoGradGuard no_grad;
  const Tensor from = at::ones({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device));
  Tensor to = at::zeros_like(from);
  int64_t runs = 0;
  return 2.0 * static_cast<double>(bytes) / fastest(budget_s, runs, device, [&] { to.copy_(from); });
}

double measured_memory(int64_t bytes, double budget_s, at::Device device) {
  const c10::NoGradGuard no_grad;
  Tensor values = at::ones({bytes / 4}, at::TensorOptions().dtype(at::kFloat).device(device)),
         sum = at::zeros({}, values.options());
  int64_t runs = 0;
  const double update_s = fastest(budget_s, runs, device, [&] { values.mul_(1); });
  const double read_s =
      fastest(budget_s, runs, device, [&] { at::sum_out(sum, values, at::OptionalIntArrayRef{}); });
  const auto size = static_cast<double>(bytes);
  return std::max({2 * size / update_s, size / read_s, measured_copy(bytes, budget_s, device)});
}

MachineProfile measured_profile(bool fresh, at::Device device) {
  const std::string key = machine_key(device);
  const auto earlier = cached_profile(key);
  const bool worn_out =
      earlier && earlier->busy && wall_time_s() - earlier->measured_at > kBusyProfileLasts_s;
  if (earlier && !fresh && !worn_out) return *earlier;
  log_info("measuring {}'s matrix products and memory (kept in {})",
           device.is_cuda() ? name_of(device) : "this machine", profile_path(key).parent_path().string());
  MachineProfile profile{.machine = key, .measured_at = wall_time_s(), .threads = threads()};
  const std::clock_t processor_before = std::clock();
  const Stopwatch watch;
  profile.gemm_fp32 = peak_gemm("fp32", device);
  const double processor_s = static_cast<double>(std::clock() - processor_before) / CLOCKS_PER_SEC;
  profile.busy = device.is_cpu() && processor_s < kUndisturbedShare * watch.seconds() * threads();
  // A CPU without products of bf16 widens them, as our kernels do; LibTorch's own product of bf16 reaches an
  // eighth of that there.
  profile.gemm_bf16 = std::max(peak_gemm("bf16", device), device.is_cpu() ? profile.gemm_fp32 : 0.0);
  profile.gemm_fp64 = peak_gemm("fp64", device);
  profile.memory_bytes_per_second = measured_memory(device.is_cuda() ? 1 << 30 : 128 << 20, 0.3, device);
  if (earlier) take_the_best(profile, *earlier);
  keep(profile);
  return profile;
}

void raise_profile(std::string_view dtype, double flops_per_second, at::Device device) {
  auto profile = cached_profile(machine_key(device));
  if (!profile || profile->gemm(dtype) >= flops_per_second) return;
  double& rate = dtype == "fp64"   ? profile->gemm_fp64
                 : dtype == "bf16" ? profile->gemm_bf16
                                   : profile->gemm_fp32;
  rate = flops_per_second;
  if (device.is_cpu()) profile->gemm_bf16 = std::max(profile->gemm_bf16, profile->gemm_fp32);
  keep(*profile);
}

}  // namespace longhaul

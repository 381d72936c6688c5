#include "gpu_check/session.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <utility>

#include "kernels/matmul/cuda.h"

namespace longhaul::gpu_check {

namespace runtime = kernels::cuda::runtime;

Memory::Memory(int64_t bytes) : base_(runtime::allocate(bytes + 2 * kGuardBytes)), bytes_(bytes) {
  runtime::fill(base_, kGuardByte, kGuardBytes);
  runtime::fill(static_cast<unsigned char*>(data()) + bytes_, kGuardByte, kGuardBytes);
}
Memory::Memory(Memory&& other) noexcept : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
Memory::~Memory() {
  if (base_ != nullptr) runtime::release(base_);
}
void Memory::poison() const { runtime::fill(data(), kPoisonByte, bytes_); }
bool Memory::guards_hold() const {
  std::vector<unsigned char> seen(static_cast<size_t>(2 * kGuardBytes));
  runtime::to_host(seen.data(), base_, kGuardBytes);
  runtime::to_host(seen.data() + kGuardBytes, static_cast<unsigned char*>(data()) + bytes_, kGuardBytes);
  return std::all_of(seen.begin(), seen.end(), [](unsigned char c) { return c == kGuardByte; });
}

void Session::record(const std::string& op, const std::string& case_name, const std::string& tensor,
                     const std::vector<double>& values, const std::vector<double>& reference,
                     Tolerance tolerance, bool guards_hold) {
  CheckResult result{op, case_name, tensor, 0, 0, tolerance, false, ""};
  double error = 0, size = 0, largest = 0, worst = 0;
  size_t strange = 0;
  for (size_t i = 0; i < reference.size(); ++i) {
    if (values[i] == reference[i]) {  // infinities too
      if (std::isfinite(reference[i]))
        size += reference[i] * reference[i], largest = std::max(largest, std::abs(reference[i]));
      continue;
    }
    if (!std::isfinite(values[i]) || !std::isfinite(reference[i])) {
      ++strange;
      continue;
    }
    const double difference = std::abs(values[i] - reference[i]);
    error += difference * difference;
    size += reference[i] * reference[i];
    worst = std::max(worst, difference);
    largest = std::max(largest, std::abs(reference[i]));
  }
  size = std::max(size, tolerance.floor * tolerance.floor * static_cast<double>(reference.size()));
  largest = std::max(largest, tolerance.floor);
  const double infinite = std::numeric_limits<double>::infinity();
  result.rms = error == 0 ? 0 : size == 0 ? infinite : std::sqrt(error / size);
  result.worst = worst == 0 ? 0 : largest == 0 ? infinite : worst / largest;
  result.passed = strange == 0 && guards_hold && values.size() == reference.size() &&
                  result.rms <= tolerance.rms && result.worst <= tolerance.worst;
  if (values.size() != reference.size()) result.note = "sizes differ";
  if (strange > 0)
    result.note = std::to_string(strange) + " of " + std::to_string(reference.size()) +
                  " values are NaN or infinite and should not be";
  if (!guards_hold) result.note = "wrote outside the tensor";
  checks.push_back(result);
}

void Session::expect(const std::string& op, const std::string& case_name, const std::string& what,
                     bool passed, const std::string& note) {
  checks.push_back({op, case_name, what, 0, 0, kExact, passed, passed ? "" : note});
}

void Session::time(const std::string& op, const std::string& shape, double bytes, double flops,
                   const std::function<void()>& body) {
  if (machine.emulated) return;
  TimingResult result{op, shape, 0, 0, bytes, flops, "", 0};
  body();
  runtime::synchronize();
  runtime::start_timer();
  body();
  const double once = std::max(runtime::stop_timer_ms(), 1e-3);
  const int calls = std::clamp(static_cast<int>(20 / once), 1, 200);
  std::vector<double> rounds;
  for (int round = 0; round < 5; ++round) {
    runtime::start_timer();
    for (int i = 0; i < calls; ++i) body();
    rounds.push_back(runtime::stop_timer_ms() / calls);
  }
  std::sort(rounds.begin(), rounds.end());
  result.ms = rounds[2];
  result.spread = (rounds.back() - rounds.front()) / rounds[2];
  const double by_memory = copy_bytes_per_s > 0 ? bytes / copy_bytes_per_s : 0,
               by_matrix = matrix_flops_per_s > 0 ? flops / matrix_flops_per_s : 0;
  result.limit = by_memory >= by_matrix ? "memory" : "matrix";
  result.share = std::max(by_memory, by_matrix) * 1e3 / result.ms;
  timings.push_back(result);
}

const std::vector<Operator>& operators() {
  static const std::vector<Operator> all = {
      {"linear_recurrence", check_linear_recurrence, time_linear_recurrence},
      {"delta_rule", check_delta_rule, time_delta_rule},
      {"attention", check_attention, time_attention},
      {"norms", check_norms, time_norms},
      {"fused", check_fused, time_fused},
      {"feature_maps", check_feature_maps, time_feature_maps},
      {"short_convolution", check_short_convolution, time_short_convolution},
      {"products", check_products, time_products},
      {"losses", check_losses, time_losses},
      {"experts", check_experts, time_experts},
      {"adamw", check_adamw, time_adamw},
  };
  return all;
}

void Session::measure_limits() {
  if (machine.emulated) return;
  constexpr int64_t kBytes = int64_t{1} << 30;
  const Memory from(kBytes), to(kBytes);
  runtime::fill(from.data(), 1, kBytes);
  const auto fastest = [](const std::function<void()>& body) {
    double best = 1e30;
    for (int round = 0; round < 6; ++round) {  // the first one warms up
      runtime::start_timer();
      body();
      const double ms = runtime::stop_timer_ms();
      if (round > 0) best = std::min(best, ms);
    }
    return best / 1e3;
  };
  copy_bytes_per_s = 2.0 * kBytes / fastest([&] { runtime::copy_on_device(to.data(), from.data(), kBytes); });
  const double flops = kernels::cuda::matrix_rate_flops(machine.multiprocessors);
  matrix_flops_per_s =
      flops / fastest([&] {
        kernels::cuda::matrix_rate_kernel(machine.multiprocessors, static_cast<float*>(to.data()), nullptr);
      });
}

bool Session::passed() const {
  return std::all_of(checks.begin(), checks.end(), [](const CheckResult& c) { return c.passed; });
}

std::vector<Bf16> random_bf16(Session& session, int64_t count, double scale) {
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  std::vector<Bf16> values(static_cast<size_t>(count));
  for (Bf16& x : values) x = kernels::cuda::to_bf16(normal(session.random));
  return values;
}
std::vector<float> random_fp32(Session& session, int64_t count, double scale) {
  std::normal_distribution<float> normal(0, static_cast<float>(scale));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = normal(session.random);
  return values;
}
std::vector<float> random_log_decay(Session& session, int64_t count, double steepest) {
  std::uniform_real_distribution<float> uniform(0, static_cast<float>(steepest));
  std::vector<float> values(static_cast<size_t>(count));
  for (float& x : values) x = -uniform(session.random);
  return values;
}
std::vector<double> widened(const std::vector<Bf16>& x) {
  std::vector<double> wide(x.size());
  std::transform(x.begin(), x.end(), wide.begin(),
                 [](Bf16 value) { return static_cast<double>(kernels::cuda::to_float(value)); });
  return wide;
}
std::vector<double> widened(const std::vector<float>& x) { return {x.begin(), x.end()}; }

}  // namespace longhaul::gpu_check

// One run of gpu-check: checks, timings, and what they are made with.
//
// A Buffer is an array on the host and its copy on the device between two guard bands; an output starts as
// NaN. A check compares what a kernel left on the device with a reference in fp64 over the same rounded
// inputs. Where the kernels are emulated nothing is timed.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/numbers.h"
#include "kernels/cuda/runtime.h"

namespace longhaul::gpu_check {

using kernels::cuda::Bf16;

constexpr int64_t kGuardBytes = 512;
constexpr unsigned char kGuardByte = 0xa5, kPoisonByte = 0xff;  // 0xffff.. is a NaN as bf16, fp32 and fp64

class Memory {  // device memory between guard bands
 public:
  explicit Memory(int64_t bytes);
  Memory(Memory&& other) noexcept;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory& operator=(Memory&&) = delete;
  ~Memory();
  void* data() const { return static_cast<unsigned char*>(base_) + kGuardBytes; }
  int64_t bytes() const { return bytes_; }
  void poison() const;
  bool guards_hold() const;

 private:
  void* base_ = nullptr;
  int64_t bytes_ = 0;
};

template <class T>
class Buffer {
 public:
  explicit Buffer(std::vector<T> values)
      : host(std::move(values)), memory_(static_cast<int64_t>(host.size() * sizeof(T))) {
    upload();
  }
  static Buffer output(int64_t count) {
    Buffer buffer{std::vector<T>(static_cast<size_t>(count))};
    buffer.memory_.poison();
    return buffer;
  }
  void upload() { kernels::cuda::runtime::to_device(memory_.data(), host.data(), memory_.bytes()); }
  void download() { kernels::cuda::runtime::to_host(host.data(), memory_.data(), memory_.bytes()); }
  void poison() { memory_.poison(); }
  T* device() const { return static_cast<T*>(memory_.data()); }
  bool guards_hold() const { return memory_.guards_hold(); }
  int64_t size() const { return static_cast<int64_t>(host.size()); }

  std::vector<T> host;

 private:
  Memory memory_;
};

// Largest allowed errors. `rms`: ‖x − reference‖ / ‖reference‖; `worst`: of one value, relative to the
// largest of the reference.
struct Tolerance {
  double rms, worst;
  // values of the reference count as at least this large: for results that are zero but for rounding
  double floor = 0;
};
// operands and results rounded to 8 bits: one rounding is 1.7e-3 in the mean, 3.9e-3 at worst
constexpr Tolerance kBf16{5e-3, 2e-2};
// sums of a few thousand fp32 terms; exp2 of the device is good to 2 ulp
constexpr Tolerance kFp32{2e-5, 1e-4};
constexpr Tolerance kExact{0, 0};

struct CheckResult {
  std::string op, case_name, tensor;
  double rms = 0, worst = 0;
  Tolerance tolerance{0, 0};
  bool passed = false;
  std::string note;  // why it failed, where not for its size
};

struct TimingResult {
  std::string op, shape;
  double ms = 0, spread = 0;  // median and (largest − smallest) / median of the rounds
  double bytes = 0, flops = 0;
  std::string limit;  // what the share is of
  double share = 0;   // of that limit
};

class Session {
 public:
  explicit Session(kernels::cuda::runtime::Machine which) : machine(std::move(which)) {}

  template <class T>
  void compare(const std::string& op, const std::string& case_name, const std::string& tensor,
               Buffer<T>& buffer, const std::vector<double>& reference, Tolerance tolerance) {
    buffer.download();
    std::vector<double> values(buffer.host.size());
    for (size_t i = 0; i < values.size(); ++i) values[i] = kernels::cuda::to_float(buffer.host[i]);
    record(op, case_name, tensor, values, reference, tolerance, buffer.guards_hold());
  }
  void record(const std::string& op, const std::string& case_name, const std::string& tensor,
              const std::vector<double>& values, const std::vector<double>& reference, Tolerance tolerance,
              bool guards_hold);
  void expect(const std::string& op, const std::string& case_name, const std::string& what, bool passed,
              const std::string& note = "");

  // Runs `body` in rounds of several calls; `bytes` and `flops` are what the task needs at least. Share: of
  // the larger of the two times that the measured limits allow. Nothing where kernels are emulated.
  void time(const std::string& op, const std::string& shape, double bytes, double flops,
            const std::function<void()>& body);
  void measure_limits();  // copy bandwidth, matrix rate of our own products: what shares are of

  bool passed() const;
  std::string table() const;
  std::string json() const;

  kernels::cuda::runtime::Machine machine;
  std::vector<CheckResult> checks;
  std::vector<TimingResult> timings;
  double copy_bytes_per_s = 0, matrix_flops_per_s = 0;
  std::mt19937_64 random{20240117};
};

std::vector<Bf16> random_bf16(Session& session, int64_t count, double scale = 1);  // normal
std::vector<float> random_fp32(Session& session, int64_t count, double scale = 1);
// uniform in [−steepest, 0]
std::vector<float> random_log_decay(Session& session, int64_t count, double steepest);
std::vector<double> widened(const std::vector<Bf16>& x);
std::vector<double> widened(const std::vector<float>& x);

// One entry per group of operators: its checks, then its timings (only on a GPU).
struct Operator {
  const char* name;
  void (*check)(Session&);
  void (*time)(Session&);
};
const std::vector<Operator>& operators();

void check_linear_recurrence(Session& session);
void time_linear_recurrence(Session& session);
void check_delta_rule(Session& session);
void time_delta_rule(Session& session);
void check_attention(Session& session);
void time_attention(Session& session);
void check_norms(Session& session);
void time_norms(Session& session);
void check_fused(Session& session);
void time_fused(Session& session);
void check_feature_maps(Session& session);  // features, gated
void time_feature_maps(Session& session);
void check_short_convolution(Session& session);
void time_short_convolution(Session& session);
void check_products(Session& session);  // matmul
void time_products(Session& session);
void check_losses(Session& session);  // linear_cross_entropy, between its products
void time_losses(Session& session);
void check_experts(Session& session);
void time_experts(Session& session);
void check_adamw(Session& session);
void time_adamw(Session& session);

}  // namespace longhaul::gpu_check

#include "kernels/spikes/counts.h"

#include "base/error.h"
#include "base/threads/parallel.h"
#include "kernels/documents.h"
#include "kernels/scratch.h"
#include "kernels/spikes/loops.h"
#include "kernels/vector/tensors.h"

namespace longhaul::kernels {
namespace {

void check_spiked(const Tensor& x, double k) {
  if (x.dim() != 2 || !x.is_floating_point())
    refuse_argument("spike_counts", "x", "[tokens, channels] of numbers", shape_text(x));
  LONGHAUL_ASSERT(k > 0, "spikes with k = {}", k);
}

int64_t spike_grain(int64_t columns) {
  return std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, columns));
}

Tensor threshold_of(const Tensor& x, double k) {
  return x.abs()
      .mean(1, false, at::kDouble)
      .div(k)
      .to(wide_type(x))
      .clamp(static_cast<double>(kLeastThreshold), static_cast<double>(kLargestThreshold));
}

// body(row, place for its counts) for every row of a CPU tensor whose rows are contiguous.
template <class Body>
void for_each_row(const Tensor& x, double k, const Body& body) {
  const Storage storage = storage_of(x);
  const auto* const from = static_cast<const std::byte*>(pointer_to(x));
  const int64_t bytes = x.stride(0) * x.element_size();
  parallel_for(0, x.size(0), spike_grain(x.size(1)), [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t)
      body(t, SpikeRow{.storage = storage, .x = from + t * bytes, .columns = x.size(1), .k = k});
  });
}

// The vector loops know bf16 and fp32.
bool by_operators(const Tensor& x) { return !x.is_cpu() || x.scalar_type() == at::kDouble; }

Tensor with_whole_rows(const Tensor& x) { return x.numel() == 0 || x.stride(1) == 1 ? x : x.contiguous(); }

}  // namespace

SpikeCounts spike_counts(const Tensor& given, double k) {
  check_spiked(given, k);
  const at::NoGradGuard no_gradient;
  if (by_operators(given)) {
    const Tensor threshold = threshold_of(given, k);
    return {given.to(wide_type(given)).div(threshold.unsqueeze(1)).round(), threshold};
  }
  const Tensor x = with_whole_rows(given);
  SpikeCounts made{at::empty(x.sizes(), at::kFloat), at::empty({x.size(0)}, at::kFloat)};
  auto* const counts = made.count_tc.mutable_data_ptr<float>();
  auto* const thresholds = made.threshold_t.mutable_data_ptr<float>();
  for_each_row(x, k, [&](int64_t t, const SpikeRow& row) {
    thresholds[t] = count_spikes(row, counts + t * row.columns);
  });
  return made;
}

Tensor spiked(const Tensor& given, double k) {
  check_spiked(given, k);
  const at::NoGradGuard no_gradient;
  if (by_operators(given)) {
    const SpikeCounts made = spike_counts(given, k);
    return made.count_tc.mul(made.threshold_t.unsqueeze(1)).to(given.scalar_type());
  }
  const Tensor x = with_whole_rows(given);
  Tensor y = at::empty(x.sizes(), x.options().requires_grad(false));
  for_each_row(x, k, [&](int64_t t, const SpikeRow& row) {
    static thread_local Scratch scratch;
    straight_through(row, scratch.take<float>(row.columns), writable_row(y, t));
  });
  return y;
}

}  // namespace longhaul::kernels

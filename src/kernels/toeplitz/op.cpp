#include "kernels/toeplitz/op.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/toeplitz/loops.h"
#include "kernels/vector/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char* kToeplitz = "toeplitz";
constexpr int64_t kToeplitzChannels = 32;  // of one thread at a time: a cache line of bf16

at::TensorOptions sums_like(const Tensor& x) { return x.options().dtype(wide_type(x)).requires_grad(false); }

void check_toeplitz(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                    const Tensor& initial, int64_t documents) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(kToeplitz, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  const ScalarType wide = wide_type(x);
  if (coefficient.dim() != 2 || coefficient.size(0) != x.size(1) || coefficient.scalar_type() != wide)
    refuse_argument(kToeplitz, "coefficient", fmt::format("[{}, exponentials] {}", x.size(1), name_of(wide)),
                    shape_text(coefficient));
  const int64_t exponentials = coefficient.size(1);
  if (log_decay.sizes() != at::IntArrayRef({exponentials}) || log_decay.scalar_type() != wide)
    refuse_argument(kToeplitz, "log_decay", fmt::format("[{}] {}", exponentials, name_of(wide)),
                    shape_text(log_decay));
  if (initial.defined() && (initial.sizes() != at::IntArrayRef({documents, exponentials, x.size(1)}) ||
                            initial.scalar_type() != wide)) {
    refuse_argument(kToeplitz, "initial_state",
                    fmt::format("[{}, {}, {}] {}", documents, exponentials, x.size(1), name_of(wide)),
                    shape_text(initial));
  }
}

void refuse_growth(const Tensor& log_decay) {
  if (log_decay.numel() == 0 || log_decay.le(0).all().item<bool>()) return;  // a NaN too
  refuse_argument(kToeplitz, "log_decay", "numbers of at most 0",
                  fmt::format("{} at most", log_decay.max().item<double>()));
}

// body(range, block) for each block of channels; `decay` and `coefficient` outlive the call.
template <class Body>
void for_channels(const Tensor& x, const Tensor& decay, const Tensor& coefficient_ed,
                  const std::vector<int64_t>& offsets, const Body& body) {
  const int64_t channels = x.size(1), blocks = (channels + kToeplitzChannels - 1) / kToeplitzChannels;
  parallel_for(0, blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      body(ToeplitzRange{.storage = storage_of(x),
                         .channels = channels,
                         .ld_in = x.stride(0),
                         .exponentials = decay.size(0),
                         .offsets = offsets.data(),
                         .documents = static_cast<int64_t>(offsets.size()) - 1,
                         .first = block * kToeplitzChannels,
                         .last = std::min(channels, (block + 1) * kToeplitzChannels),
                         .decay = pointer_to(decay),
                         .coefficient = pointer_to(coefficient_ed)},
           block);
    }
  });
}

Tensor rows_of_channels(const Tensor& x) { return x.numel() == 0 || x.stride(1) == 1 ? x : x.contiguous(); }
Tensor whole_or_none(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

Toeplitz toeplitz_by_loops(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                           const Tensor& initial, const std::vector<int64_t>& offsets, bool with_state) {
  const int64_t documents = static_cast<int64_t>(offsets.size()) - 1;
  const Tensor decay = log_decay.exp(), coefficient_ed = coefficient.t().contiguous();
  const Toeplitz out{at::empty(x.sizes(), x.options().requires_grad(false)),
                     with_state ? at::empty({documents, decay.size(0), x.size(1)}, sums_like(x)) : Tensor()};
  for_channels(x, decay, coefficient_ed, offsets, [&](const ToeplitzRange& range, int64_t) {
    toeplitz_range(range, {.x = pointer_to(x),
                           .initial = pointer_to(initial),
                           .y = writable(out.y_td),
                           .final = writable(out.final_state_ned)});
  });
  return out;
}

// Of x, coefficient, log_decay, initial.
std::vector<Tensor> toeplitz_gradients(const BackwardCall& call, const std::vector<int64_t>& offsets) {
  const Tensor &x = call.saved[0], &coefficient = call.saved[1], &log_decay = call.saved[2],
               &initial = call.saved[3];
  const Tensor decay = log_decay.exp(), coefficient_ed = coefficient.t().contiguous();
  const Tensor dy = call.gradients[0].defined() ? call.gradients[0].contiguous()
                                                : at::zeros(x.sizes(), x.options().requires_grad(false));
  const Tensor d_final = call.gradients.size() > 1 ? whole_or_none(call.gradients[1]) : Tensor();
  const bool inputs = call.wanted[0] || call.wanted[3], parameters = call.wanted[1] || call.wanted[2];
  const at::TensorOptions wide = sums_like(x);
  const int64_t blocks = (x.size(1) + kToeplitzChannels - 1) / kToeplitzChannels;
  const Tensor dx = inputs ? at::empty(x.sizes(), x.options().requires_grad(false)) : Tensor();
  const Tensor d_initial = initial.defined() && call.wanted[3] ? at::empty(initial.sizes(), wide) : Tensor();
  const Tensor d_coefficient = parameters ? at::empty(coefficient_ed.sizes(), wide) : Tensor();
  const Tensor d_log_decay = parameters ? at::zeros({blocks, decay.size(0)}, wide) : Tensor();
  for_channels(x, decay, coefficient_ed, offsets, [&](const ToeplitzRange& range, int64_t block) {
    toeplitz_gradient_range(range, {.x = pointer_to(x),
                                    .initial = pointer_to(initial),
                                    .dy = pointer_to(dy),
                                    .d_final = pointer_to(d_final),
                                    .dx = writable(dx),
                                    .d_initial = writable(d_initial),
                                    .d_coefficient = writable(d_coefficient),
                                    .d_log_decay = writable_row(d_log_decay, block)});
  });
  if (!parameters) return {dx, Tensor(), Tensor(), d_initial};
  return {dx, d_coefficient.t().contiguous(), d_log_decay.sum(0), d_initial};
}

}  // namespace

Toeplitz toeplitz(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                  const Tensor& offsets_any, const Tensor& initial, bool with_state) {
  const std::vector<int64_t> offsets = document_offsets(offsets_any, x.size(0), kToeplitz);
  const int64_t documents = static_cast<int64_t>(offsets.size()) - 1;
  check_toeplitz(x, coefficient, log_decay, initial, documents);
  switch (choose_by_device(kToeplitz, x, "no kernels of our own on a GPU")) {
    case ByDevice::kMeta: {
      const auto made = meta_results(
          {x, coefficient, log_decay, initial},
          {{x.sizes().vec(), x.scalar_type()}, {{documents, coefficient.size(1), x.size(1)}, wide_type(x)}});
      return {made[0], made[1]};
    }
    case ByDevice::kCpu: {
      refuse_growth(log_decay.detach());
      const auto made = differentiable(kToeplitz, {x, coefficient, log_decay, initial}, [&]() -> Recorded {
        const Tensor rows = rows_of_channels(x), first = whole_or_none(initial);
        const Toeplitz out =
            toeplitz_by_loops(rows, coefficient, log_decay.contiguous(), first, offsets, with_state);
        return {.results = with_state ? std::vector<Tensor>{out.y_td, out.final_state_ned}
                                      : std::vector<Tensor>{out.y_td},
                .saved = {rows, coefficient, log_decay, first},
                .backward = [offsets](const BackwardCall& call) { return toeplitz_gradients(call, offsets); },
                .zeros_for_missing = false};
      });
      return {made[0], with_state ? made[1] : Tensor()};
    }
    default:
      return toeplitz_aten(x, coefficient, log_decay, offsets_any, initial);
  }
}

Tensor toeplitz_continued(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                          const ToeplitzStates& states, const Tensor& offsets) {
  const at::NoGradGuard no_gradient;
  const Tensor rows = to_tensor(states.rows, x.device());
  const Toeplitz out = toeplitz(x, coefficient, log_decay, offsets, states.state_sed.index_select(0, rows));
  Tensor(states.state_sed).index_copy_(0, rows, out.final_state_ned);
  return out.y_td;
}

Toeplitz toeplitz_aten(const Tensor& x, const Tensor& coefficient, const Tensor& log_decay,
                       const Tensor& offsets_any, const Tensor& initial) {
  constexpr int64_t kChunk = 32;
  const std::vector<int64_t> offsets = document_offsets(offsets_any, x.size(0), kToeplitz);
  const int64_t channels = x.size(1), exponentials = coefficient.size(1);
  const at::TensorOptions wide = sums_like(x);
  const Tensor coefficient_ed = coefficient.t();
  const Tensor powers_te = at::outer(at::arange(kChunk + 1, wide), log_decay).exp();  // λ^τ
  // κ, the latest tap last, for products with windows of each channel: a convolution, which not every device
  // has.
  const Tensor taps_dk1 = at::mm(powers_te.narrow(0, 0, kChunk), coefficient_ed).flip({0}).t().unsqueeze(2);
  std::vector<Tensor> rows{x.narrow(0, 0, 0).to(wide.dtype())}, states;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    Tensor state =
        initial.defined() ? initial[static_cast<int64_t>(n)] : at::zeros({exponentials, channels}, wide);
    for (int64_t t = offsets[n]; t < offsets[n + 1]; t += kChunk) {
      const int64_t count = std::min(kChunk, offsets[n + 1] - t);
      const Tensor part = x.narrow(0, t, count).to(wide.dtype());
      const Tensor padded_dt = at::constant_pad_nd(part.t(), {kChunk - 1, 0}).contiguous();
      const Tensor windows_dtk = padded_dt.as_strided({channels, count, kChunk}, {padded_dt.size(1), 1, 1});
      const Tensor near = at::bmm(windows_dtk, taps_dk1).squeeze(2).t();
      rows.push_back(near + at::mm(powers_te.narrow(0, 1, count), state * coefficient_ed));
      const Tensor left = powers_te.narrow(0, 0, count).flip({0}).t();  // λ^(count − 1 − s)
      state = powers_te[count].unsqueeze(1) * state + at::mm(left, part);
    }
    states.push_back(state);
  }
  const Tensor finals = states.empty() ? at::empty({0, exponentials, channels}, wide) : at::stack(states);
  return {at::cat(rows).to(x.scalar_type()), finals};
}

}  // namespace longhaul::kernels

#include "kernels/scan/op.h"

#include <fmt/format.h>

#include "base/threads/parallel.h"
#include "kernels/by_device.h"
#include "kernels/differentiable.h"
#include "kernels/documents.h"
#include "kernels/scan/loops.h"
#include "kernels/vector/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr const char *kDecayedSum = "decayed_sum", *kCumulativeSoftmax = "cumulative_softmax";
constexpr int64_t kChannelBlock = 128;  // of one thread at a time

at::TensorOptions wide_options_of(const Tensor& x) {
  return x.options().dtype(wide_type(x)).requires_grad(false);
}

void check_scanned(const char* op, const Tensor& x, const Tensor& initial, int64_t documents) {
  if (x.dim() != 2 || !at::isFloatingType(x.scalar_type()) || x.scalar_type() == at::kHalf)
    refuse_argument(op, "x", "[tokens, channels] in bf16, fp32 or fp64", shape_text(x));
  if (!initial.defined() ||
      (initial.sizes() == at::IntArrayRef({documents, x.size(1)}) && initial.scalar_type() == wide_type(x)))
    return;
  refuse_argument(op, "initial_state",
                  fmt::format("[{}, {}] {}", documents, x.size(1), name_of(wide_type(x))),
                  shape_text(initial));
}

Tensor scanned_rows(const Tensor& x) { return x.numel() == 0 || x.stride(1) == 1 ? x : x.contiguous(); }
Tensor contiguous_or_none(const Tensor& x) { return x.defined() ? x.contiguous() : x; }

// body(range, document) for every document and block of channels.
template <class Body>
void for_scans(const Tensor& x, const std::vector<int64_t>& offsets, const Body& body) {
  const int64_t channels = x.size(1), blocks = (channels + kChannelBlock - 1) / kChannelBlock;
  const auto documents = static_cast<int64_t>(offsets.size()) - 1;
  parallel_for(0, documents * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const auto n = static_cast<size_t>(i / blocks);
      const int64_t first = i % blocks * kChannelBlock;
      body({.storage = storage_of(x),
            .channels = channels,
            .ld_in = x.stride(0),
            .begin = offsets[n],
            .end = offsets[n + 1],
            .first = first,
            .last = std::min(channels, first + kChannelBlock)},
           static_cast<int64_t>(n));
    }
  });
}

const void* row_or_null(const Tensor& matrix, int64_t n) {
  return matrix.defined() ? writable_row(matrix, n) : nullptr;
}

DecayedSum sum_by_loops(const Tensor& a, const Tensor& u, const Tensor& initial,
                        const std::vector<int64_t>& offsets) {
  const auto documents = static_cast<int64_t>(offsets.size()) - 1;
  const DecayedSum out{at::empty(u.sizes(), u.options().requires_grad(false)),
                       at::empty({documents, u.size(1)}, wide_options_of(u))};
  for_scans(u, offsets, [&](const ScanRange& range, int64_t n) {
    decayed_sum_range(range, {.a = pointer_to(a),
                              .u = pointer_to(u),
                              .initial = row_or_null(initial, n),
                              .h = writable(out.h_tc),
                              .final = writable_row(out.final_state_nc, n)});
  });
  return out;
}

std::vector<Tensor> sum_gradients(const BackwardCall& call, const std::vector<int64_t>& offsets) {
  const Tensor &a = call.saved[0], &u = call.saved[1], &initial = call.saved[2], &h = call.saved[3];
  const Tensor dh = call.gradients[0].defined() ? call.gradients[0].contiguous() : at::zeros_like(h);
  const Tensor d_final = contiguous_or_none(call.gradients[1]);
  const Tensor da = at::empty(a.sizes(), wide_options_of(u)),
               du = at::empty(h.sizes(), h.options().requires_grad(false));
  const Tensor d_initial =
      at::empty({static_cast<int64_t>(offsets.size()) - 1, u.size(1)}, wide_options_of(u));
  for_scans(u, offsets, [&](const ScanRange& range, int64_t n) {
    decayed_sum_gradient_range(range, {.a = pointer_to(a),
                                       .initial = row_or_null(initial, n),
                                       .h = writable(h),
                                       .dh = pointer_to(dh),
                                       .d_final = row_or_null(d_final, n),
                                       .da = writable(da),
                                       .du = writable(du),
                                       .d_initial = writable_row(d_initial, n)});
  });
  return {da, du, initial.defined() ? d_initial : Tensor()};
}

CumulativeSoftmax softmax_by_loops(const Tensor& x, const Tensor& initial,
                                   const std::vector<int64_t>& offsets) {
  const auto documents = static_cast<int64_t>(offsets.size()) - 1;
  const CumulativeSoftmax out{at::empty(x.sizes(), x.options().requires_grad(false)),
                              at::empty(x.sizes(), wide_options_of(x)),
                              at::empty({documents, x.size(1)}, wide_options_of(x))};
  for_scans(x, offsets, [&](const ScanRange& range, int64_t n) {
    cumulative_softmax_range(range, {.x = pointer_to(x),
                                     .initial = row_or_null(initial, n),
                                     .k = writable(out.k_tc),
                                     .g = writable(out.log_decay_tc),
                                     .final = writable_row(out.final_state_nc, n)});
  });
  return out;
}

std::vector<Tensor> softmax_gradients(const BackwardCall& call, const std::vector<int64_t>& offsets,
                                      ScalarType type) {
  const Tensor &g = call.saved[0], &initial = call.saved[1];
  const at::TensorOptions narrow = g.options().dtype(type).requires_grad(false);
  const Tensor dk =
      call.gradients[0].defined() ? call.gradients[0].contiguous() : at::zeros(g.sizes(), narrow);
  const Tensor dg = call.gradients[1].defined() ? call.gradients[1].contiguous() : at::zeros_like(g);
  const Tensor d_final = contiguous_or_none(call.gradients[2]), dx = at::empty(g.sizes(), narrow);
  const Tensor d_initial =
      at::empty({static_cast<int64_t>(offsets.size()) - 1, g.size(1)}, g.options().requires_grad(false));
  for_scans(dx, offsets, [&](const ScanRange& range, int64_t n) {
    cumulative_softmax_gradient_range(range, {.initial = row_or_null(initial, n),
                                              .g = writable(g),
                                              .dk = pointer_to(dk),
                                              .dg = pointer_to(dg),
                                              .d_final = row_or_null(d_final, n),
                                              .dx = writable(dx),
                                              .d_initial = writable_row(d_initial, n)});
  });
  return {dx, initial.defined() ? d_initial : Tensor()};
}

}  // namespace

DecayedSum decayed_sum(const Tensor& a, const Tensor& u, const Tensor& offsets_any, const Tensor& initial) {
  const std::vector<int64_t> offsets = document_offsets(offsets_any, u.size(0), kDecayedSum);
  const auto documents = static_cast<int64_t>(offsets.size()) - 1;
  check_scanned(kDecayedSum, u, initial, documents);
  if (a.sizes() != u.sizes() || a.scalar_type() != wide_type(u))
    refuse_argument(kDecayedSum, "a", fmt::format("[{}, {}] {}", u.size(0), u.size(1), name_of(wide_type(u))),
                    shape_text(a));
  switch (choose_by_device(kDecayedSum, u, "no kernels of our own on a GPU")) {
    case ByDevice::kMeta: {
      const auto made = meta_results(
          {a, u, initial}, {{u.sizes().vec(), u.scalar_type()}, {{documents, u.size(1)}, wide_type(u)}});
      return {made[0], made[1]};
    }
    case ByDevice::kCpu: {
      const auto made = differentiable(kDecayedSum, {a, u, initial}, [&]() -> Recorded {
        const Tensor decay = a.contiguous(), rows = scanned_rows(u), first = contiguous_or_none(initial);
        const DecayedSum out = sum_by_loops(decay, rows, first, offsets);
        return {.results = {out.h_tc, out.final_state_nc},
                .saved = {decay, rows, first, out.h_tc},
                .backward = [offsets](const BackwardCall& call) { return sum_gradients(call, offsets); },
                .zeros_for_missing = false};
      });
      return {made[0], made[1]};
    }
    default:
      return decayed_sum_reference(a, u, offsets_any, initial);
  }
}

CumulativeSoftmax cumulative_softmax(const Tensor& x, const Tensor& offsets_any, const Tensor& initial) {
  const std::vector<int64_t> offsets = document_offsets(offsets_any, x.size(0), kCumulativeSoftmax);
  const auto documents = static_cast<int64_t>(offsets.size()) - 1;
  check_scanned(kCumulativeSoftmax, x, initial, documents);
  switch (choose_by_device(kCumulativeSoftmax, x, "no kernels of our own on a GPU")) {
    case ByDevice::kMeta: {
      const auto made = meta_results({x, initial}, {{x.sizes().vec(), x.scalar_type()},
                                                    {x.sizes().vec(), wide_type(x)},
                                                    {{documents, x.size(1)}, wide_type(x)}});
      return {made[0], made[1], made[2]};
    }
    case ByDevice::kCpu: {
      const auto made = differentiable(kCumulativeSoftmax, {x, initial}, [&]() -> Recorded {
        const Tensor rows = scanned_rows(x), first = contiguous_or_none(initial);
        const CumulativeSoftmax out = softmax_by_loops(rows, first, offsets);
        return {.results = {out.k_tc, out.log_decay_tc, out.final_state_nc},
                .saved = {out.log_decay_tc, first},
                .backward = [offsets, type = x.scalar_type()](
                                const BackwardCall& call) { return softmax_gradients(call, offsets, type); },
                .zeros_for_missing = false};
      });
      return {made[0], made[1], made[2]};
    }
    default:
      return cumulative_softmax_reference(x, offsets_any, initial);
  }
}

Tensor decayed_sum_continued(const Tensor& a, const Tensor& u, const ScanStates& states,
                             const Tensor& offsets) {
  const at::NoGradGuard no_gradient;
  const Tensor rows = to_tensor(states.rows, u.device());
  const DecayedSum out = decayed_sum(a, u, offsets, states.state_sc.index_select(0, rows));
  Tensor(states.state_sc).index_copy_(0, rows, out.final_state_nc);
  return out.h_tc;
}

CumulativeSoftmax cumulative_softmax_continued(const Tensor& x, const ScanStates& states,
                                               const Tensor& offsets) {
  const at::NoGradGuard no_gradient;
  const Tensor rows = to_tensor(states.rows, x.device()),
               nothing = states.begun_sc.index_select(0, rows).eq(0);
  const Tensor z =
      states.state_sc.index_select(0, rows).masked_fill(nothing, -std::numeric_limits<double>::infinity());
  CumulativeSoftmax out = cumulative_softmax(x, offsets, z);
  const Tensor still = out.final_state_nc.isneginf();
  Tensor(states.state_sc).index_copy_(0, rows, out.final_state_nc.masked_fill(still, 0));
  Tensor(states.begun_sc).index_copy_(0, rows, still.logical_not().to(states.begun_sc.scalar_type()));
  return out;
}

DecayedSum decayed_sum_reference(const Tensor& a, const Tensor& u, const Tensor& offsets_any,
                                 const Tensor& initial) {
  const std::vector<int64_t> offsets = document_offsets(offsets_any, u.size(0), kDecayedSum);
  std::vector<Tensor> rows{u.narrow(0, 0, 0).to(a.scalar_type())}, states;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    Tensor h =
        initial.defined() ? initial[static_cast<int64_t>(n)] : at::zeros({u.size(1)}, wide_options_of(u));
    for (int64_t t = offsets[n]; t < offsets[n + 1]; ++t) {
      h = a[t] * h + u[t];
      rows.push_back(h.unsqueeze(0));
    }
    states.push_back(h);
  }
  return {at::cat(rows).to(u.scalar_type()), at::stack(states)};
}

CumulativeSoftmax cumulative_softmax_reference(const Tensor& x, const Tensor& offsets_any,
                                               const Tensor& initial) {
  const std::vector<int64_t> offsets = document_offsets(offsets_any, x.size(0), kCumulativeSoftmax);
  const Tensor wide = x.to(wide_type(x));
  std::vector<Tensor> keys{wide.narrow(0, 0, 0)}, decays{wide.narrow(0, 0, 0)}, states;
  for (size_t n = 0; n + 1 < offsets.size(); ++n) {
    const Tensor nothing =
        at::full({x.size(1)}, -std::numeric_limits<double>::infinity(), wide_options_of(x));
    Tensor z = initial.defined() ? initial[static_cast<int64_t>(n)] : nothing;
    for (int64_t t = offsets[n]; t < offsets[n + 1]; ++t) {
      // Where nothing was there the sum is the token itself; asked for otherwise, −∞ would put NaN into the
      // gradient.
      const Tensor fresh = z.isneginf(), known = z.masked_fill(fresh, 0);
      const Tensor next = at::where(fresh, wide[t], at::logaddexp(known, wide[t]));
      keys.push_back((wide[t] - next).exp().unsqueeze(0));
      decays.push_back(at::where(fresh, at::zeros_like(next), known - next).unsqueeze(0));
      z = next;
    }
    states.push_back(z);
  }
  return {at::cat(keys).to(x.scalar_type()), at::cat(decays), at::stack(states)};
}

}  // namespace longhaul::kernels

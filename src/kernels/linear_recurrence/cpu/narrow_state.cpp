#include "kernels/linear_recurrence/cpu/narrow_state.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/documents.h"

namespace longhaul::kernels {
namespace {

constexpr std::string_view kNarrowImplementations[] = {"cuda", "cpu", "aten"};
constexpr Refusal kWideStates = "its states are fp32, and these are rounded to the model's dtype";

// [H, 1, 1] and tables over the places of a block, in the dtype of the model.
struct Decays {
  Tensor slope_h11, query_hb1, key_hb1, within_hbb;
};

Decays decays_of(const Tensor& log_decay, ScalarType type, int64_t block) {
  const Tensor slope = log_decay.neg().view({-1, 1, 1}), place = at::arange(1, block + 1, slope.options());
  const Tensor behind = place.unsqueeze(1) - place.unsqueeze(0);
  const Tensor within =
      at::where(behind.ge(0), behind.mul(slope).neg(), -std::numeric_limits<double>::infinity()).exp();
  return {slope.to(type), place.unsqueeze(1).mul(slope).neg().exp().to(type),
          place.neg().add(block).unsqueeze(1).mul(slope).neg().exp().to(type), within.to(type)};
}

// q, k, v [H, tokens, D] of one document; `state` [H, D, D] goes on.
Tensor by_blocks(const Tensor& q, const Tensor& k, const Tensor& v, const Decays& decay, Tensor& state) {
  const int64_t tokens = q.size(1), block = decay.within_hbb.size(1);
  std::vector<Tensor> out;
  for (int64_t begin = 0; begin < tokens; begin += block) {
    const int64_t size = std::min(block, tokens - begin);
    const auto own = [&](const Tensor& x) { return x.narrow(1, begin, size); };
    const Tensor within = decay.within_hbb.narrow(1, 0, size).narrow(2, 0, size);
    const Tensor intra = at::matmul(at::matmul(own(q), own(k).transpose(1, 2)).mul(within), own(v));
    const Tensor inter = at::matmul(own(q).mul(decay.query_hb1.narrow(1, 0, size)), state);
    out.push_back(inter + intra);
    const Tensor written =
        at::matmul(own(k).mul(decay.key_hb1.narrow(1, block - size, size)).transpose(1, 2), own(v));
    state = state.mul(decay.slope_h11.mul(-size).exp()) + written;
  }
  return at::cat(out, 1);
}

Tensor one_step(const Tensor& q, const Tensor& k, const Tensor& v, const Decays& decay, Tensor& state) {
  state = state.mul(decay.slope_h11.neg().exp()) + at::matmul(k.transpose(1, 2), v);
  return at::matmul(q, state);
}

}  // namespace

Tensor narrow_state_recurrence(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& log_decay,
                               const RecurrenceStates& states, const Tensor& offsets, int64_t block) {
  constexpr const char* kOp = "narrow_state_recurrence";
  if (q.dim() != 3 || k.sizes() != q.sizes() || v.sizes() != q.sizes() ||
      k.scalar_type() != q.scalar_type() || v.scalar_type() != q.scalar_type())
    refuse_argument(kOp, "q, k and v", "[tokens, heads, channels] alike",
                    shape_text(q) + ", " + shape_text(k) + " and " + shape_text(v));
  if (log_decay.dim() != 1 || log_decay.size(0) != q.size(1))
    refuse_argument(kOp, "log_decay", "one number a head", shape_text(log_decay));
  Dispatcher(kOp, kNarrowImplementations).choose([](size_t i) {
    return kNarrowImplementations[i] == "aten" ? Refusal() : kWideStates;
  });
  const bool continued = states.state_shkv.defined();
  if (continued && states.state_shkv.scalar_type() != q.scalar_type())
    refuse_argument(kOp, "states", "the dtype of q", shape_text(states.state_shkv));
  const Decays decay = decays_of(log_decay, q.scalar_type(), block);
  const std::vector<int64_t> ends = document_offsets(offsets, q.size(0), kOp);
  std::vector<Tensor> out;
  for (size_t n = 0; n + 1 < ends.size(); ++n) {
    const int64_t begin = ends[n], tokens = ends[n + 1] - begin;
    if (tokens == 0) continue;
    const auto own = [&](const Tensor& x) { return x.narrow(0, begin, tokens).transpose(0, 1); };
    Tensor state = continued ? states.state_shkv.select(0, states.rows[n])
                             : at::zeros({q.size(1), q.size(2), q.size(2)}, q.options().requires_grad(false));
    const auto pass = continued && tokens == 1 ? one_step : by_blocks;
    out.push_back(pass(own(q), own(k), own(v), decay, state).transpose(0, 1));
    if (continued) states.state_shkv.select(0, states.rows[n]).copy_(state);
  }
  return out.empty() ? at::zeros_like(q) : at::cat(out, 0);
}

}  // namespace longhaul::kernels

#include "kernels/delta_rule/chunked.h"

#include <algorithm>

#include "base/memory/memory_purpose.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kDeltaChunk = 64, kDeltaChannelChunk = 16;
// of which the pairs within chunks are held at once
constexpr int64_t kSpanTokens = 1024, kChannelSpanTokens = 256;
// e^−800 is 0 in fp64 too; a steeper one would cost sums their digits
constexpr double kSmallestDecay = -800;

// M x = b or Mᵀ x = b; of the system only what lies below the diagonal is read.
Tensor solved(const Tensor& system, const Tensor& right, bool transposed) {
  return at::linalg_solve_triangular(transposed ? system.transpose(2, 3) : system, right,
                                     /*upper=*/transposed, /*left=*/true,
                                     /*unitriangular=*/true);
}

// s_ij = Σ_c x_ic y_jc w_ijc, with weights of all channels alike or of each.
Tensor scores(const Tensor& x, const Tensor& y, const Tensor& within) {
  if (within.size(4) == 1) return at::matmul(x, y.transpose(2, 3)).mul_(within.squeeze(4));
  return x.unsqueeze(3).mul(y.unsqueeze(2)).mul_(within).sum(4);
}

// What a gradient of scores is for the rows x and for the columns y; added.
void scores_backward(const Tensor& d_scores, const Tensor& x, const Tensor& y, const Tensor& within,
                     const Tensor& d_x, const Tensor& d_y) {
  if (within.size(4) == 1) {
    const Tensor pairs = d_scores.mul(within.squeeze(4));
    d_x.add_(at::matmul(pairs, y));
    d_y.add_(at::matmul(pairs.transpose(2, 3), x));
    return;
  }
  const Tensor pairs = within.mul(d_scores.unsqueeze(4));
  d_x.add_(pairs.mul(y.unsqueeze(2)).sum(3));
  d_y.add_(pairs.mul(x.unsqueeze(3)).sum(2));
}

// Σ over the heads that share one.
Tensor summed_groups(const Tensor& x_thd, int64_t group) {
  return group == 1 ? x_thd
                    : x_thd.reshape({x_thd.size(0), x_thd.size(1) / group, group, x_thd.size(2)}).sum(2);
}

}  // namespace

DeltaCut::DeltaCut(const DeltaRuleProblem& problem)
    : chunks(
          document_chunks(problem.offsets, problem.decays_by_channel() ? kDeltaChannelChunk : kDeltaChunk)),
      span_chunks((problem.decays_by_channel() ? kChannelSpanTokens : kSpanTokens) / chunks.width),
      token(to_tensor(chunks.token, problem.in.v_thv.device())),
      place(to_tensor(chunks.place, problem.in.v_thv.device())) {
  const Tensor lengths = to_tensor(chunks.length, problem.in.v_thv.device());
  padded = at::arange(chunks.width, lengths.options())
               .unsqueeze(0)
               .ge(lengths.unsqueeze(1))
               .unsqueeze(2)
               .unsqueeze(3);
}

DeltaSpan::DeltaSpan(const DeltaRuleProblem& problem, const DeltaCut& cut, int64_t number)
    : problem_(problem),
      cut_(cut),
      first_(number * cut.span_chunks),
      count_(std::min(cut.span_chunks, cut.chunks.chunks() - first_)),
      begin_(cut.chunks.token[static_cast<size_t>(first_ * cut.chunks.width)]) {
  for (int64_t c = 0; c < count_; ++c) tokens_ += cut.chunks.length[static_cast<size_t>(first_ + c)];
  q_ = of_places(problem.in.q_tgk);
  k_ = of_places(problem.in.k_tgk);
  v_ = of_places(problem.in.v_thv);
  beta_ = of_places(problem.in.beta_th.unsqueeze(2));
  make_decays();
  a_ = scores(k_, k_, within_).tril_(-1);
  p_ = scores(q_, k_, within_);
  system_ = a_.mul(beta_);
  const Tensor made = solved(system_, at::cat({v_, k_.mul(from_begin_)}, 3).mul_(beta_), false);
  u_ = made.narrow(3, 0, problem.values()).contiguous();
  w_ = made.narrow(3, problem.values(), problem.keys()).contiguous();
}

Tensor DeltaSpan::of_places(const Tensor& x_thd) const {
  const int64_t width = cut_.chunks.width, heads = problem_.heads();
  Tensor x = x_thd.detach()
                 .index_select(0, cut_.token.narrow(0, first_ * width, count_ * width))
                 .to(problem_.state_type());
  if (x.size(1) != heads) x = x.repeat_interleave(problem_.group(), 1);
  x = x.view({count_, width, heads, x.size(2)}).masked_fill(cut_.padded.narrow(0, first_, count_), 0);
  return x.transpose(1, 2).contiguous();
}

Tensor DeltaSpan::of_tokens(const Tensor& x_chbd) const {
  const int64_t width = cut_.chunks.width;
  return x_chbd.transpose(1, 2)
      .reshape({count_ * width, x_chbd.size(1), x_chbd.size(3)})
      .index_select(0, cut_.place.narrow(0, begin_, tokens_).sub(first_ * width));
}

void DeltaSpan::make_decays() {
  const int64_t width = cut_.chunks.width;
  const Tensor at_i = at::arange(width, cut_.token.options()).view({width, 1, 1}),
               at_j = at_i.view({1, width, 1});
  const Tensor later = at_i.lt(at_j);
  if (!problem_.decays()) {
    within_ = at::ones({1, 1, width, width, 1}, q_.options()).masked_fill_(later, 0);
    from_begin_ = to_end_ = at::ones({1, 1, width, 1}, q_.options());
    kept_ = at::ones({count_, 1, 1, 1}, q_.options());
    return;
  }
  const Tensor& log_decay = problem_.in.log_decay;
  // [C, H, B, e]
  const Tensor g =
      of_places(log_decay.dim() == 3 ? log_decay : log_decay.unsqueeze(2)).clamp_min_(kSmallestDecay);
  // D_ij
  const Tensor sums = g.unsqueeze(3).expand({-1, -1, -1, width, -1}).masked_fill(at_i.le(at_j), 0).cumsum(2);
  to_end_ = sums.select(2, width - 1).exp();
  within_ = sums.exp().masked_fill_(later, 0);
  from_begin_ = g.cumsum(2).exp_();
  kept_ = from_begin_.select(2, width - 1).unsqueeze(3);
}

void DeltaSpan::advance(const Tensor& states) {
  entering_ = at::empty({count_, problem_.heads(), problem_.keys(), problem_.values()}, q_.options());
  const Tensor ends = k_.mul(to_end_).transpose(2, 3);
  for (int64_t c = 0; c < count_; ++c) {
    const Tensor state = states.select(0, document(c)), u = u_.select(0, c);
    entering_.select(0, c).copy_(state);
    u.sub_(at::bmm(w_.select(0, c), state));
    state.mul_(kept_.select(0, c)).add_(at::bmm(ends.select(0, c), u));
  }
}

void DeltaSpan::read(const Tensor& o_thd) const {
  const Tensor o =
      at::matmul(q_.mul(from_begin_), entering_).add_(at::matmul(p_, u_)).mul_(problem_.in.scale);
  o_thd.narrow(0, begin_, tokens_).copy_(of_tokens(o));
}

Tensor DeltaSpan::walk_back(const Tensor& d_o, const Tensor& d_u, const Tensor& d_states) const {
  const Tensor d_leaving = at::empty_like(entering_), ends = k_.mul(to_end_);
  const Tensor read = at::matmul(q_.mul(from_begin_).transpose(2, 3), d_o);
  for (int64_t c = count_; c-- > 0;) {
    const Tensor gradient = d_states.select(0, document(c)), of_writes = d_u.select(0, c);
    d_leaving.select(0, c).copy_(gradient);
    of_writes.add_(at::bmm(ends.select(0, c), gradient));
    gradient.mul_(kept_.select(0, c))
        .add_(read.select(0, c))
        .sub_(at::bmm(w_.select(0, c).transpose(1, 2), of_writes));
  }
  return d_leaving;
}

void DeltaSpan::backward(const Tensor& d_o_thd, const Tensor& d_states, const DeltaRuleGradients& out) const {
  const auto tokens = [&](const Tensor& gradient) { return gradient.narrow(0, begin_, tokens_); };
  const Tensor d_o = of_places(d_o_thd).mul_(problem_.in.scale), d_u = at::matmul(p_.transpose(2, 3), d_o);
  const Tensor d_leaving = walk_back(d_o, d_u, d_states);
  const Tensor z = solved(system_, d_u, true), y = z.mul(beta_);
  tokens(out.v_thv).copy_(of_tokens(y));
  const Tensor residual = v_.sub(at::matmul(k_.mul(from_begin_), entering_)).sub_(at::matmul(a_, u_));
  tokens(out.beta_th).copy_(of_tokens(z.mul(residual).sum(3, true)).squeeze(2));

  const Tensor to_rows = entering_.transpose(2, 3), writes = u_.transpose(2, 3);
  const Tensor d_q = at::matmul(d_o, to_rows).mul_(from_begin_),
               d_k_rows = at::matmul(y, to_rows).mul_(from_begin_).neg_();
  const Tensor d_ends = at::matmul(u_, d_leaving.transpose(2, 3)).mul_(to_end_), d_k_columns = d_ends.clone();
  scores_backward(at::matmul(d_o, writes), q_, k_, within_, d_q, d_k_columns);
  scores_backward(at::matmul(y, writes).tril_(-1).neg_(), k_, k_, within_, d_k_rows, d_k_columns);
  tokens(out.q_tgk).copy_(summed_groups(of_tokens(d_q), problem_.group()));
  tokens(out.k_tgk).copy_(summed_groups(of_tokens(d_k_rows.add(d_k_columns)), problem_.group()));
  if (!problem_.decays()) return;
  // Of D_i0 for each i: what stands in a row grows with it, what stands in a column falls; all of it ends at
  // the chunk's last place.
  Tensor d_sums = q_.mul(d_q).add_(k_.mul(d_k_rows.sub(d_k_columns)));
  d_sums.select(2, cut_.chunks.width - 1)
      .add_(k_.mul(d_ends).sum(2))
      .add_(entering_.mul(d_leaving).mul_(kept_).sum(3));
  if (!problem_.decays_by_channel()) d_sums = d_sums.sum(3, true);
  const Tensor d_decay = of_tokens(d_sums.flip(2).cumsum(2).flip(2));
  tokens(out.log_decay).copy_(problem_.decays_by_channel() ? d_decay : d_decay.squeeze(2));
}

LinearRecurrenceResult delta_rule_forward_chunked(const DeltaRuleProblem& problem, Tensor* spans) {
  const std::vector<int64_t> sizes{problem.documents(), problem.heads(), problem.keys(), problem.values()};
  const Tensor states = problem.in.initial_state_nhkv.defined()
                            ? problem.in.initial_state_nhkv.detach().clone(at::MemoryFormat::Contiguous)
                            : at::zeros(sizes, problem.state_options());
  const Tensor o = at::empty({problem.tokens(), problem.heads(), problem.values()},
                             problem.in.v_thv.options().requires_grad(false));
  const DeltaCut cut(problem);
  if (spans != nullptr)
    *spans = at::empty({cut.spans(), sizes[1], sizes[2], sizes[3]}, problem.state_options());
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  for (int64_t i = 0; i < cut.spans(); ++i) {
    DeltaSpan span(problem, cut, i);
    if (spans != nullptr) spans->select(0, i).copy_(states.select(0, span.first_document()));
    span.advance(states);
    span.read(o);
  }
  return {o, states};
}

DeltaRuleGradients delta_rule_backward_chunked(const DeltaRuleProblem& problem, const Tensor& spans,
                                               const Tensor& d_o_thd, const Tensor& d_final) {
  const auto& [q, k, v, beta, log_decay, initial, offsets, scale] = problem.in;
  const auto like = [](const Tensor& x) {
    return x.defined() ? at::empty(x.sizes(), x.options().requires_grad(false)) : Tensor();
  };
  const std::vector<int64_t> sizes{problem.documents(), problem.heads(), problem.keys(), problem.values()};
  const auto states_or_zeros = [&](const Tensor& x) {
    return x.defined() ? x.detach().to(problem.state_type()).clone(at::MemoryFormat::Contiguous)
                       : at::zeros(sizes, problem.state_options());
  };
  const DeltaRuleGradients out{like(q),    like(k),         like(v),
                               like(beta), like(log_decay), states_or_zeros(d_final)};
  const DeltaCut cut(problem);
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  for (int64_t i = cut.spans(); i-- > 0;) {
    DeltaSpan span(problem, cut, i);
    const Tensor states = states_or_zeros(initial);
    states.select(0, span.first_document()).copy_(spans.select(0, i));
    span.advance(states);
    span.backward(d_o_thd, out.initial_state_nhkv, out);
  }
  return out;
}

}  // namespace longhaul::kernels

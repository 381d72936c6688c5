#include "kernels/delta_rule/chunked.h"

#include <algorithm>

#include "base/memory/memory_purpose.h"
#include "tensor/to_tensor.h"

namespace longhaul::kernels {
namespace {

constexpr int64_t kDeltaChunk = 64, kDeltaChannelChunk = 16;
// of a span on the CPU
constexpr int64_t kSpanTokens = 1024, kChannelSpanTokens = 256;
// of a span on a device, at most: 32K tokens of 8 heads of 128 channels go at once
constexpr int64_t kSpanBytes = int64_t{6} << 30;
// between two states of a document that are kept, on a device with room for more
constexpr int64_t kLeastSteps = 16;
// e^−800 is 0 in fp64 too; a steeper one would cost sums their digits
constexpr double kSmallestDecay = -800;

int64_t delta_width(const DeltaRuleProblem& problem) {
  return problem.decays_by_channel() ? kDeltaChannelChunk : kDeltaChunk;
}

// (1 + system)⁻¹; system is zero on and above the diagonal, its width a power of two.
Tensor inverse_of(const Tensor& system) {
  const int64_t width = system.size(3);
  const Tensor at_i = at::arange(width, system.options().dtype(at::kLong));
  const Tensor apart = at_i.unsqueeze(1).bitwise_xor(at_i);
  Tensor inverse;
  for (int64_t level = 0, half = 1; half < width; ++level, half *= 2) {
    // what ties the two halves of each block of 2 · half together
    const Tensor tie = system.masked_fill(apart.bitwise_right_shift(level).ne(1), 0);
    if (level == 0) {
      inverse = tie.neg();
      inverse.diagonal(0, 2, 3).fill_(1);
    } else {
      inverse.sub_(at::matmul(at::matmul(inverse, tie), inverse));
    }
  }
  return inverse;
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

// Σ over the heads that share one: [C, H, B, D] → [C, Hk, B, D].
Tensor summed_groups(const Tensor& x, int64_t group) {
  return group == 1 ? x : x.view({x.size(0), x.size(1) / group, group, x.size(2), x.size(3)}).sum(2);
}

}  // namespace

DeltaRoom delta_room(const DeltaRuleProblem& problem) {
  const int64_t width = delta_width(problem), key = problem.keys(), value = problem.values();
  if (problem.in.v_thv.is_cpu())
    return {.chunks = (problem.decays_by_channel() ? kChannelSpanTokens : kSpanTokens) / width};
  // The backward pass holds so many numbers at once: operands and their gradients, pairs, states.
  const int64_t pairs = width * (problem.decays_by_channel() ? 3 * key : 7),
                of_token = (problem.decays_by_channel() ? 13 : 10) * key + 7 * value + pairs,
                of_chunk = width * of_token + 4 * key * value + key * key;
  const int64_t bytes = problem.state_type() == at::kDouble ? 8 : 4;
  const int64_t chunks = std::max<int64_t>(1, kSpanBytes / (bytes * problem.heads() * of_chunk));
  return {.chunks = chunks, .long_documents = std::max<int64_t>(1, chunks / kLeastSteps)};
}

DeltaSpan::DeltaSpan(const DeltaRuleProblem& problem, const DeltaSpanCut& cut, int64_t width)
    : problem_(problem), cut_(cut), count_(cut.chunks()), width_(width) {
  std::vector<int64_t> numbers;  // one copy for all
  const std::vector<int64_t>* const lists[] = {&cut.documents, &cut.last, &cut.places, &cut.place,
                                               &cut.token};
  for (const auto* list : lists) numbers.insert(numbers.end(), list->begin(), list->end());
  const Tensor all = to_tensor(numbers, problem.in.v_thv.device());
  int64_t begin = 0;
  Tensor* const tensors[] = {&documents_, &last_, &places_, &place_, &token_};
  for (size_t i = 0; i < std::size(lists); begin += static_cast<int64_t>(lists[i++]->size()))
    *tensors[i] = all.narrow(0, begin, static_cast<int64_t>(lists[i]->size()));
  if (cut.tokens() != count_ * width) {
    padding_ = places_.lt(0).view({-1, 1, 1});
    places_ = places_.clamp_min(0);
  }
  q_ = of_places(problem.in.q_tgk);
  k_ = of_places(problem.in.k_tgk);
  v_ = of_places(problem.in.v_thv);
  beta_ = of_places(problem.in.beta_th.unsqueeze(2));
  make_decays();
  a_ = scores(k_, k_, within_).tril_(-1);
  p_ = scores(q_, k_, within_);
  inverse_ = inverse_of(a_.mul(beta_));
  u_ = at::matmul(inverse_, v_.mul(beta_));
  w_ = at::matmul(inverse_, k_.mul(from_begin_).mul_(beta_));
}

Tensor DeltaSpan::of_places(const Tensor& x_thd) const {
  const int64_t heads = x_thd.size(1), width = x_thd.size(2), group = problem_.heads() / heads;
  const Tensor rows = x_thd.detach().index_select(0, places_);
  if (padding_.defined()) rows.masked_fill_(padding_, 0);
  const Tensor x = at::empty({count_, heads, group, width_, width},
                             x_thd.options().dtype(problem_.state_type()).requires_grad(false));
  x.copy_(rows.view({count_, width_, heads, 1, width}).permute({0, 2, 3, 1, 4}));
  return x.view({count_, problem_.heads(), width_, width});
}

void DeltaSpan::put_tokens(const Tensor& x_chbd, const Tensor& out_thd) const {
  const int64_t heads = x_chbd.size(1), width = x_chbd.size(3);
  Tensor rows = at::empty({count_, width_, heads, width}, out_thd.options());
  rows = rows.copy_(x_chbd.transpose(1, 2)).view({count_ * width_, heads, width});
  out_thd.index_copy_(0, token_, padding_.defined() ? rows.index_select(0, place_) : rows);
}

Tensor DeltaSpan::of_step(const Tensor& x, size_t s, int64_t count) const {
  return x.narrow(0, cut_.steps[s], count).flatten(0, 1);
}

void DeltaSpan::make_decays() {
  const Tensor at_i = at::arange(width_, token_.options()).view({width_, 1, 1}),
               at_j = at_i.view({1, width_, 1});
  const Tensor later = at_i.lt(at_j);
  if (!problem_.decays()) {
    within_ = at::ones({1, 1, width_, width_, 1}, q_.options()).masked_fill_(later, 0);
    from_begin_ = to_end_ = at::ones({1, 1, width_, 1}, q_.options());
    kept_ = at::ones({1, 1, 1, 1}, q_.options());
    return;
  }
  const Tensor& log_decay = problem_.in.log_decay;
  // [C, H, B, e]
  const Tensor g =
      of_places(log_decay.dim() == 3 ? log_decay : log_decay.unsqueeze(2)).clamp_min_(kSmallestDecay);
  // D_ij
  const Tensor sums = g.unsqueeze(3).expand({-1, -1, -1, width_, -1}).masked_fill(at_i.le(at_j), 0).cumsum(2);
  to_end_ = sums.select(2, width_ - 1).exp();
  within_ = sums.exp().masked_fill_(later, 0);
  from_begin_ = g.cumsum(2).exp_();
  kept_ = from_begin_.select(2, width_ - 1).unsqueeze(3);
}

Tensor DeltaSpan::advance(const Tensor& entering) {
  const Tensor ends = k_.mul(to_end_).transpose(2, 3);
  passes_ = at::matmul(ends, w_).neg_();
  passes_.diagonal(0, 2, 3).add_(kept_.squeeze(3));
  const Tensor leaving = at::matmul(ends, u_);
  std::vector<Tensor> all{entering};
  for (size_t s = 0; s < steps(); ++s) {
    const int64_t count = documents_at(s);
    of_step(leaving, s, count).baddbmm_(of_step(passes_, s, count), all.back().flatten(0, 1));
    if (s + 1 < steps()) all.push_back(leaving.narrow(0, cut_.steps[s], documents_at(s + 1)));
  }
  entering_ = at::cat(all);
  u_.sub_(at::matmul(w_, entering_));
  return leaving.index_select(0, last_);
}

void DeltaSpan::read(const Tensor& o_thd) const {
  put_tokens(at::matmul(q_.mul(from_begin_), entering_).add_(at::matmul(p_, u_)).mul_(problem_.in.scale),
             o_thd);
}

Tensor DeltaSpan::walk_back(const Tensor& gradients, const Tensor& d_leaving) const {
  std::vector<Tensor>
      all;  // from the last step to the first: of the documents that go on, and of those that end
  for (size_t s = steps(); s-- > 0;) {
    const int64_t count = documents_at(s), go_on = s + 1 < steps() ? documents_at(s + 1) : 0;
    const Tensor passes = of_step(passes_, s, count).transpose(1, 2), here = of_step(gradients, s, count);
    const int64_t split = go_on * problem_.heads(), rest = (count - go_on) * problem_.heads();
    if (count > go_on) {
      all.push_back(d_leaving.narrow(0, go_on, count - go_on));
      here.narrow(0, split, rest).baddbmm_(passes.narrow(0, split, rest), all.back().flatten(0, 1));
    }
    if (go_on > 0) {
      all.push_back(gradients.narrow(0, cut_.steps[s + 1], go_on));
      here.narrow(0, 0, split).baddbmm_(passes.narrow(0, 0, split), all.back().flatten(0, 1));
    }
  }
  std::ranges::reverse(all);
  return at::cat(all);
}

Tensor DeltaSpan::backward(const Tensor& d_o_thd, const Tensor& d_final,
                           const DeltaRuleGradients& out) const {
  const Tensor d_o = of_places(d_o_thd).mul_(problem_.in.scale), d_u = at::matmul(p_.transpose(2, 3), d_o),
               reads = k_.mul(from_begin_), queries = q_.mul(from_begin_);
  const Tensor d_entering =
      at::matmul(queries.transpose(2, 3), d_o).sub_(at::matmul(w_.transpose(2, 3), d_u));
  const Tensor d_leaving = walk_back(d_entering, d_final);
  d_u.add_(at::matmul(k_.mul(to_end_), d_leaving));
  const Tensor z = at::matmul(inverse_.transpose(2, 3), d_u), y = z.mul(beta_);
  put_tokens(y, out.v_thv);
  const Tensor residual = v_.sub(at::matmul(reads, entering_)).sub_(at::matmul(a_, u_));
  put_tokens(z.mul(residual).sum(3, true), out.beta_th.unsqueeze(2));

  const Tensor to_rows = entering_.transpose(2, 3), writes = u_.transpose(2, 3);
  const Tensor d_q = at::matmul(d_o, to_rows).mul_(from_begin_),
               d_k_rows = at::matmul(y, to_rows).mul_(from_begin_).neg_();
  const Tensor d_ends = at::matmul(u_, d_leaving.transpose(2, 3)).mul_(to_end_), d_k_columns = d_ends.clone();
  scores_backward(at::matmul(d_o, writes), q_, k_, within_, d_q, d_k_columns);
  scores_backward(at::matmul(y, writes).tril_(-1).neg_(), k_, k_, within_, d_k_rows, d_k_columns);
  put_tokens(summed_groups(d_q, problem_.group()), out.q_tgk);
  put_tokens(summed_groups(d_k_rows.add(d_k_columns), problem_.group()), out.k_tgk);
  const Tensor d_first = d_entering.narrow(0, 0, documents_at(0));
  if (!problem_.decays()) return d_first;
  // Of D_i0 for each i: what stands in a row grows with it, what stands in a column falls; all of it ends at
  // the chunk's last place.
  Tensor d_sums = q_.mul(d_q).add_(k_.mul(d_k_rows.sub(d_k_columns)));
  d_sums.select(2, width_ - 1).add_(k_.mul(d_ends).sum(2)).add_(entering_.mul(d_leaving).mul_(kept_).sum(3));
  if (!problem_.decays_by_channel()) d_sums = d_sums.sum(3, true);
  put_tokens(d_sums.flip(2).cumsum(2).flip(2),
             problem_.decays_by_channel() ? out.log_decay : out.log_decay.unsqueeze(2));
  return d_first;
}

LinearRecurrenceResult delta_rule_forward_chunked(const DeltaRuleProblem& problem, const DeltaRoom& room,
                                                  Tensor* kept) {
  const std::vector<int64_t> sizes{problem.documents(), problem.heads(), problem.keys(), problem.values()};
  const Tensor states = problem.in.initial_state_nhkv.defined()
                            ? problem.in.initial_state_nhkv.detach().clone(at::MemoryFormat::Contiguous)
                            : at::zeros(sizes, problem.state_options());
  const Tensor o = at::empty({problem.tokens(), problem.heads(), problem.values()},
                             problem.in.v_thv.options().requires_grad(false));
  const DeltaCut cut = delta_cut(problem.offsets, delta_width(problem), room);
  if (kept != nullptr) *kept = at::empty({cut.kept, sizes[1], sizes[2], sizes[3]}, problem.state_options());
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  for (const DeltaSpanCut& each : cut.spans) {
    DeltaSpan span(problem, each, cut.width);
    const Tensor entering = span.states_of(states);
    if (kept != nullptr && each.kept >= 0) kept->narrow(0, each.kept, entering.size(0)).copy_(entering);
    span.put_states(span.advance(entering), states);
    span.read(o);
  }
  return {o, states};
}

DeltaRuleGradients delta_rule_backward_chunked(const DeltaRuleProblem& problem, const DeltaRoom& room,
                                               const Tensor& kept, const Tensor& d_o_thd,
                                               const Tensor& d_final) {
  const auto& [q, k, v, beta, log_decay, initial, offsets, scale] = problem.in;
  const auto like = [](const Tensor& x) {
    return x.defined() ? at::empty(x.sizes(), x.options().requires_grad(false)) : Tensor();
  };
  const std::vector<int64_t> sizes{problem.documents(), problem.heads(), problem.keys(), problem.values()};
  const Tensor d_states = d_final.defined()
                              ? d_final.detach().to(problem.state_type()).clone(at::MemoryFormat::Contiguous)
                              : at::zeros(sizes, problem.state_options());
  const DeltaRuleGradients out{like(q), like(k), like(v), like(beta), like(log_decay), d_states};
  const DeltaCut cut = delta_cut(problem.offsets, delta_width(problem), room);
  const MemoryPurposeScope scope(MemoryPurpose::kWorkspace);
  for (auto each = cut.spans.rbegin(); each != cut.spans.rend(); ++each) {
    DeltaSpan span(problem, *each, cut.width);
    const auto count = static_cast<int64_t>(each->documents.size());
    span.advance(each->kept >= 0 ? kept.narrow(0, each->kept, count)
                 : initial.defined()
                     ? span.states_of(initial.detach())
                     : at::zeros({count, sizes[1], sizes[2], sizes[3]}, problem.state_options()));
    span.put_states(span.backward(d_o_thd, span.states_of(d_states), out), d_states);
  }
  return out;
}

}  // namespace longhaul::kernels

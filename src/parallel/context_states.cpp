#include "parallel/context_states.h"

#include <algorithm>

#include "parallel/context_recurrence.h"

namespace longhaul::parallel {

using comm::Work;

namespace {

// A state, or the parts of it that travel by themselves.
struct ComingState {
  std::vector<Tensor> slices_hkv;
  std::vector<Work> works;

  const Tensor& slice(size_t i) {
    works[i].wait();
    return slices_hkv[i];
  }
  Tensor whole() {
    for (Work& work : works) work.wait();
    return slices_hkv.size() == 1 ? slices_hkv[0] : at::cat(slices_hkv, 1);
  }
};

Tensor composed(const ContextFold& fold, bool through, const Tensor& entering) {
  return through ? entering.mul(fold.decay_hk.unsqueeze(2)).add_(fold.state_hkv) : fold.state_hkv;
}

}  // namespace

StatePassing::StatePassing(recipe::LinearContextMethod method, comm::Communicator& group, std::vector<ContextPiece> pieces, StateKind kind)
    : method_(method), group_(&group), pieces_(std::move(pieces)), kind_(std::move(kind)) {}

std::vector<StatePassing::Step> StatePassing::steps(bool backward) const {
  std::vector<Step> steps;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    steps.push_back({&pieces_[i], pieces_[i].follows, i + 1 < pieces_.size() && pieces_[i + 1].follows});
  }
  if (!backward) return steps;
  std::ranges::reverse(steps);
  for (Step& step : steps) std::swap(step.enters, step.leaves);
  return steps;
}

void StatePassing::run(bool backward, const Fold& fold, const Use& use) const {
  const std::vector<Step> order = steps(backward);
  const std::string name = backward ? "states of the recurrence (gradient)" : "states of the recurrence";
  if (method_ == recipe::LinearContextMethod::kAllGather) return run_gathered(order, name, fold, use);
  run_chained(order, name, fold, use);
}

Tensor StatePassing::decay_of(const ContextPiece& piece) const {
  const std::vector<int64_t> sizes{kind_.sizes[0], kind_.sizes[1]};
  if (!kind_.log_decay_h.defined()) return at::ones(sizes, kind_.options);
  return kind_.log_decay_h.detach().to(kind_.options).mul(piece.tokens.length).exp().unsqueeze(1).expand(sizes);
}

// One of each step; undefined of those whose state nobody waits for. A row of what travels is a state, with Λ as a further column of values.
std::vector<ContextFold> StatePassing::gather(const std::vector<Step>& steps, const std::string& name, const Fold& fold) const {
  std::vector<int64_t> rows(static_cast<size_t>(group_->size()));
  std::vector<Tensor> own_rows;
  int64_t total = 0;
  for (const Step& step : steps) {
    if (!step.leaves) continue;
    ++rows[static_cast<size_t>(step.piece->rank)];
    ++total;
    if (!own(step)) continue;
    const ContextFold made = fold(*step.piece);
    own_rows.push_back(kind_.decay_by_token ? at::cat({made.state_hkv, made.decay_hk.unsqueeze(2)}, 2) : made.state_hkv);
  }
  std::vector<ContextFold> folds(steps.size());
  if (total == 0) return folds;
  const int64_t heads = kind_.sizes[0], keys = kind_.sizes[1], values = kind_.sizes[2], columns = values + (kind_.decay_by_token ? 1 : 0);
  const Tensor all = at::empty({total, heads, keys, columns}, kind_.options);
  const Tensor mine = own_rows.empty() ? at::empty({0, heads, keys, columns}, kind_.options) : at::stack(own_rows);
  group_->all_gather(mine, all, {.name = name}, rows).wait();
  std::vector<int64_t> next(rows.size());
  for (size_t r = 1; r < rows.size(); ++r) next[r] = next[r - 1] + rows[r - 1];
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].leaves) continue;
    const Tensor row = all.select(0, next[static_cast<size_t>(steps[i].piece->rank)]++);
    folds[i] = {row.narrow(2, 0, values), kind_.decay_by_token ? row.select(2, values) : decay_of(*steps[i].piece)};
  }
  return folds;
}

// Composed by every rank in the order of the row, so that all have the same bits.
void StatePassing::run_gathered(const std::vector<Step>& steps, const std::string& name, const Fold& fold, const Use& use) const {
  const std::vector<ContextFold> folds = gather(steps, name, fold);
  Tensor state;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Tensor entering = steps[i].enters ? state : Tensor();
    if (own(steps[i])) use(*steps[i].piece, entering);
    if (steps[i].leaves) state = composed(folds[i], steps[i].enters && steps[i].piece->one_run(), entering);
  }
}

void StatePassing::run_chained(const std::vector<Step>& steps, const std::string& name, const Fold& fold, const Use& use) const {
  const int64_t keys = kind_.sizes[1];
  const int64_t slices = method_ == recipe::LinearContextMethod::kAllScan ? std::clamp<int64_t>(keys, 1, kScanSlices) : 1;
  const auto cut = [&](int64_t slice) { return layout::even_part(keys, slices, slice); };
  std::vector<ComingState> coming(steps.size());
  std::vector<ContextFold> folds(steps.size());
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!own(steps[i]) || !steps[i].enters || own(steps[i - 1])) continue;
    for (int64_t slice = 0; slice < slices; ++slice) {
      coming[i].slices_hkv.push_back(at::empty({kind_.sizes[0], cut(slice).length, kind_.sizes[2]}, kind_.options));
      coming[i].works.push_back(
          group_->exchange({comm::receive_from(steps[i - 1].piece->rank, coming[i].slices_hkv.back())}, {.name = name}));
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    if (own(steps[i]) && steps[i].leaves) folds[i] = fold(*steps[i].piece);
  }
  std::vector<Work> sent;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!own(steps[i])) continue;
    const bool through = steps[i].enters && steps[i].piece->one_run();
    for (int64_t slice = 0; slice < slices && steps[i].leaves; ++slice) {
      const auto part = [&](const Tensor& x) { return x.narrow(1, cut(slice).begin, cut(slice).length); };
      const Tensor entering = through ? coming[i].slice(static_cast<size_t>(slice)) : Tensor();
      const Tensor leaving = composed({part(folds[i].state_hkv), part(folds[i].decay_hk)}, through, entering).contiguous();
      if (own(steps[i + 1])) {
        coming[i + 1].slices_hkv.push_back(leaving);
        coming[i + 1].works.emplace_back();
      } else {
        sent.push_back(group_->exchange({comm::send_to(steps[i + 1].piece->rank, leaving)}, {.name = name}));
      }
    }
    use(*steps[i].piece, steps[i].enters ? coming[i].whole() : Tensor());
  }
  for (Work& work : sent) work.wait();
}

}  // namespace longhaul::parallel

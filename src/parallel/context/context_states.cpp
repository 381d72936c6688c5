#include "parallel/context/context_states.h"

#include <algorithm>

#include "layout/methods/methods.h"

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

// By itself: what is kept shall not keep what it was a part of.
Tensor apart(const Tensor& x) { return x.defined() && x.storage().nbytes() > x.nbytes() ? x.clone() : x; }

Tensor composed(const ContextFold& fold, bool through, const Tensor& entering) {
  return through ? entering.mul(fold.decay_hk.unsqueeze(2)).add_(fold.state_hkv) : fold.state_hkv;
}

}  // namespace

StatePassing::StatePassing(recipe::LinearContextMethod method, comm::Communicator& group,
                           std::vector<ContextPiece> pieces, StateKind kind)
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

std::string StatePassing::name(bool backward) const {
  return backward ? "states of the recurrence (gradient)" : "states of the recurrence";
}

void StatePassing::run(bool backward, const Fold& fold, const Use& use) const {
  if (method_ == recipe::LinearContextMethod::kAllGather) {
    Gathering gathering = begin_gathering(backward, fold);
    use_before(gathering, use);
    return use_gathered(std::move(gathering), use);
  }
  run_chained(steps(backward), name(backward), fold, use);
}

void StatePassing::run_together(const std::vector<StatePassing>& all, bool backward,
                                const std::function<ContextFold(size_t, const ContextPiece&)>& fold,
                                const std::function<void(size_t, const ContextPiece&, const Tensor&)>& use) {
  const auto fold_of = [&](size_t i) {
    return [&fold, i](const ContextPiece& piece) { return fold(i, piece); };
  };
  const auto use_of = [&](size_t i) {
    return [&use, i](const ContextPiece& piece, const Tensor& state) { use(i, piece, state); };
  };
  std::vector<Gathering> gatherings;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].method_ == recipe::LinearContextMethod::kAllGather) {
      gatherings.push_back(all[i].begin_gathering(backward, fold_of(i)));
    } else {
      all[i].run(backward, fold_of(i), use_of(i));
    }
  }
  for (size_t i = 0; i < gatherings.size(); ++i) all[i].use_before(gatherings[i], use_of(i));
  for (size_t i = 0; i < gatherings.size(); ++i) all[i].use_gathered(std::move(gatherings[i]), use_of(i));
}

Tensor StatePassing::decay_of(const ContextPiece& piece) const {
  const std::vector<int64_t> sizes{kind_.sizes[0], kind_.sizes[1]};
  if (!kind_.log_decay_h.defined()) return at::ones(sizes, kind_.options);
  return kind_.log_decay_h.detach()
      .to(kind_.options)
      .mul(piece.tokens.length)
      .exp()
      .unsqueeze(1)
      .expand(sizes);
}

StatePassing::Gathering StatePassing::begin_gathering(bool backward, const Fold& fold) const {
  Gathering made{.steps = steps(backward), .rows = std::vector<int64_t>(static_cast<size_t>(group_->size()))};
  std::vector<Tensor> own_rows;
  int64_t total = 0;
  for (const Step& step : made.steps) {
    if (!step.leaves) continue;
    ++made.rows[static_cast<size_t>(step.piece->rank)];
    ++total;
    if (!own(step)) continue;
    const ContextFold own_fold = fold(*step.piece);
    own_rows.push_back(kind_.decay_by_token ? at::cat({own_fold.state_hkv, own_fold.decay_hk.unsqueeze(2)}, 2)
                                            : own_fold.state_hkv);
  }
  if (total == 0) return made;
  const int64_t heads = kind_.sizes[0], keys = kind_.sizes[1],
                columns = kind_.sizes[2] + (kind_.decay_by_token ? 1 : 0);
  made.all = at::empty({total, heads, keys, columns}, kind_.options);
  const Tensor mine =
      own_rows.empty() ? at::empty({0, heads, keys, columns}, kind_.options) : at::stack(own_rows);
  made.work = group_->all_gather(mine, made.all, {.name = name(backward)}, made.rows);
  return made;
}

// One of each step; undefined of those whose state nobody waits for.
std::vector<ContextFold> StatePassing::folds_of(const Gathering& gathering) const {
  const std::vector<int64_t>& rows = gathering.rows;
  const int64_t values = kind_.sizes[2];
  std::vector<int64_t> next(rows.size());
  for (size_t r = 1; r < rows.size(); ++r) next[r] = next[r - 1] + rows[r - 1];
  std::vector<ContextFold> folds;
  for (const Step& step : gathering.steps) {
    ContextFold& fold = folds.emplace_back();
    if (!step.leaves) continue;
    const Tensor row = gathering.all.select(0, next[static_cast<size_t>(step.piece->rank)]++);
    fold = {row.narrow(2, 0, values), kind_.decay_by_token ? row.select(2, values) : decay_of(*step.piece)};
  }
  return folds;
}

// This rank's first pieces, as far as nothing enters them: while the states are on their way.
void StatePassing::use_before(Gathering& gathering, const Use& use) const {
  for (; gathering.used < gathering.steps.size(); ++gathering.used) {
    const Step& step = gathering.steps[gathering.used];
    if (!own(step)) continue;
    if (step.enters) return;
    use(*step.piece, Tensor());
  }
}

// The others. Composed by every rank in the order of the row, so that all have the same bits.
void StatePassing::use_gathered(Gathering gathering, const Use& use) const {
  if (gathering.all.defined()) gathering.work.wait();
  if (gathering.used == gathering.steps.size()) return;
  const std::vector<ContextFold> folds = folds_of(gathering);
  const std::vector<Step>& steps = gathering.steps;
  Tensor state;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Tensor entering = steps[i].enters ? state : Tensor();
    if (own(steps[i]) && i >= gathering.used) use(*steps[i].piece, apart(entering));
    if (steps[i].leaves) state = composed(folds[i], steps[i].enters && steps[i].piece->one_run(), entering);
  }
}

void StatePassing::run_chained(const std::vector<Step>& steps, const std::string& name, const Fold& fold,
                               const Use& use) const {
  const int64_t keys = kind_.sizes[1];
  const int64_t slices = method_ == recipe::LinearContextMethod::kAllScan
                             ? std::clamp<int64_t>(keys, 1, layout::kScanSlices)
                             : 1;
  const auto cut = [&](int64_t slice) { return layout::even_part(keys, slices, slice); };
  std::vector<ComingState> coming(steps.size());
  std::vector<ContextFold> folds(steps.size());
  // Receives start one slice ahead, and none before the sends of an earlier piece: over a back end that
  // carries calls out in order (Communicator::in_order), a receive that is started early would hold up the
  // very sends for which the others wait.
  const auto receive_until = [&](size_t i, int64_t end) {
    if (i >= steps.size() || !steps[i].enters || own(steps[i - 1])) return;
    ComingState& state = coming[i];
    for (auto slice = static_cast<int64_t>(state.works.size()); slice < std::min(end, slices); ++slice) {
      state.slices_hkv.push_back(
          at::empty({kind_.sizes[0], cut(slice).length, kind_.sizes[2]}, kind_.options));
      state.works.push_back(group_->exchange(
          {comm::receive_from(steps[i - 1].piece->rank, state.slices_hkv.back())}, {.name = name}));
    }
  };
  const auto next_own = [&](size_t i) {
    while (i < steps.size() && !own(steps[i])) ++i;
    return i;
  };
  receive_until(next_own(0), 1);
  for (size_t i = 0; i < steps.size(); ++i) {
    if (own(steps[i]) && steps[i].leaves) folds[i] = fold(*steps[i].piece);
  }
  std::vector<Work> sent;
  for (size_t i = next_own(0); i < steps.size(); i = next_own(i + 1)) {
    const bool through = steps[i].enters && steps[i].piece->one_run();
    for (int64_t slice = 0; slice < slices && steps[i].leaves; ++slice) {
      const auto part = [&](const Tensor& x) { return x.narrow(1, cut(slice).begin, cut(slice).length); };
      receive_until(i, slice + 2);
      const Tensor entering = through ? coming[i].slice(static_cast<size_t>(slice)) : Tensor();
      const Tensor leaving =
          composed({part(folds[i].state_hkv), part(folds[i].decay_hk)}, through, entering).contiguous();
      if (own(steps[i + 1])) {
        coming[i + 1].slices_hkv.push_back(leaving);
        coming[i + 1].works.emplace_back();
      } else {
        sent.push_back(group_->exchange({comm::send_to(steps[i + 1].piece->rank, leaving)}, {.name = name}));
      }
    }
    receive_until(i, slices);
    receive_until(next_own(i + 1), 1);
    use(*steps[i].piece, steps[i].enters ? coming[i].whole() : Tensor());
  }
  for (Work& work : sent) work.wait();
}

}  // namespace longhaul::parallel

#include "generate/rank_followers.h"

#include <algorithm>

namespace longhaul::generate {

EngineOptions RankFollowers::lead(const RankPass& pass, EngineOptions options) {
  options.row_changed = [this](const RowChange& change) { changes_.push_back(change); };
  options.pass = [this, &pass](std::span<const Continuation> continuations, model::DecoderState& state) {
    tell(continuations);
    return pass.advance(continuations, state);
  };
  return options;
}

void RankFollowers::tell(std::span<const Continuation> continuations) {
  auto told = std::make_shared<Told>();
  told->changes.swap(changes_);
  told->continuations.assign(continuations.begin(), continuations.end());
  {
    const std::lock_guard hold(mutex_);
    for (auto& queue : waiting_) queue.push_back(told);
  }
  has_news_.notify_all();
}

void RankFollowers::end() {
  {
    const std::lock_guard hold(mutex_);
    ended_ = true;
  }
  has_news_.notify_all();
}

std::shared_ptr<const RankFollowers::Told> RankFollowers::next(int64_t follower) {
  auto& queue = waiting_.at(static_cast<size_t>(follower));
  std::unique_lock hold(mutex_);
  has_news_.wait(hold, [&] { return !queue.empty() || ended_; });
  if (queue.empty()) return nullptr;
  auto told = queue.front();
  queue.pop_front();
  return told;
}

void RankFollowers::follow(int64_t follower, const model::Decoder& decoder, const RankPass& pass,
                           bool int8_keys_values) {
  model::DecoderState state = decoder.make_state();
  if (int8_keys_values) state.keep_keys_values_in_int8();
  while (const auto told = next(follower)) {
    for (const auto& [kind, row] : told->changes) {
      switch (kind) {
        case RowChange::Kind::kAdd:
          state.add();
          break;
        case RowChange::Kind::kFork:
          state.fork(row);
          break;
        case RowChange::Kind::kDrop:
          state.drop(row);
          break;
      }
    }
    pass.advance(told->continuations, state);
  }
}

int64_t tokens_that_fit(const model::DecoderState& state, int64_t texts, int64_t bytes, int64_t most) {
  // The tensors of rows grow by doubling.
  const int64_t of_one = bytes / texts - 2 * state.row_bytes(), page = state.page_bytes();
  if (of_one < page) return 0;
  return page == 0 ? most : std::min(most, of_one / page * PrefixCache::kTokens);
}

}  // namespace longhaul::generate

#include "grammar/grammar_cache.h"

#include <algorithm>

namespace longhaul::grammar {

std::shared_ptr<TokenGrammar> GrammarCache::get(const std::string& name,
                                                const std::function<Grammar()>& make) {
  const std::lock_guard hold(mutex_);
  const auto found = std::ranges::find(kept_, name, [](const auto& each) { return each.first; });
  if (found != kept_.end()) {
    const std::shared_ptr<TokenGrammar> grammar = found->second;
    kept_.splice(kept_.begin(), kept_, found);
    if (grammar->states() <= kMostStates) return grammar;
    kept_.pop_front();
  }
  Grammar grammar = make();
  if (!tokens_) tokens_ = std::make_shared<const TokenBytes>(tokenizer_);
  kept_.emplace_front(name, std::make_shared<TokenGrammar>(std::move(grammar), tokens_));
  if (kept_.size() > kKept) kept_.pop_back();
  return kept_.front().second;
}

}  // namespace longhaul::grammar

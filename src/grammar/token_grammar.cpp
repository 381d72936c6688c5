#include "grammar/token_grammar.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace longhaul::grammar {
namespace {

// What the token adds after another token: the first token of a text may lose a space that it has later.
std::vector<std::string> added_bytes(const data::Tokenizer& tokenizer) {
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.vocabulary()));
  const std::vector<int32_t> before = tokenizer.encode("a");
  const size_t begun = tokenizer.decode(before).size();
  std::vector<int32_t> ids = before;
  ids.push_back(0);
  for (int32_t id = 0; id < tokenizer.vocabulary(); ++id) {
    if (!tokenizer.token_of(id) || tokenizer.is_special(id)) continue;
    ids.back() = id;
    const std::string text = tokenizer.decode(ids);
    if (text.size() > begun) bytes[static_cast<size_t>(id)] = text.substr(begun);
  }
  return bytes;
}

}  // namespace

TokenBytes::TokenBytes(const data::Tokenizer& tokenizer) { sort(added_bytes(tokenizer)); }
TokenBytes::TokenBytes(const std::vector<std::string>& bytes_of_ids) { sort(bytes_of_ids); }

void TokenBytes::sort(const std::vector<std::string>& bytes_of_ids) {
  std::vector<int32_t> order;
  for (size_t id = 0; id < bytes_of_ids.size(); ++id) {
    if (!bytes_of_ids[id].empty()) order.push_back(static_cast<int32_t>(id));
  }
  const auto text_of = [&](int32_t id) -> const std::string& {
    return bytes_of_ids[static_cast<size_t>(id)];
  };
  std::ranges::stable_sort(order, {}, text_of);
  place_of_.assign(bytes_of_ids.size(), -1);
  std::string_view before;
  for (const int32_t id : order) {
    const std::string& text = text_of(id);
    const auto common = std::ranges::mismatch(before, text).in2 - text.begin();
    place_of_[static_cast<size_t>(id)] = static_cast<int32_t>(entries_.size());
    entries_.push_back({id, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size()),
                        static_cast<uint32_t>(common)});
    bytes_ += text;
    before = text;
  }
}

std::string_view TokenBytes::of(int64_t id) const {
  const int32_t place = id < ids() ? place_of_[static_cast<size_t>(id)] : -1;
  if (place < 0) return {};
  const Entry& entry = entries_[static_cast<size_t>(place)];
  return std::string_view(bytes_).substr(entry.begin, entry.length);
}

TokenGrammar::TokenGrammar(Grammar grammar, std::shared_ptr<const TokenBytes> tokens)
    : states_(std::move(grammar)), tokens_(std::move(tokens)) {}

// Tokens stand in the order of their bytes, so one walk over all has the states of a common beginning from
// the token before, and skips all tokens that begin with bytes that cannot come.
const TokenGrammar::Mask& TokenGrammar::mask_of(State state) {
  const auto known = masks_.find(state);
  if (known != masks_.end()) return known->second;
  const size_t words = (static_cast<size_t>(tokens_->ids()) + 63) / 64;
  if ((masks_.size() + 1) * words * sizeof(uint64_t) > kKeptBytes) masks_.clear();
  Mask mask(words);
  std::vector<State> path = {state};                        // path[d]: after d bytes
  uint32_t refused = std::numeric_limits<uint32_t>::max();  // bytes of a beginning that cannot come
  for (const TokenBytes::Entry& entry : tokens_->entries()) {
    if (entry.common >= refused) continue;
    refused = std::numeric_limits<uint32_t>::max();
    path.resize(entry.common + 1);
    for (uint32_t i = entry.common; i < entry.length; ++i) {
      const State next = states_.after(path.back(), tokens_->byte(entry, i));
      if (next == kNoState) {
        refused = i + 1;
        break;
      }
      path.push_back(next);
    }
    if (refused > entry.length)
      mask[static_cast<size_t>(entry.id) / 64] |= uint64_t{1} << (static_cast<size_t>(entry.id) % 64);
  }
  return masks_.emplace(state, std::move(mask)).first->second;
}

template <class Logit>
void TokenGrammar::restrict_to(State state, std::span<const int64_t> stop_ids, std::span<Logit> logits_v) {
  constexpr Logit kNever = -std::numeric_limits<Logit>::infinity();
  const std::lock_guard hold(mutex_);
  std::vector<std::pair<size_t, Logit>> ends;
  if (states_.may_end(state)) {
    for (const int64_t id : stop_ids) {
      if (id < std::ssize(logits_v)) ends.emplace_back(id, logits_v[static_cast<size_t>(id)]);
    }
  }
  const Mask& mask = mask_of(state);
  bool any = !ends.empty();
  for (size_t id = 0; id < logits_v.size(); ++id) {
    const bool allowed = id / 64 < mask.size() && (mask[id / 64] >> (id % 64) & 1) != 0;
    any = any || allowed;
    if (!allowed) logits_v[id] = kNever;
  }
  for (const auto& [id, logit] : ends) logits_v[id] = logit;
  if (any) return;
  throw Error({.code = ExitCode::kData,
               .what = "no token can go on with a text of the form that was asked for",
               .expected = "a tokenizer with a token for every byte",
               .found = "none for the next one",
               .hint = "ask for another form"});
}

template void TokenGrammar::restrict_to(State, std::span<const int64_t>, std::span<float>);
template void TokenGrammar::restrict_to(State, std::span<const int64_t>, std::span<double>);

State TokenGrammar::after(State state, int64_t id) {
  const std::lock_guard hold(mutex_);
  for (const char byte : tokens_->of(id)) {
    state = states_.after(state, static_cast<unsigned char>(byte));
    LONGHAUL_ASSERT(state != kNoState, "token {} was not allowed", id);
  }
  return state;
}

bool TokenGrammar::must_end(State state) const {
  const std::lock_guard hold(mutex_);
  return states_.must_end(state);
}

size_t TokenGrammar::states() const {
  const std::lock_guard hold(mutex_);
  return states_.count();
}

}  // namespace longhaul::grammar

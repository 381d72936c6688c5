// TokenGrammar: holds a text to a grammar while it is drawn token by token: which tokens may come next, by
// their bytes. Thread-safe: the sequences of a pass ask at once, and many requests may share one, so that
// what one has found the others need not find again.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "data/tokenizer/tokenizer.h"
#include "grammar/grammar_states.h"

namespace longhaul::grammar {

// The bytes that each token adds to a text that has begun, in the order of the bytes. Special tokens and ids
// without a token add none, so no grammar lets them be drawn. Constant; 10 bytes a token beside their texts.
class TokenBytes {
 public:
  explicit TokenBytes(const data::Tokenizer& tokenizer);
  explicit TokenBytes(const std::vector<std::string>& bytes_of_ids);  // empty: adds none

  struct Entry {
    int32_t id = 0;
    uint32_t begin = 0, length = 0;
    uint32_t common = 0;  // bytes at its beginning that are those of the entry before
  };
  const std::vector<Entry>& entries() const { return entries_; }
  unsigned char byte(const Entry& entry, uint32_t index) const {
    return static_cast<unsigned char>(bytes_[entry.begin + index]);
  }
  std::string_view of(int64_t id) const;  // empty: none
  int64_t ids() const { return static_cast<int64_t>(place_of_.size()); }

 private:
  void sort(const std::vector<std::string>& bytes_of_ids);
  std::string bytes_;
  std::vector<Entry> entries_;
  std::vector<int32_t> place_of_;  // of each id in entries_; −1: none
};

class TokenGrammar {
 public:
  TokenGrammar(Grammar grammar, std::shared_ptr<const TokenBytes> tokens);

  State start() const { return 0; }
  // Leaves the logits of the tokens that may come next, and makes the others −∞. A stop id may come where the
  // text may end. kData: no token can go on, and none can end it.
  template <class Logit>
  void restrict_to(State state, std::span<const int64_t> stop_ids, std::span<Logit> logits_v);
  // After a token that restrict_to has left.
  State after(State state, int64_t id);
  bool must_end(State state) const;
  size_t states() const;

 private:
  using Mask = std::vector<uint64_t>;                     // a bit for each id
  static constexpr size_t kKeptBytes = size_t{64} << 20;  // of masks

  const Mask& mask_of(State state);

  mutable std::mutex mutex_;
  GrammarStates states_;
  std::shared_ptr<const TokenBytes> tokens_;
  std::unordered_map<State, Mask> masks_;
};

}  // namespace longhaul::grammar

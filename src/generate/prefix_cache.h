// PrefixCache: keeps prefixes of prompts that were read, so that a prompt with the same prefix continues
// from there (docs/sources/minimax-01.md §10). The length of a prefix is a multiple of kTokens, a page,
// and of a long prompt the last multiple of kStep is kept as well, so that the next turn of a conversation
// reads little of it again. For each prefix a sequence of the decoder's state is kept: a copy of its
// recurrent states, and its pages of keys and values, which are shared and never copied. A whole prompt
// can be kept too, of any length, with the logits after it: the same prompt again needs no pass at all.
// Another prompt does not continue there, but at the last step before: recurrences are summed in blocks
// from a step's beginning on (linear_recurrence/op.h, kContinuedTokens), so from any other token on the
// sums would have other bits.
//
// Prefixes form a tree, in which each page has a parent one page shorter; ends that are no page, and whole
// prompts, are leaves. When memory is needed, leaves of the tree that have been unused for the longest
// time are dropped. The tensors of a row grow by doubling (model/state.h), so each row is counted twice:
// the state never holds more than `bytes` for what is kept here. The state must outlive the cache. Not
// thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/paged/page_pool.h"
#include "model/state.h"

namespace longhaul::recipe {
struct ModelConfig;
}

namespace longhaul::generate {

// Tokens from which on a part of a prompt has the bits that it has within the whole one. Recurrences walk
// fewer token by token (linear_recurrence/cpu), and delta rules fewer than 64 (kernels/delta_rule).
int64_t least_read_at_once(const recipe::ModelConfig& config);

class PrefixCache {
 public:
  static constexpr int64_t kTokens = kernels::PagePool::kTokens;
  // A prompt that is read in parts which end at multiples of this has the bits that it has when it is read at
  // once.
  static constexpr int64_t kStep = 64;
  // Prompts from this length on are kept to their last step: one pass more for the first of them, which reads
  // all weights once more, and up to 255 tokens less for the next.
  static constexpr int64_t kLong = 1024;

  // least: tokens of the shortest part of a prompt that is read in several parts (least_read_at_once).
  PrefixCache(model::DecoderState& state, int64_t bytes, int64_t least);

  bool keeps() const { return bytes_of_one_ > 0 && bytes_of_one_ <= limit_; }  // at least one prefix has room
  int64_t most() const { return keeps() ? limit_ / bytes_of_one_ : 0; }        // prefixes that have room
  int64_t least() const { return least_; }
  // A prompt of so many tokens is read in parts, so that its prefixes can be kept: returns the end of the
  // part that follows `read` tokens.
  int64_t next_stop(int64_t read, int64_t tokens) const;
  struct Begun {
    int64_t row = 0;
    Tensor logits_v;  // defined: the row has read the whole prompt, and these are the logits after it
  };
  // Makes a new sequence of the state that has read the longest kept prefix of these tokens that leaves
  // `least` or more to read; or nothing; or all of them, where this prompt was kept and may be `whole`. What
  // was read with one adapter (Continuation::adapter) is no prefix for another.
  Begun begin(std::span<const int64_t> ids, bool whole = true, int64_t adapter = 0);
  // Keeps the prefix that `row` has read: these tokens, a multiple of kStep.
  void keep(std::span<const int64_t> ids, int64_t row, int64_t adapter = 0);
  // Keeps the whole prompt that `row` has read, with the logits after it.
  void keep_prompt(std::span<const int64_t> ids, int64_t row, const Tensor& logits_v, int64_t adapter = 0);
  // Drops the leaf that was unused for longest; false: nothing is kept.
  bool drop_least_used();

  struct Counts {
    int64_t prompts = 0, continued = 0;  // prompts, and those of them that found a prefix
    // Tokens of the prompts, and those of them in prefixes that were found.
    int64_t tokens = 0, tokens_not_read = 0;
    int64_t dropped = 0;  // prefixes that were dropped to make room
  };
  const Counts& counts() const { return counts_; }
  int64_t kept() const { return kept_; }  // prefixes, whole prompts among them
  int64_t bytes() const { return bytes_; }

 private:
  struct Node {
    int64_t row = -1;  // row of the state; the root has none
    int64_t last_used = 0, bytes = 0;
    Tensor logits_v;  // of a whole prompt
    Node* above = nullptr;
    // by the tokens of one more page, or of a prompt's end
    std::map<std::vector<int64_t>, std::unique_ptr<Node>> longer;
  };
  int64_t pages_before_end(std::span<const int64_t> ids) const;  // after which enough is left to be read
  // the longest prefix of at most that many pages
  Node* found(std::span<const int64_t> ids, int64_t pages, int64_t adapter);
  Node* with_steps(Node* node, std::span<const int64_t> ids) const;  // what is kept of the next page, if any
  int64_t tokens_of(const Node& node) const { return node.row < 0 ? 0 : state_.tokens(node.row); }
  void add(Node& above, std::span<const int64_t> rest, int64_t row, int64_t bytes);
  void drop(Node& end);
  bool make_room(int64_t bytes, const Node* but);
  Node* least_used_end(const Node* but);
  static Node* least_used_end(Node& node, const Node* but);

  model::DecoderState& state_;
  int64_t bytes_of_one_, limit_, least_, kept_ = 0, bytes_ = 0, clock_ = 0;
  Counts counts_;
  std::map<int64_t, Node> roots_;  // by adapter
};

}  // namespace longhaul::generate

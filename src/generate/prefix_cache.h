// PrefixCache: keeps prefixes of prompts that were read, so that a prompt with the same prefix continues
// from there (docs/sources/minimax-01.md §10). The length of a prefix is a multiple of kTokens. For each
// prefix a sequence of the decoder's state is kept: a copy of its recurrent states, and its pages of keys
// and values, which are shared and never copied. A whole prompt can be kept too, of any length, with the
// logits after it: the same prompt again needs no pass at all. Another prompt does not continue there, but at
// the last page before: recurrences are summed in blocks from a page's beginning on, so from any other token
// on the sums would have other bits.
//
// Prefixes form a tree, in which each is one page longer than its parent, and whole prompts are leaves. When
// memory is needed, leaves of the tree that have been unused for the longest time are dropped. The tensors of
// a row grow by doubling (model/state.h), so each row is counted twice: the state never holds more than
// `bytes` for what is kept here. The state must outlive the cache. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/paged/page_pool.h"
#include "model/state.h"

namespace longhaul::generate {

class PrefixCache {
 public:
  static constexpr int64_t kTokens = kernels::PagePool::kTokens;
  // No part of a prompt that is read in several parts is shorter than this: a delta rule sums fewer tokens
  // in another way (kernels/delta_rule), with different bits.
  static constexpr int64_t kLeast = 64;

  PrefixCache(model::DecoderState& state, int64_t bytes);

  bool keeps() const { return bytes_of_one_ > 0 && bytes_of_one_ <= limit_; }  // at least one prefix has room
  int64_t most() const { return keeps() ? limit_ / bytes_of_one_ : 0; }        // prefixes that have room
  struct Begun {
    int64_t row = 0;
    Tensor logits_v;  // defined: the row has read the whole prompt, and these are the logits after it
  };
  // Makes a new sequence of the state that has read the longest kept prefix of these tokens that leaves at
  // least kLeast to read; or nothing; or all of them, where this prompt was kept.
  Begun begin(std::span<const int64_t> ids);
  // Keeps the prefix that `row` has read: these tokens, a multiple of kTokens.
  void keep(std::span<const int64_t> ids, int64_t row);
  // Keeps the whole prompt that `row` has read, with the logits after it.
  void keep_prompt(std::span<const int64_t> ids, int64_t row, const Tensor& logits_v);
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
  Node* found(std::span<const int64_t> ids, int64_t pages);  // the longest prefix of at most that many pages
  void add(Node& above, std::span<const int64_t> rest, int64_t row, int64_t bytes);
  void drop(Node& end);
  bool make_room(int64_t bytes, const Node* but);
  static Node* least_used_end(Node& node, const Node* but);

  model::DecoderState& state_;
  int64_t bytes_of_one_, limit_, kept_ = 0, bytes_ = 0, clock_ = 0;
  Counts counts_;
  Node root_;
};

}  // namespace longhaul::generate

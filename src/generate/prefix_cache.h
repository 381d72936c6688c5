// PrefixCache: keeps prefixes of prompts that were read, so that a prompt with the same prefix continues
// from there (docs/sources/minimax-01.md §10). The length of a prefix is a multiple of kTokens. For each
// prefix a sequence of the decoder's state is kept: a copy of its recurrent states, and its pages of keys
// and values, which are shared and never copied.
//
// Prefixes form a tree, in which each is one page longer than its parent. When memory is needed, leaves of
// the tree that have been unused for the longest time are dropped. The tensors of a row grow by doubling
// (model/state.h), so each row is counted twice: the state never holds more than `bytes` for what is kept
// here. The state must outlive the cache. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "kernels/attention/page_pool.h"
#include "model/state.h"

namespace longhaul::generate {

class PrefixCache {
 public:
  static constexpr int64_t kTokens = kernels::PagePool::kTokens;
  // No part of a prompt that is read in several parts is shorter than this: a delta rule sums fewer tokens
  // in another way (kernels/delta_rule), with different bits.
  static constexpr int64_t kLeast = 64;

  PrefixCache(model::DecoderState& state, int64_t bytes);

  bool keeps() const { return most_ > 0; }  // at least one prefix has room
  // Makes a new sequence of the state that has read the longest kept prefix of these tokens that leaves at
  // least kLeast to read; or nothing.
  int64_t begin(std::span<const int64_t> ids);
  // Keeps the prefix that `row` has read: these tokens, a multiple of kTokens.
  void keep(std::span<const int64_t> ids, int64_t row);

  struct Counts {
    int64_t prompts = 0, continued = 0;  // prompts, and those of them that found a prefix
    // Tokens of the prompts, and those of them in prefixes that were found.
    int64_t tokens = 0, tokens_not_read = 0;
    int64_t dropped = 0;  // prefixes that were dropped to make room
  };
  const Counts& counts() const { return counts_; }
  int64_t kept() const { return kept_; }  // prefixes
  int64_t bytes() const { return kept_ * bytes_of_one_; }

 private:
  struct Node {
    int64_t row = -1;  // row of the state; the root has none
    int64_t last_used = 0;
    Node* above = nullptr;
    std::map<std::vector<int64_t>, std::unique_ptr<Node>> longer;  // by the tokens of one more page
  };
  Node* found(std::span<const int64_t> ids, int64_t pages);  // the longest prefix of at most that many pages
  bool make_room(const Node& but);
  static Node* least_used_end(Node& node, const Node& but);

  model::DecoderState& state_;
  int64_t bytes_of_one_, most_, kept_ = 0, clock_ = 0;
  Counts counts_;
  Node root_;
};

}  // namespace longhaul::generate

// PrefixCache: the beginnings of prompts that were read, so that a prompt that begins like an earlier one goes on from there (docs/sources/minimax-01.md §10).
// A beginning is a multiple of kTokens tokens; what is kept of it is a sequence of the decoder's state: a copy of its recurrences, and its pages of
// keys and values, which are shared and never copied.
//
// Beginnings form a tree, each one page longer than the one above it; the longest ones that were not used for longest make room for others.
// A row's tensors grow by doubling (model/state.h), so each counts twice: the state never holds more than `bytes` for what is kept here.
// The state must outlive it. Not thread-safe.
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
  // No part of a prompt that is read in several is shorter: a delta rule sums fewer tokens in another way (kernels/delta_rule), whose bits differ.
  static constexpr int64_t kLeast = 64;

  PrefixCache(model::DecoderState& state, int64_t bytes);

  bool keeps() const { return most_ > 0; }  // at least one beginning has room
  // A new sequence of the state that has read the longest beginning of these tokens that is kept and leaves kLeast to read; or nothing.
  int64_t begin(std::span<const int64_t> ids);
  // `row` has read these tokens, a multiple of kTokens.
  void keep(std::span<const int64_t> ids, int64_t row);

  struct Counts {
    int64_t prompts = 0, continued = 0;       // begun, and of them those that found a beginning
    int64_t tokens = 0, tokens_not_read = 0;  // of the prompts, and of them those of beginnings that were found
    int64_t dropped = 0;                      // beginnings that made room
  };
  const Counts& counts() const { return counts_; }
  int64_t kept() const { return kept_; }  // beginnings
  int64_t bytes() const { return kept_ * bytes_of_one_; }

 private:
  struct Node {
    int64_t row = -1;  // of the state; the root has none
    int64_t last_used = 0;
    Node* above = nullptr;
    std::map<std::vector<int64_t>, std::unique_ptr<Node>> longer;  // by the tokens of one more page
  };
  Node* found(std::span<const int64_t> ids, int64_t pages);  // the longest beginning of so many pages at most
  bool make_room(const Node& but);
  static Node* least_used_end(Node& node, const Node& but);

  model::DecoderState& state_;
  int64_t bytes_of_one_, most_, kept_ = 0, clock_ = 0;
  Counts counts_;
  Node root_;
};

}  // namespace longhaul::generate

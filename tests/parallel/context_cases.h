// Rows, ranks and a counting communicator, shared by the tests of context parallelism.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "comm/threads/run_ranks.h"
#include "layout/sequence_view.h"
#include "parallel/in_order.h"
#include "support/tensors.h"
#include "tensor/to_tensor.h"

namespace longhaul::parallel {

using layout::ContextSplit;

// Of 23 tokens, cut contiguously by 2, 3 and 4 ranks at 12; 8, 16; 6, 12, 18: of these the last piece alone
// is shorter. Of 22, at 11; 8, 15; 6, 12, 17: so are pieces whose states go on.
inline const std::vector<std::vector<int64_t>> kPackings = {
    {23},                      // spans all ranks
    {3, 17, 3},                // begins and ends within ranks, spans what lies between
    {6, 4, 2, 11},             // all documents of the second of four ranks are its own
    {5, 1, 7, 5, 5},           // one before a cut, at it and one behind it
    {1, 1, 5, 1, 9, 1, 4, 1},  // single tokens, two of them side by side
    {0, 8, 0, 8, 7, 0},        // at every cut of three; empty documents
    {22},
    {4, 16, 2},
};
inline const std::vector<std::vector<int64_t>> kTinyPackings = {{3}, {1, 1}, {2, 1}};  // ranks without tokens

inline std::string text_of(const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
  return "documents " + ::testing::PrintToString(lengths) + ", " + std::to_string(ranks) + " ranks, " +
         std::string(names_of(split)[static_cast<size_t>(split)]);
}

inline void for_each_case(const std::vector<int64_t>& of_ranks,
                          const std::function<void(const std::vector<int64_t>&, int64_t, ContextSplit)>& f) {
  std::vector<std::vector<int64_t>> all = kPackings;
  all.insert(all.end(), kTinyPackings.begin(), kTinyPackings.end());
  for (const auto& lengths : all) {
    for (const int64_t ranks : of_ranks) {
      for (const ContextSplit split : {ContextSplit::kContiguous, ContextSplit::kZigzag})
        f(lengths, ranks, split);
    }
  }
}

// Whether on_context_ranks() carries the calls of each rank out in order, as NCCL does (in_order.h).
inline bool& calls_in_order() {
  static bool in_order = false;
  return in_order;
}
struct CallsInOrder {
  CallsInOrder() { calls_in_order() = true; }
  ~CallsInOrder() { calls_in_order() = false; }
};

// Counts the bytes that this rank sends to others, and hands calls on.
class Counting final : public comm::Communicator {
 public:
  explicit Counting(comm::Communicator& inner)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner) {}
  void abort(const std::string& reason) override { inner_.abort(reason); }
  comm::Work start(comm::Call call) override {
    int64_t sent = 0;
    for (const comm::Transfer& each : call.transfers) {
      if (each.direction == comm::Direction::kSend) sent += static_cast<int64_t>(each.tensor.nbytes());
    }
    if (call.kind == comm::CallKind::kAllGather)
      sent += static_cast<int64_t>(call.input.nbytes()) * (size() - 1);
    if (call.kind == comm::CallKind::kAllToAll && call.input.size(0) > 0) {
      const int64_t row = static_cast<int64_t>(call.input.nbytes()) / call.input.size(0);
      sent += (call.input.size(0) - call.input_rows[static_cast<size_t>(rank())]) * row;
    }
    bytes += sent;
    messages += sent > 0 ? 1 : 0;
    return inner_.start(std::move(call));
  }
  std::vector<std::unique_ptr<Communicator>> start_split(comm::Call call) override {
    return inner_.start_split(std::move(call));
  }

  int64_t bytes = 0, messages = 0;

 private:
  comm::Communicator& inner_;
};

struct Sent {
  int64_t forward = 0, backward = 0;  // bytes
  int64_t messages = 0;               // forward
};

// Inputs of the whole row, [tokens, …] where `by_token`, else every rank has them whole.
struct WholeInputs {
  std::vector<Tensor> of;
  std::vector<bool> by_token;
};

struct WholeResult {
  Tensor o;
  std::vector<Tensor> gradients;
  std::vector<Sent> sent;  // by rank
};

using OnRank =
    std::function<Tensor(comm::Communicator&, const std::vector<Tensor>&, const layout::SequenceView&)>;

// The function on every rank with its tokens of the inputs; results and gradients put together again.
inline WholeResult on_context_ranks(const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split,
                                    const WholeInputs& inputs, const Tensor& d_o, const OnRank& f) {
  const testing::PoisonFreshMemory poison;
  const layout::SequenceLayout row = layout::make_packed(lengths);
  std::vector<std::vector<Tensor>> gradients(static_cast<size_t>(ranks));
  std::vector<Tensor> o(static_cast<size_t>(ranks));
  WholeResult result{.sent = std::vector<Sent>(static_cast<size_t>(ranks))};
  const auto body = [&](comm::Communicator& world) {
    const auto rank = static_cast<size_t>(world.rank());
    Counting group(world);
    const layout::SequenceView view(row,
                                    {.context_ranks = ranks, .context_rank = world.rank(), .split = split});
    const Tensor index = to_tensor(view.token_index);
    std::vector<Tensor> own;
    for (size_t i = 0; i < inputs.of.size(); ++i) {
      const Tensor x = !inputs.of[i].defined() ? Tensor()
                       : inputs.by_token[i]    ? inputs.of[i].index_select(0, index)
                                               : inputs.of[i].clone();
      own.push_back(x.defined() ? x.requires_grad_(true) : x);
    }
    const Tensor y = f(group, own, view);
    o[rank] = y.detach();
    result.sent[rank] = {.forward = group.bytes, .messages = group.messages};
    y.backward(d_o.index_select(0, index));
    result.sent[rank].backward = group.bytes - result.sent[rank].forward;
    for (const Tensor& x : own) gradients[rank].push_back(x.defined() ? x.grad() : Tensor());
  };
  comm::run_ranks(ranks,
                  [&](comm::Communicator& world) {
                    if (!calls_in_order()) return body(world);
                    longhaul::testing::InOrder ordered(world);
                    body(ordered);
                  },
                  {.timeout = std::chrono::seconds(60)});
  const Tensor to_row =
      to_tensor(layout::inverse_permutation(layout::split_permutation(row.tokens(), ranks, split)));
  result.o = at::cat(o).index_select(0, to_row);
  for (size_t i = 0; i < inputs.of.size(); ++i) {
    std::vector<Tensor> parts;
    for (const auto& of_rank : gradients) {
      if (of_rank[i].defined()) parts.push_back(of_rank[i]);
    }
    Tensor whole;
    if (inputs.of[i].defined())
      whole = inputs.by_token[i] ? at::cat(parts).index_select(0, to_row) : at::stack(parts).sum(0);
    result.gradients.push_back(whole);
  }
  return result;
}

// Against the same function of the row in one piece.
inline void expect_the_whole(const WholeResult& found, const WholeInputs& inputs, const Tensor& d_o,
                             double bound, const std::function<Tensor(const std::vector<Tensor>&)>& reference,
                             const std::string& what) {
  std::vector<Tensor> leaves;
  for (const Tensor& x : inputs.of)
    leaves.push_back(x.defined() ? x.detach().clone().requires_grad_(true) : x);
  const Tensor o = reference(leaves);
  o.backward(d_o);
  EXPECT_LE(testing::relative_error(found.o, o), bound) << "o: " << what;
  for (size_t i = 0; i < leaves.size(); ++i) {
    if (!leaves[i].defined()) continue;
    // A gradient that is all zeros (a single token's, of its own key) is a difference of terms as large as
    // d_o.
    const double size =
        std::max(leaves[i].grad().abs().max().item<double>(), 0.1 * d_o.abs().max().item<double>());
    EXPECT_LE((found.gradients[i] - leaves[i].grad()).abs().max().item<double>(), bound * size)
        << "gradient " << i << ": " << what;
  }
}

}  // namespace longhaul::parallel

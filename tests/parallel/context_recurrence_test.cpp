// The recurrence over context ranks, by every method, is the plain loop over the whole row, forward and
// backward; and what it sends does not depend on how long the row is
// (docs/sources/long-context-parallelism.md A8, A11). ctest: timeout=120
#include "parallel/context/context_recurrence.h"

#include "kernels/linear_recurrence/raw.h"
#include "layout/methods/methods.h"
#include "parallel/context/context_pieces.h"
#include "parallel/context_cases.h"

namespace longhaul::parallel {
namespace {

using kernels::LinearRecurrenceOptions;
using kernels::RecurrenceGate;
using longhaul::testing::random_tensor;
using recipe::LinearContextMethod;

// 2, 3 and 4 ranks divide the heads.
constexpr int64_t kHeads = 12, kKey = 5, kValue = 3;
constexpr LinearContextMethod kStateMethods[] = {LinearContextMethod::kRing, LinearContextMethod::kAllGather,
                                                 LinearContextMethod::kAllScan};
constexpr LinearContextMethod kLinearMethods[] = {LinearContextMethod::kRing, LinearContextMethod::kAllGather,
                                                  LinearContextMethod::kAllScan,
                                                  LinearContextMethod::kUlysses};

enum class Decay { kNone, kSlopes, kGone, kHeadToken, kKeyToken, kGate };

// q, k, v, log_decay (or logits), γ.
WholeInputs inputs_of(Decay decay, int64_t tokens) {
  WholeInputs in{{random_tensor({tokens, kHeads, kKey}, 1), random_tensor({tokens, kHeads, kKey}, 2),
                  random_tensor({tokens, kHeads, kValue}, 3), Tensor(), Tensor()},
                 {true, true, true, true, false}};
  if (decay == Decay::kSlopes || decay == Decay::kGone) {
    in.of[3] = decay == Decay::kGone ? at::tensor({-300.0, -0.004}, at::kDouble).repeat(kHeads / 2)
                                     : at::tensor({-0.84, 0.0, -0.004}, at::kDouble).repeat(kHeads / 3);
    in.by_token[3] = false;
  }
  if (decay == Decay::kHeadToken) in.of[3] = random_tensor({tokens, kHeads}, 4).abs().neg();
  if (decay == Decay::kKeyToken) in.of[3] = random_tensor({tokens, kHeads, kKey}, 4).abs().neg();
  if (decay == Decay::kGate) {
    in.of[1] = Tensor();
    in.of[3] = random_tensor({tokens, kHeads, kKey}, 4);
    in.of[4] = random_tensor({kHeads, kKey}, 5).sigmoid().mul(0.9);
  }
  return in;
}

LinearRecurrenceOptions options_of(Decay decay, const Tensor& bound) {
  LinearRecurrenceOptions options{.scale = 0.5};
  if (decay != Decay::kGate) return options;
  options.tied_keys = true;
  options.gate = {.kind = RecurrenceGate::Kind::kLowerBounded, .lower_bound_hk = bound};
  return options;
}

WholeResult found(LinearContextMethod method, Decay decay, const std::vector<int64_t>& lengths, int64_t ranks,
                  ContextSplit split, const WholeInputs& in, const Tensor& d_o) {
  return on_context_ranks(
      lengths, ranks, split, in, d_o,
      [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
        return context_recurrence(method, group, own[0], own[1], own[2], own[3], view,
                                  options_of(decay, own[4]));
      });
}

void expect_every_case(Decay decay, const std::vector<int64_t>& of_ranks) {
  for_each_case(of_ranks, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
    const layout::SequenceLayout row = layout::make_packed(lengths);
    const WholeInputs in = inputs_of(decay, row.tokens());
    const Tensor d_o = random_tensor({row.tokens(), kHeads, kValue}, 9);
    for (const LinearContextMethod method : kLinearMethods) {
      expect_the_whole(
          found(method, decay, lengths, ranks, split, in, d_o), in, d_o, 1e-12,
          [&](const std::vector<Tensor>& x) {
            return kernels::linear_recurrence_reference(
                       x[0], x[1], x[2], x[3], {}, to_tensor(row.document_offsets), options_of(decay, x[4]))
                .o_thd;
          },
          text_of(lengths, ranks, split) + ", " + std::string(names_of(method)[static_cast<size_t>(method)]));
    }
  });
}

TEST(ContextRecurrence, OverCallsInOrder) {
  const CallsInOrder as_nccl;
  expect_every_case(Decay::kKeyToken, {2, 3, 4});
}
TEST(ContextRecurrence, WithoutDecay) { expect_every_case(Decay::kNone, {3}); }
TEST(ContextRecurrence, SlopesOfHeads) { expect_every_case(Decay::kSlopes, {2, 3, 4}); }
TEST(ContextRecurrence, ADecayThatLeavesNothing) { expect_every_case(Decay::kGone, {4}); }
TEST(ContextRecurrence, ADecayOfEachToken) { expect_every_case(Decay::kHeadToken, {3}); }
TEST(ContextRecurrence, ADecayOfEachChannel) { expect_every_case(Decay::kKeyToken, {2, 3, 4}); }
TEST(ContextRecurrence, AGateWithTiedKeysAndItsBound) { expect_every_case(Decay::kGate, {2, 3, 4}); }

// All ranks compose in the same order, so the methods differ by nothing where the row is contiguous and
// slices do not matter.
TEST(ContextRecurrence, RingAndScanHaveTheSameBits) {
  const std::vector<int64_t> lengths{3, 17, 3};
  const WholeInputs in = inputs_of(Decay::kKeyToken, 23);
  const Tensor d_o = random_tensor({23, kHeads, kValue}, 9);
  const auto by = [&](LinearContextMethod method) {
    return found(method, Decay::kKeyToken, lengths, 4, ContextSplit::kContiguous, in, d_o);
  };
  const WholeResult ring = by(LinearContextMethod::kRing), scan = by(LinearContextMethod::kAllScan);
  EXPECT_TRUE(ring.o.equal(scan.o));
  for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(ring.gradients[i].equal(scan.gradients[i])) << i;
}

// Of one document. A rank whose state nobody waits for sends none: the last one forward, the first one
// backward.
TEST(ContextRecurrence, MessagesDoNotGrowWithTheRow) {
  constexpr int64_t kState = kHeads * kKey * kValue * 8, kDecayColumn = kHeads * kKey * 8;
  for (const int64_t tokens : {24, 240}) {
    for (const int64_t ranks : {2, 3, 4}) {
      for (const LinearContextMethod method : kStateMethods) {
        for (const Decay decay : {Decay::kSlopes, Decay::kKeyToken}) {
          const bool gathered = method == LinearContextMethod::kAllGather;
          const int64_t one =
              !gathered ? kState : (ranks - 1) * (kState + (decay == Decay::kKeyToken ? kDecayColumn : 0));
          const Tensor d_o = random_tensor({tokens, kHeads, kValue}, 9);
          const WholeResult result =
              found(method, decay, {tokens}, ranks, ContextSplit::kContiguous, inputs_of(decay, tokens), d_o);
          for (int64_t r = 0; r < ranks; ++r) {
            const Sent& sent = result.sent[static_cast<size_t>(r)];
            EXPECT_EQ(sent.forward, r + 1 < ranks ? one : 0)
                << tokens << " tokens, rank " << r << " of " << ranks;
            EXPECT_EQ(sent.backward, r > 0 ? one : 0) << tokens << " tokens, rank " << r << " of " << ranks;
            const int64_t messages = gathered                                  ? kGatheredHalves
                                     : method == LinearContextMethod::kAllScan ? layout::kScanSlices
                                                                               : 1;
            EXPECT_EQ(sent.messages, r + 1 == ranks ? 0 : messages);
          }
        }
      }
    }
  }
}

TEST(ContextRecurrence, ZigzagSendsTwoStates) {
  constexpr int64_t kState = kHeads * kKey * kValue * 8;
  const Tensor d_o = random_tensor({32, kHeads, kValue}, 9);
  const auto sent = [&](LinearContextMethod method, int64_t rank) {
    return found(method, Decay::kSlopes, {32}, 4, ContextSplit::kZigzag, inputs_of(Decay::kSlopes, 32), d_o)
        .sent[static_cast<size_t>(rank)]
        .forward;
  };
  EXPECT_EQ(sent(LinearContextMethod::kAllGather, 1), 2 * 3 * kState);
  EXPECT_EQ(sent(LinearContextMethod::kAllGather, 0), 3 * kState) << "its second piece ends the row";
  EXPECT_EQ(sent(LinearContextMethod::kRing, 1), 2 * kState);
  EXPECT_EQ(sent(LinearContextMethod::kRing, 3), kState) << "its two pieces are neighbours";
}

// Queries, keys, values and decays of tokens go, results come, and their gradients go the other way; decays
// of heads are everywhere.
TEST(ContextRecurrence, HeadsForTokensCostWhatTheRowHas) {
  for (const int64_t tokens : {24, 240}) {
    for (const int64_t ranks : {2, 3, 4}) {
      for (const Decay decay : {Decay::kSlopes, Decay::kHeadToken, Decay::kKeyToken}) {
        const int64_t decays = decay == Decay::kSlopes      ? 0
                               : decay == Decay::kHeadToken ? 1
                                                            : kKey,
                      row = kHeads * (2 * kKey + 2 * kValue + decays) * 8;
        const Tensor d_o = random_tensor({tokens, kHeads, kValue}, 9);
        const WholeResult result = found(LinearContextMethod::kUlysses, decay, {5, tokens - 5}, ranks,
                                         ContextSplit::kZigzag, inputs_of(decay, tokens), d_o);
        for (const Sent& sent : result.sent) {
          EXPECT_EQ(sent.forward, tokens / ranks * row / ranks * (ranks - 1)) << tokens << " over " << ranks;
          EXPECT_EQ(sent.backward, sent.forward);
          EXPECT_EQ(sent.messages, decays > 0 ? 5 : 4);
        }
      }
    }
  }
}

// The bits of one process, for no sum is cut; and so whatever the documents are.
TEST(ContextRecurrence, HeadsForTokensGiveTheBitsOfOneProcess) {
  for (const ScalarType type : {at::kDouble, at::kFloat}) {
    for (const Decay decay : {Decay::kSlopes, Decay::kKeyToken}) {
      WholeInputs in = inputs_of(decay, 23);
      for (Tensor& x : in.of) x = x.defined() ? x.to(type) : x;
      const Tensor d_o = random_tensor({23, kHeads, kValue}, 9, type);
      const WholeResult ranks =
          found(LinearContextMethod::kUlysses, decay, {3, 17, 3}, 4, ContextSplit::kZigzag, in, d_o);
      std::vector<Tensor> leaves;
      for (const Tensor& x : in.of)
        leaves.push_back(x.defined() ? x.detach().clone().requires_grad_(true) : x);
      const Tensor o =
          kernels::linear_recurrence(leaves[0], leaves[1], leaves[2], leaves[3], {},
                                     at::tensor({0, 3, 20, 23}, at::kLong), options_of(decay, leaves[4]))
              .o_thd;
      o.backward(d_o);
      EXPECT_TRUE(ranks.o.equal(o));
      for (size_t i = 0; i < 4; ++i) EXPECT_TRUE(ranks.gradients[i].equal(leaves[i].grad())) << i;
    }
  }
}

// ring = all-gather = all-scan = ulysses: fp64 to the rounding of its sums, fp32 to 1e-6 of the largest.
TEST(ContextRecurrence, AllMethodsGiveTheSame) {
  for (const auto& [type, bound] : {std::pair(at::kDouble, 1e-13), std::pair(at::kFloat, 1e-6)}) {
    for (const Decay decay : {Decay::kSlopes, Decay::kHeadToken, Decay::kKeyToken}) {
      for (const auto split : {ContextSplit::kContiguous, ContextSplit::kZigzag}) {
        WholeInputs in = inputs_of(decay, 61);
        for (Tensor& x : in.of) x = x.defined() ? x.to(type) : x;
        const Tensor d_o = random_tensor({61, kHeads, kValue}, 9, type);
        const auto by = [&](LinearContextMethod method) {
          return found(method, decay, {7, 40, 14}, 4, split, in, d_o);
        };
        const WholeResult ring = by(LinearContextMethod::kRing);
        for (const LinearContextMethod method : kLinearMethods) {
          const WholeResult other = by(method);
          EXPECT_LE(longhaul::testing::relative_error(other.o, ring.o), bound);
          for (size_t i = 0; i < 4; ++i)
            EXPECT_LE(longhaul::testing::relative_error(other.gradients[i], ring.gradients[i]), 4 * bound)
                << i;
        }
      }
    }
  }
}

// o is linear in v, and doubling rounds nothing.
TEST(ContextRecurrence, TwiceTheValuesGiveTwiceTheResult) {
  for (const LinearContextMethod method : kLinearMethods) {
    const WholeInputs in = inputs_of(Decay::kKeyToken, 23);
    WholeInputs doubled = in;
    doubled.of[2] = in.of[2] * 2;
    const Tensor d_o = random_tensor({23, kHeads, kValue}, 9);
    const auto of = [&](const WholeInputs& inputs) {
      return found(method, Decay::kKeyToken, {3, 17, 3}, 4, ContextSplit::kZigzag, inputs, d_o);
    };
    const WholeResult once = of(in), twice = of(doubled);
    EXPECT_TRUE(twice.o.equal(once.o * 2));
    EXPECT_TRUE(twice.gradients[2].equal(once.gradients[2])) << "that of v does not depend on it";
    EXPECT_TRUE(twice.gradients[0].equal(once.gradients[0] * 2));
  }
}

// Without decay the states that the ranks' own tokens write from zero add up to Kᵀ V of the row.
TEST(ContextRecurrence, StatesOfAllRanksAddUpToTheProductOfTheRow) {
  for (const int64_t ranks : {2, 3, 4}) {
    for (const auto split : {ContextSplit::kContiguous, ContextSplit::kZigzag}) {
      const Tensor k = random_tensor({23, kHeads, kKey}, 2), v = random_tensor({23, kHeads, kValue}, 3);
      Tensor sum = at::zeros({kHeads, kKey, kValue}, at::kDouble);
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const layout::SequenceView view(layout::make_single(23),
                                        {.context_ranks = ranks, .context_rank = rank, .split = split});
        for (const ContextPiece& piece : context_pieces(view)) {
          if (piece.rank != rank) continue;
          const auto rows = [&](const Tensor& x) {
            return x.index_select(0, to_tensor(view.token_index))
                .narrow(0, piece.local_begin, piece.tokens.length);
          };
          sum += kernels::fold_recurrence({.k_thk = rows(k), .v_thv = rows(v)}, kHeads).state_nhkv.squeeze(0);
        }
      }
      EXPECT_LE(longhaul::testing::relative_error(sum, at::einsum("thk,thv->hkv", {k, v})), 1e-14);
    }
  }
}

TEST(ContextRecurrence, DocumentsThatEndAtEveryCutSendNothing) {
  const Tensor d_o = random_tensor({24, kHeads, kValue}, 9);
  for (const LinearContextMethod method : kStateMethods) {
    const WholeResult result = found(method, Decay::kKeyToken, {8, 5, 3, 8}, 3, ContextSplit::kContiguous,
                                     inputs_of(Decay::kKeyToken, 24), d_o);
    for (const Sent& sent : result.sent) EXPECT_EQ(sent.forward + sent.backward, 0);
  }
}

}  // namespace
}  // namespace longhaul::parallel

// Softmax attention over context ranks, by every method, is the plain loop over the whole row, forward and
// backward; and it sends what docs/sources/long-context-parallelism.md A8 says.
// ctest: timeout=120
#include "parallel/context/context_attention.h"

#include <gmock/gmock.h>

#include "base/error.h"
#include "parallel/context_cases.h"

namespace longhaul::parallel {
namespace {

using kernels::AttentionOptions;
using recipe::ContextMethod;
using testing::random_tensor;

constexpr int64_t kChannels = 4, kValues = 3;
constexpr ContextMethod kMethods[] = {ContextMethod::kRing, ContextMethod::kAllGather,
                                      ContextMethod::kUlysses, ContextMethod::kTwoLevel};

struct Shape {
  int64_t heads, key_heads, window = 0;
  bool causal = true;
  AttentionOptions options() const { return {.scale = 0.7, .window = window, .causal = causal}; }
};

WholeInputs inputs_of(const Shape& shape, int64_t tokens, ScalarType type = at::kDouble) {
  return {{random_tensor({tokens, shape.heads, kChannels}, 1, type),
           random_tensor({tokens, shape.key_heads, kChannels}, 2, type),
           random_tensor({tokens, shape.key_heads, kValues}, 3, type)},
          {true, true, true}};
}

WholeResult found(ContextMethod method, const Shape& shape, const std::vector<int64_t>& lengths,
                  int64_t ranks, ContextSplit split, const WholeInputs& in, const Tensor& d_o) {
  return on_context_ranks(
      lengths, ranks, split, in, d_o,
      [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
        return context_attention(method, group, own[0], own[1], own[2], view, shape.options());
      });
}

void expect_every_case(const Shape& shape, const std::vector<int64_t>& of_ranks,
                       ScalarType type = at::kDouble, double bound = 1e-12) {
  for_each_case(of_ranks, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
    const layout::SequenceLayout row = layout::make_packed(lengths);
    const WholeInputs in = inputs_of(shape, row.tokens(), type);
    const Tensor d_o = random_tensor({row.tokens(), shape.heads, kValues}, 9, type);
    for (const ContextMethod method : kMethods) {
      // refused: a test below
      if (method == ContextMethod::kUlysses && shape.key_heads % ranks != 0) continue;
      expect_the_whole(
          found(method, shape, lengths, ranks, split, in, d_o), in, d_o, bound,
          [&](const std::vector<Tensor>& x) {
            return kernels::attention_reference(x[0], x[1], x[2], to_tensor(row.document_offsets), {},
                                                shape.options())
                .o_thd;
          },
          text_of(lengths, ranks, split) + ", " + std::string(names_of(method)[static_cast<size_t>(method)]));
    }
  });
}

TEST(ContextAttention, OverCallsInOrder) {
  const CallsInOrder as_nccl;
  expect_every_case({4, 4}, {2, 3, 4});
}
TEST(ContextAttention, HeadsThatEveryNumberOfRanksDivides) { expect_every_case({12, 12}, {2, 3, 4}); }
TEST(ContextAttention, GroupsOfHeadsShareKeys) { expect_every_case({4, 2}, {2, 3, 4}); }
TEST(ContextAttention, OneKeyHead) { expect_every_case({3, 1}, {3}); }
TEST(ContextAttention, AWindow) { expect_every_case({4, 2, 4}, {3, 4}); }
TEST(ContextAttention, KeysBehindATokenToo) {
  expect_every_case({.heads = 4, .key_heads = 2, .causal = false}, {2, 3, 4});
  expect_every_case({.heads = 3, .key_heads = 3, .window = 4, .causal = false}, {3});
}
// By the kernels of 4-byte numbers: 2^-24 a rounding, a few dozen of them.
TEST(ContextAttention, InSinglePrecision) { expect_every_case({4, 2, 9}, {4}, at::kFloat, 1e-5); }

// Every rank has every so many-th token, and the ring is the plain loop: causal and not, with windows shorter
// than, as long as and longer than the distance of a stripe's tokens, documents anywhere, ranks without
// tokens.
TEST(ContextAttention, AStripedRow) {
  for (const Shape& shape : {Shape{4, 2}, Shape{3, 1, 1}, Shape{3, 1, 2}, Shape{3, 3, 3}, Shape{4, 2, 4},
                             Shape{4, 2, 9}, Shape{.heads = 4, .key_heads = 2, .causal = false}}) {
    std::vector<std::vector<int64_t>> all = kPackings;
    all.insert(all.end(), kTinyPackings.begin(), kTinyPackings.end());
    for (const auto& lengths : all) {
      for (const int64_t ranks : {2, 3, 4}) {
        const layout::SequenceLayout row = layout::make_packed(lengths);
        const WholeInputs in = inputs_of(shape, row.tokens());
        const Tensor d_o = random_tensor({row.tokens(), shape.heads, kValues}, 9);
        expect_the_whole(
            found(ContextMethod::kRing, shape, lengths, ranks, ContextSplit::kStriped, in, d_o), in, d_o,
            1e-12,
            [&](const std::vector<Tensor>& x) {
              return kernels::attention_reference(x[0], x[1], x[2], to_tensor(row.document_offsets), {},
                                                  shape.options())
                  .o_thd;
            },
            text_of(lengths, ranks, ContextSplit::kStriped) + ", window " + std::to_string(shape.window));
      }
    }
  }
}

TEST(ContextAttention, UlyssesRefusesHeadsThatRanksDoNotDivide) {
  const WholeInputs in = inputs_of({4, 2}, 23);
  try {
    found(ContextMethod::kUlysses, {4, 2}, {23}, 4, ContextSplit::kZigzag, in,
          random_tensor({23, 4, kValues}, 9));
    FAIL() << "no refusal";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_THAT(error.fields().expected, ::testing::HasSubstr("4 context ranks divide"));
    EXPECT_EQ(error.fields().found, "2");
  }
}

std::vector<Sent> sent_by(ContextMethod method, const Shape& shape, const std::vector<int64_t>& lengths,
                          int64_t ranks, ContextSplit split) {
  const int64_t tokens = layout::make_packed(lengths).tokens();
  return found(method, shape, lengths, ranks, split, inputs_of(shape, tokens),
               random_tensor({tokens, shape.heads, kValues}, 9))
      .sent;
}

// One document, fp64: a token's keys and values are as many bytes as their gradients.
TEST(ContextAttention, BytesAreThoseOfTheFormulas) {
  constexpr int64_t kRanks = 4, kTokens = 32, kOwn = kTokens / kRanks;
  const Shape shape{8, 4};
  const int64_t keys = shape.key_heads * (kChannels + kValues) * 8,
                queries = shape.heads * (kChannels + kValues) * 8;
  for (const auto split : {ContextSplit::kZigzag, ContextSplit::kStriped}) {
    for (const Sent& sent : sent_by(ContextMethod::kRing, shape, {kTokens}, kRanks, split)) {
      EXPECT_EQ(sent.forward, (kRanks - 1) * kOwn * keys);
      EXPECT_EQ(sent.backward, (kRanks - 1) * kOwn * keys + kRanks * kOwn * keys)
          << "again, and the gradients all the way home";
    }
  }
  for (const Sent& sent :
       sent_by(ContextMethod::kAllGather, shape, {kTokens}, kRanks, ContextSplit::kZigzag)) {
    EXPECT_EQ(sent.forward, (kRanks - 1) * kOwn * keys);
  }
  for (const Sent& sent : sent_by(ContextMethod::kUlysses, shape, {kTokens}, kRanks, ContextSplit::kZigzag)) {
    EXPECT_EQ(sent.forward, (kRanks - 1) * kOwn * (queries + keys) / kRanks);
    EXPECT_EQ(sent.backward, sent.forward);
    EXPECT_EQ(sent.messages, 4);
  }
}

// Of a contiguous row the keys of rank r go to the ranks behind it only: hop c moves those of the ranks up to
// P - 2 - c.
TEST(ContextAttention, KeysGoNoFurtherThanTheyAreSeen) {
  const Shape shape{4, 2};
  const int64_t keys = shape.key_heads * (kChannels + kValues) * 8;
  const std::vector<Sent> whole = sent_by(ContextMethod::kRing, shape, {32}, 4, ContextSplit::kContiguous);
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(whole[static_cast<size_t>(r)].forward, r < 3 ? (r + 1) * 8 * keys : 0) << r;
  const std::vector<Sent> packed =
      sent_by(ContextMethod::kRing, shape, {8, 12, 4, 8}, 4, ContextSplit::kContiguous);
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(packed[static_cast<size_t>(r)].forward, r == 1 ? 8 * keys : 0) << r;
  const std::vector<Sent> window =
      sent_by(ContextMethod::kRing, {4, 2, 9}, {32}, 4, ContextSplit::kContiguous);
  for (int64_t r = 0; r < 4; ++r)
    EXPECT_EQ(window[static_cast<size_t>(r)].forward, r < 3 ? 8 * keys : 0) << r;
}

}  // namespace
}  // namespace longhaul::parallel

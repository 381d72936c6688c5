// What crosses context ranks in small: the result is that of the whole row, forward and backward, however it
// is packed and cut.
#include "parallel/context/context_carry.h"

#include "kernels/toeplitz/op.h"
#include "parallel/context_cases.h"

namespace longhaul::parallel {
namespace {

using testing::random_tensor;

TEST(ContextCarry, ShortConvolutionIsThatOfTheWholeRow) {
  for (const int64_t width : {1, 2, 4, 7}) {  // longer than a piece
    for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
      const layout::SequenceLayout row = layout::make_packed(lengths);
      const WholeInputs in{
          {random_tensor({row.tokens(), 5}, 1), random_tensor({5, width}, 2), random_tensor({5}, 3)},
          {true, false, false}};
      const Tensor dy = random_tensor({row.tokens(), 5}, 9);
      const WholeResult found = on_context_ranks(
          lengths, ranks, split, in, dy,
          [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
            return context_convolution(group, own[0], own[1], own[2], view, {.silu = true});
          });
      expect_the_whole(
          found, in, dy, 1e-12,
          [&](const std::vector<Tensor>& x) {
            return kernels::short_convolution(x[0], x[1], x[2], to_tensor(row.document_offsets), {},
                                              {.silu = true})
                .y_tc;
          },
          text_of(lengths, ranks, split) + ", width " + std::to_string(width));
    });
  }
}

TEST(ContextCarry, DecayedSumIsThatOfTheWholeRow) {
  for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
    const layout::SequenceLayout row = layout::make_packed(lengths);
    const WholeInputs in{{random_tensor({row.tokens(), 5}, 1), random_tensor({row.tokens(), 5}, 2)},
                         {true, true}};
    const Tensor dy = random_tensor({row.tokens(), 5}, 9);
    const WholeResult found = on_context_ranks(
        lengths, ranks, split, in, dy,
        [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
          return context_decayed_sum(group, own[0].sigmoid(), own[1], view);
        });
    expect_the_whole(
        found, in, dy, 1e-12,
        [&](const std::vector<Tensor>& x) {
          return kernels::decayed_sum_reference(x[0].sigmoid(), x[1], to_tensor(row.document_offsets), {})
              .h_tc;
        },
        text_of(lengths, ranks, split));
  });
}

TEST(ContextCarry, CumulativeSoftmaxIsThatOfTheWholeRow) {
  for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
    if (std::ranges::find(lengths, 0) != lengths.end()) return;  // the reference takes each document's sum
    const layout::SequenceLayout row = layout::make_packed(lengths);
    const WholeInputs in{{random_tensor({row.tokens(), 5}, 1)}, {true}};
    const Tensor dy = random_tensor({row.tokens(), 10}, 9);
    const auto both = [](const kernels::CumulativeSoftmax& made) {
      return at::cat({made.k_tc, made.log_decay_tc}, 1);
    };
    const WholeResult found = on_context_ranks(
        lengths, ranks, split, in, dy,
        [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
          return both(context_cumulative_softmax(group, own[0], view));
        });
    expect_the_whole(
        found, in, dy, 1e-12,
        [&](const std::vector<Tensor>& x) {
          return both(kernels::cumulative_softmax_reference(x[0], to_tensor(row.document_offsets), {}));
        },
        text_of(lengths, ranks, split));
  });
}

TEST(ContextCarry, ToeplitzIsThatOfTheWholeRow) {
  for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
    const layout::SequenceLayout row = layout::make_packed(lengths);
    const WholeInputs in{
        {random_tensor({row.tokens(), 5}, 1), random_tensor({5, 3}, 2), random_tensor({3}, 3)},
        {true, false, false}};
    const Tensor dy = random_tensor({row.tokens(), 5}, 9);
    const WholeResult found = on_context_ranks(
        lengths, ranks, split, in, dy,
        [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
          return context_toeplitz(group, own[0], own[1], own[2].exp().neg(), view);
        });
    expect_the_whole(
        found, in, dy, 1e-12,
        [&](const std::vector<Tensor>& x) {
          return kernels::toeplitz_aten(x[0], x[1], x[2].exp().neg(), to_tensor(row.document_offsets), {})
              .y_td;
        },
        text_of(lengths, ranks, split));
  });
}

}  // namespace
}  // namespace longhaul::parallel

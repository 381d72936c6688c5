// What crosses context ranks in small: the result is that of the whole row, forward and backward, however it is packed and cut.
#include "parallel/context_carry.h"

#include "parallel/context_cases.h"

namespace longhaul::parallel {
namespace {

using testing::random_tensor;

TEST(ContextCarry, ShortConvolutionIsThatOfTheWholeRow) {
  for (const int64_t width : {1, 2, 4, 7}) {  // longer than a piece
    for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
      const layout::SequenceLayout row = layout::make_packed(lengths);
      const WholeInputs in{{random_tensor({row.tokens(), 5}, 1), random_tensor({5, width}, 2), random_tensor({5}, 3)},
                           {true, false, false}};
      const Tensor dy = random_tensor({row.tokens(), 5}, 9);
      const WholeResult found = on_context_ranks(
          lengths, ranks, split, in, dy, [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
            return context_convolution(group, own[0], own[1], own[2], view, {.silu = true});
          });
      expect_the_whole(
          found, in, dy, 1e-12,
          [&](const std::vector<Tensor>& x) {
            return kernels::short_convolution(x[0], x[1], x[2], to_tensor(row.document_offsets), {}, {.silu = true}).y_tc;
          },
          text_of(lengths, ranks, split) + ", width " + std::to_string(width));
    });
  }
}

}  // namespace
}  // namespace longhaul::parallel

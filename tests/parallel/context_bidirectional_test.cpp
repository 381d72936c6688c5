// Attention without an order over context ranks is that of the whole row, forward and backward, however it is
// packed and cut.
#include "parallel/context/context_bidirectional.h"

#include "kernels/bidirectional/op.h"
#include "parallel/context_cases.h"

namespace longhaul::parallel {
namespace {

using testing::random_tensor;

TEST(ContextBidirectional, SegmentSoftmaxIsThatOfTheWholeRow) {
  for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
    const layout::SequenceLayout row = layout::make_packed(lengths);
    const WholeInputs in{{random_tensor({row.tokens(), 5}, 1).mul(30)},
                         {true}};  // exponentials of which would overflow, were they not relative
    const Tensor dy = random_tensor({row.tokens(), 5}, 9);
    const WholeResult found = on_context_ranks(
        lengths, ranks, split, in, dy,
        [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
          return context_segment_softmax(group, own[0], view);
        });
    expect_the_whole(
        found, in, dy, 1e-12,
        [&](const std::vector<Tensor>& x) {
          return kernels::segment_softmax(x[0], to_tensor(row.document_offsets));
        },
        text_of(lengths, ranks, split));
  });
}

TEST(ContextBidirectional, AttentionIsThatOfTheWholeRow) {
  for (const auto& [type, bound] : {std::pair{at::kDouble, 1e-12}, {at::kFloat, 1e-5}}) {
    for_each_case({2, 3, 4}, [&](const std::vector<int64_t>& lengths, int64_t ranks, ContextSplit split) {
      const layout::SequenceLayout row = layout::make_packed(lengths);
      const int64_t tokens = row.tokens();
      const WholeInputs in{{random_tensor({tokens, 2, 4}, 1, type), random_tensor({tokens, 2, 4}, 2, type),
                            random_tensor({tokens, 2, 3}, 3, type)},
                           {true, true, true}};
      const Tensor dy = random_tensor({tokens, 2, 3}, 9, type);
      const WholeResult found = on_context_ranks(
          lengths, ranks, split, in, dy,
          [&](comm::Communicator& group, const std::vector<Tensor>& own, const layout::SequenceView& view) {
            return context_bidirectional_attention(group, own[0], own[1], own[2], view);
          });
      expect_the_whole(
          found, in, dy, bound,
          [&](const std::vector<Tensor>& x) {
            return kernels::bidirectional_attention(x[0], x[1], x[2], to_tensor(row.document_offsets));
          },
          text_of(lengths, ranks, split));
    });
  }
}

// Counts sums over ranks.
class CountingSums final : public comm::Communicator {
 public:
  explicit CountingSums(comm::Communicator& inner)
      : Communicator(inner.name(), inner.rank(), inner.size()), inner_(inner) {}
  void abort(const std::string& reason) override { inner_.abort(reason); }
  comm::Work start(comm::Call call) override {
    ++calls;
    elements += call.input.defined() ? call.input.numel() : call.output.numel();
    return inner_.start(std::move(call));
  }
  std::vector<std::unique_ptr<Communicator>> start_split(comm::Call call) override {
    return inner_.start_split(std::move(call));
  }
  int64_t calls = 0, elements = 0;

 private:
  comm::Communicator& inner_;
};

// One sum of the documents that several ranks have; of those that one has whole nobody tells another.
TEST(ContextBidirectional, SendsTheSumsOfSharedDocumentsAlone) {
  for (const auto& [lengths, shared] : {std::pair{std::vector<int64_t>{8, 8}, 0},
                                        {std::vector<int64_t>{3, 9, 4}, 1},
                                        {std::vector<int64_t>{16}, 1}}) {
    comm::run_ranks(2, [&](comm::Communicator& world) {
      CountingSums group(world);
      const layout::SequenceView view(
          layout::make_packed(lengths),
          {.context_ranks = 2, .context_rank = world.rank(), .split = ContextSplit::kContiguous});
      const Tensor x = random_tensor({8, 2, 4}, 1);
      context_bidirectional_attention(group, x, x, x, view);
      EXPECT_EQ(group.calls, shared > 0 ? 1 : 0);
      EXPECT_EQ(group.elements, shared * 2 * 4 * 4);
    });
  }
}

}  // namespace
}  // namespace longhaul::parallel

// Results of linear_recurrence past the caches and into them: the same bits, nothing beside the rows, and
// which of the two when.
#include <gtest/gtest.h>

#include "kernels/linear_recurrence/cpu/cpu_loops.h"
#include "kernels/stream.h"
#include "support/instruction_sets.h"
#include "support/tensors.h"
#include "tensor/tensor.h"

namespace longhaul::kernels::linear_recurrence_loops_test {
namespace {

using longhaul::testing::for_each_instruction_set;
using longhaul::testing::random_tensor;

TEST(LinearRecurrenceLoops, ResultsPastTheCachesAreOfTheSameBits) {
  const auto run = [&]<class Element>(Element) {
    const ScalarType type = sizeof(Element) == 2 ? at::kBFloat16 : at::kFloat;
    for (const int64_t columns : {32, 40, 64, 100}) {
      for (const int64_t shift : {0, 3}) {  // rows that begin at a line of the caches, and others
        SCOPED_TRACE(std::string(name_of(type)) + " " + std::to_string(columns) + " " +
                     std::to_string(shift));
        const Tensor first = random_tensor({5, columns}, 1, at::kFloat),
                     second = random_tensor({5, columns}, 2, at::kFloat),
                     factor = random_tensor({5}, 3, at::kFloat);
        const auto join = [&](bool past_caches) {
          const StreamScope stream;
          // whole lines, so that each row begins as the first
          const Tensor out = at::full({7, 128}, 9, type);
          recurrence_loops<Element>().join_rows(
              first.const_data_ptr<float>(), second.const_data_ptr<float>(), columns,
              factor.const_data_ptr<float>(), 5, columns, past_caches,
              static_cast<Element*>(out.mutable_data_ptr()) + 128 + shift, 128);
          return out;
        };
        const Tensor expected = join(false), found = join(true);
        EXPECT_TRUE(found.equal(expected));
        EXPECT_EQ(expected.ne(9).sum().item<int64_t>(), 5 * columns) << "beside its rows";
        EXPECT_FALSE(expected.narrow(0, 1, 5).narrow(1, shift, columns).eq(9).any().item<bool>());
      }
    }
  };
  for_each_instruction_set([&] {
    run(uint16_t{});
    run(float{});
  });
}

// What the next operator can find in the caches is left there.
TEST(Stream, OnlyWhatTheCachesDoNotHoldGoesPastThem) {
  constexpr int64_t kL2 = 1 << 20, kL3 = 32 << 20;
  EXPECT_FALSE(past_caches(0, kL2, kL3));
  EXPECT_FALSE(past_caches(16 << 20, kL2, kL3));
  EXPECT_TRUE(past_caches((16 << 20) + 1, kL2, kL3));
  EXPECT_FALSE(past_caches(kL2 / 2, kL2, 0)) << "a machine that says nothing of a third one";
  EXPECT_TRUE(past_caches(kL2, kL2, 0));
}

}  // namespace
}  // namespace longhaul::kernels::linear_recurrence_loops_test

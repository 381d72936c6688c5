// The rows of a state: who has which, and what a new one begins with.
#include "model/state.h"

#include <gtest/gtest.h>

#include "support/models.h"

namespace longhaul::model {
namespace {

using namespace longhaul::testing;

class StateRows : public ::testing::Test {
 protected:
  // Lightning, lightning, softmax.
  StateRows() : decoder_(filled_decoder(hybrid_experts_post_norm(), "fp32")), state_(decoder_.make_state()) {}

  void pass(const std::vector<int64_t>& rows, const std::vector<int64_t>& lengths) {
    const at::NoGradGuard no_gradient;
    std::vector<int64_t> firsts;
    int64_t tokens = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      firsts.push_back(state_.tokens(rows[i]));
      tokens += lengths[i];
    }
    LocalOps ops;
    Context context(ops, decoder_.precision());
    context.training = false;
    const DecoderRows continued{state_, rows};
    decoder_.hidden(context, id_tensor(random_ids(tokens, 29, 3)), layout::make_packed(lengths, firsts), &continued);
  }
  Tensor recurrence(int64_t row) const { return state_.layers()[0].tensor("recurrence")[row]; }
  const kernels::KeyValueCache& cache() const { return *state_.layers()[2].pages(); }

  const PoisonFreshMemory poison_;
  Decoder decoder_;
  DecoderState state_;
};

TEST_F(StateRows, HaveTheShapesOfTheMixersEntry) {
  state_.add();
  EXPECT_EQ(recurrence(0).sizes(), at::IntArrayRef({4, 8, 8}));
  EXPECT_EQ(recurrence(0).scalar_type(), at::kFloat);
  EXPECT_EQ(state_.layers()[0].pages(), nullptr);
  EXPECT_EQ(cache().pool().sizes().heads, 2);
  EXPECT_EQ(state_.layers()[2].row_bytes(), 0);
}

TEST_F(StateRows, AreUsedAgainFromTheBeginning) {
  const int64_t a = state_.add(), b = state_.add(), c = state_.add();
  pass({c, a}, {3, 300});
  EXPECT_EQ(state_.tokens(a), 300);
  EXPECT_EQ(state_.tokens(b), 0);
  EXPECT_EQ(state_.tokens(c), 3);
  EXPECT_EQ(cache().pool().in_use(), 3);
  const Tensor kept = recurrence(c).clone();
  state_.drop(a);
  EXPECT_EQ(state_.sequences(), 2);
  EXPECT_EQ(cache().pool().in_use(), 1);
  const int64_t again = state_.add();
  EXPECT_EQ(again, a);
  EXPECT_EQ(state_.tokens(again), 0);
  EXPECT_TRUE(recurrence(again).eq(0).all().item<bool>());
  for (int i = 0; i < 10; ++i) state_.add();  // the tensors grow
  EXPECT_TRUE(recurrence(c).equal(kept));
  EXPECT_EQ(state_.sequences(), 13);
}

TEST_F(StateRows, ForkedGoTheirOwnWay) {
  const int64_t a = state_.add();
  pass({a}, {5});
  const int64_t b = state_.fork(a);
  EXPECT_EQ(state_.tokens(b), 5);
  EXPECT_TRUE(recurrence(b).equal(recurrence(a)));
  EXPECT_EQ(cache().pages(b), cache().pages(a));
  const Tensor before = recurrence(a).clone();
  pass({b}, {1});
  EXPECT_TRUE(recurrence(a).equal(before));
  EXPECT_FALSE(recurrence(b).equal(before));
  EXPECT_NE(cache().pages(b), cache().pages(a));
  EXPECT_EQ(cache().tokens(a), 5);
}

TEST_F(StateRows, ThatAreNobodysAreRefused) {
  const int64_t a = state_.add();
  state_.drop(a);
  EXPECT_ANY_THROW(state_.tokens(a));
  EXPECT_ANY_THROW(state_.drop(a));
  EXPECT_ANY_THROW(state_.fork(a));
  EXPECT_ANY_THROW(state_.tokens(7));
  EXPECT_ANY_THROW(state_.layers()[2].tensor("recurrence"));
  EXPECT_ANY_THROW(state_.layers()[0].keys_values());
}

}  // namespace
}  // namespace longhaul::model

// The batches of a run whose sequences get longer on the way: what each step reads, said by hand and by
// loaders of one length; what is passed over; and what ranks share.
#include "data/order/staged_loader.h"

#include <atomic>
#include <set>

#include "data/support.h"

namespace longhaul::data {
namespace {

// 6 rows of 32 tokens in steps 0 to 4; 3 rows of 96 in steps 5 to 8; 3 rows of 128 from step 9 on.
// Tokens before: step 5: 5 · 192 = 960; step 9: 960 + 4 · 288 = 2,112. Rows before: 30 and 42.
const std::vector<SequenceStretch> kStretches = {{0, 0, 32}, {5, 960, 96}, {9, 2112, 128}};
int64_t first_row(int64_t step) {
  return step <= 5 ? 6 * step : step <= 9 ? 30 + 3 * (step - 5) : 42 + 3 * (step - 9);
}

class StagedLoaderTest : public testing::Test {
 protected:
  StagedLoaderTest() {
    write_documents(folder_ / "a", 60, 400);
    a_ = prepare(corpus_of(folder_ / "a"), 0, byte_encoder(), folder_ / "cache");
  }
  LoaderOptions options(int64_t sequence, int64_t prefetch = 2) const {
    LoaderOptions result;
    result.sequence = sequence;
    result.seed = 5;
    result.prefetch = prefetch;
    result.first_position = first_row;
    return result;
  }
  StagedLoader staged(std::shared_ptr<BatchShare> share = nullptr) {
    return StagedLoader(
        {&a_.train},
        [this, share](int64_t sequence) {
          LoaderOptions result = options(sequence);
          result.share = share;
          return result;
        },
        kStretches);
  }
  // Rows first … first + rows of a run with one length.
  Batch plain(int64_t sequence, int64_t first, int64_t rows) const {
    return Loader({&a_.train}, options(sequence)).batch_of(first, rows);
  }
  // 960 tokens are 10 sequences of 96: the second stretch begins with the eleventh of their order. 2,112 are
  // 16.5 of 128: the third begins with the eighteenth.
  Batch by_hand(int64_t step) const {
    if (step < 5) return plain(32, 6 * step, 6);
    return step < 9 ? plain(96, 10 + 3 * (step - 5), 3) : plain(128, 17 + 3 * (step - 9), 3);
  }
  TemporaryFolder folder_;
  PreparedSource a_;
};

TEST_F(StagedLoaderTest, EveryStretchGoesOnByTokens) {
  StagedLoader loader = staged();
  for (int64_t step = 0; step < 13; ++step) {
    const Batch found = loader.take(step);
    EXPECT_EQ(found, by_hand(step)) << step;
    EXPECT_EQ(found, loader.batch_at(step, 0, 1)) << step;
  }
  EXPECT_EQ(loader.take(4), plain(32, 24, 6)) << "back again";
}

// All tokens of the rows of a stretch stand in different places of the text until its order has gone through.
TEST_F(StagedLoaderTest, NoTokenComesTwiceInAStretch) {
  const Loader order({&a_.train}, options(96));
  std::set<std::pair<int64_t, int64_t>> seen;
  int64_t tokens = 0;
  for (int64_t sample = 10; sample < 22; ++sample) {  // of steps 5 to 8, in one epoch
    ASSERT_EQ(order.origin_of(sample).epoch, 0);
    for (const DocumentSpan& span : order.spans_of(sample)) {
      for (int64_t t = 0; t < span.length; ++t, ++tokens) seen.insert({span.document, span.start + t});
    }
  }
  EXPECT_EQ(static_cast<int64_t>(seen.size()), tokens);
  EXPECT_EQ(tokens, 12 * 96);
}

TEST_F(StagedLoaderTest, APositionSaysWhatWasRead) {
  StagedLoader loader = staged();
  for (const auto& [step, sequence] : {std::pair{0, 32}, {5, 32}, {6, 96}, {9, 96}, {10, 128}}) {
    const DataPosition position = loader.position_before(step);
    EXPECT_EQ(position.first_sample, first_row(step)) << step;
    EXPECT_EQ(position.sequence, sequence) << step;
  }
  EXPECT_DOUBLE_EQ(loader.epochs_at(6), Loader({&a_.train}, with_batch(options(96), 13)).epochs_at(1));
}

// Samples 32 to 35, which are those of step 5 behind its first two rows, and of step 6's first, are left out:
// all later rows of the stretch move up, and the next stretch begins where it did.
TEST_F(StagedLoaderTest, SamplesArePassedOverInTheirStretch) {
  StagedLoader loader = staged();
  EXPECT_EQ(loader.samples_of(5, 6), (SampleRange{30, 36}));
  EXPECT_EQ(loader.samples_of(3, 6), (SampleRange{30, 36})) << "of the last step's length alone";
  for (int64_t step = 0; step < 7; ++step) loader.take(step);
  loader.pass_over({{32, 36}});
  EXPECT_EQ(loader.take(4), plain(32, 24, 6));
  const Batch step5 = loader.take(5), first = plain(96, 10, 2), third = plain(96, 16, 1);
  const auto joined = [](Batch a, const Batch& b) {
    a.inputs.insert(a.inputs.end(), b.inputs.begin(), b.inputs.end());
    return a.inputs;
  };
  EXPECT_EQ(step5.inputs, joined(first, third));
  EXPECT_EQ(loader.take(6).inputs, plain(96, 17, 3).inputs);
  EXPECT_EQ(loader.take(9).inputs, plain(128, 17, 3).inputs) << "another stretch loses nothing";
  EXPECT_EQ(loader.samples_of(9, 9), (SampleRange{46, 49}));
  EXPECT_EQ(loader.position_before(9).skip, (std::vector<SampleRange>{{32, 36}}));
  // What an earlier stretch leaves out besides: 3 rows of the first.
  loader.pass_over({{10, 13}});
  EXPECT_EQ(loader.take(2).inputs, plain(32, 15, 6).inputs);
  EXPECT_EQ(loader.take(9).inputs, plain(128, 17, 3).inputs);
}

// Two ranks with one share, of which one is a step ahead, also where the length changes.
TEST_F(StagedLoaderTest, RanksShareWhatIsTheirs) {
  const auto share = share_between_threads(2);
  StagedLoader ahead = staged(share), behind = staged(share);
  for (int64_t step = 0; step < 12; ++step) {
    if (step > 0) {
      EXPECT_EQ(behind.take(step - 1), by_hand(step - 1)) << step - 1;
    }
    EXPECT_EQ(ahead.take(step), by_hand(step)) << step;
  }
}

// Rows are read ahead to the end of their stretch and not beyond, where nobody would ask for them.
TEST_F(StagedLoaderTest, NothingIsReadThatNobodyTakes) {
  class Counted final : public BatchShare {
   public:
    Batch get(int64_t, int64_t, const std::function<Batch()>& make) override {
      ++calls;
      return make();
    }
    std::atomic<int> calls = 0;
  };
  const auto share = std::make_shared<Counted>();
  StagedLoader loader = staged(share);
  for (int64_t step = 0; step < 9; ++step) loader.take(step);  // the first two stretches, two steps ahead
  EXPECT_EQ(share->calls, 9);
}

// 960 tokens are 12 sequences of 80, which is where step 2 begins in those of 32: of one share, asked by a
// rank that is far ahead, the two are not the same rows.
TEST_F(StagedLoaderTest, EqualNumbersOfTwoLengthsAreNotTheSameRows) {
  const auto share = share_between_threads(2);
  const auto make = [&] {
    return StagedLoader({&a_.train},
                        [this, share](int64_t sequence) {
                          LoaderOptions result = options(sequence, 0);
                          result.first_position = [](int64_t step) { return 6 * step; };
                          result.share = share;
                          return result;
                        },
                        {{0, 0, 32}, {5, 960, 80}});
  };
  StagedLoader ahead = make(), behind = make();
  for (StagedLoader* each : {&ahead, &behind}) {
    for (int64_t step = 0; step < 7; ++step) {
      const Batch expected = step < 5 ? plain(32, 6 * step, 6) : plain(80, 12 + 6 * (step - 5), 6);
      EXPECT_EQ(each->take(step), expected) << step;
    }
  }
}

}  // namespace
}  // namespace longhaul::data

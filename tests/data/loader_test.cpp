#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/corpus/skip_file.h"
#include "data/order/evaluation.h"
#include "data/order/loader.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    write_documents(folder_ / "a", 60, 400);
    write_documents(folder_ / "b", 25, 90);
    a_ = prepare(corpus_of(folder_ / "a"), 0, byte_encoder(), folder_ / "cache");
    b_ = prepare(corpus_of(folder_ / "b"), 0, byte_encoder(), folder_ / "cache");
  }
  LoaderOptions options(int64_t sequence = 32, int64_t batch = 6) {
    LoaderOptions result;
    result.sequence = sequence;
    result.seed = 5;
    return with_batch(result, batch);
  }
  TemporaryFolder folder_;
  PreparedSource a_, b_;
};

TEST_F(LoaderTest, BatchIsPackedRowsWithDocumentsOfTheirOwn) {
  Loader loader({&a_.train}, options());
  for (int64_t step = 0; step < 20; ++step) {
    const Batch batch = loader.batch_at(step);
    ASSERT_EQ(batch.inputs.size(), 32u * 6);
    ASSERT_EQ(batch.labels.size(), batch.inputs.size());
    batch.layout.validate();
    ASSERT_EQ(batch.layout.tokens(), 32 * 6);
    EXPECT_EQ(batch.first_position, step * 6);
    std::set<int64_t> ends(batch.layout.document_offsets.begin(), batch.layout.document_offsets.end());
    for (int64_t row = 0; row <= 6; ++row)
      EXPECT_TRUE(ends.contains(row * 32)) << "a document reaches over a row's end";
    for (int64_t d = 0; d < batch.layout.documents(); ++d) {
      const auto begin = static_cast<size_t>(batch.layout.document_offsets[static_cast<size_t>(d)]);
      const auto end = static_cast<size_t>(batch.layout.document_offsets[static_cast<size_t>(d) + 1]);
      for (size_t t = begin; t < end; ++t) {
        EXPECT_EQ(batch.layout.positions[t], static_cast<int64_t>(t - begin));
        if (t + 1 < end) {
          EXPECT_EQ(batch.labels[t], batch.inputs[t + 1]);
        }
        if (t > begin) {
          EXPECT_NE(batch.inputs[t], 256) << "a separator inside a document";
        }
      }
    }
    EXPECT_EQ(batch.target_tokens, 32 * 6 - std::count(batch.labels.begin(), batch.labels.end(), -1));
  }
}

TEST_F(LoaderTest, WithoutBoundariesARowIsOneDocument) {
  LoaderOptions joined = options(128);
  joined.document_boundaries = false;
  const Batch with = Loader({&b_.train}, options(128)).batch_at(1),
              without = Loader({&b_.train}, joined).batch_at(1);
  EXPECT_EQ(without.layout, layout::make_batch(6, 128));
  EXPECT_EQ(with.layout.row_offsets, without.layout.row_offsets);
  EXPECT_GT(with.layout.documents(), 6);
  EXPECT_EQ(with.inputs, without.inputs);
  EXPECT_EQ(with.labels, without.labels);
}

TEST_F(LoaderTest, AnyNumberOfRanksSeesTheSameSamples) {
  Loader loader({&a_.train, &b_.train}, options(32, 7));
  for (int64_t ranks : {1, 2, 3, 7, 10}) {
    for (int64_t step : {0, 3, 50, 1000003}) {
      const Batch whole = loader.batch_at(step);
      std::vector<int64_t> inputs, labels;
      int64_t bytes = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        const Batch part = loader.batch_at(step, rank, ranks);
        inputs.insert(inputs.end(), part.inputs.begin(), part.inputs.end());
        labels.insert(labels.end(), part.labels.begin(), part.labels.end());
        bytes += part.target_bytes;
      }
      EXPECT_EQ(inputs, whole.inputs);
      EXPECT_EQ(labels, whole.labels);
      EXPECT_EQ(bytes, whole.target_bytes);
    }
  }
}

TEST_F(LoaderTest, MicroBatchesAreTheBatch) {
  Loader loader({&a_.train}, options(32, 7));
  const Batch whole = loader.batch_at(2);
  const std::vector<Batch> parts = micro_batches(whole, 3);
  ASSERT_EQ(parts.size(), 3u);
  int64_t row = 0, targets = 0, bytes = 0;
  for (const Batch& part : parts) {
    Batch same = loader.batch_of(14 + row, part.rows);
    same.target_bytes = part.target_bytes;
    EXPECT_EQ(part, same);
    EXPECT_EQ(part.layout.row_offsets.size(), static_cast<size_t>(part.rows) + 1);
    row += part.rows;
    targets += part.target_tokens;
    bytes += part.target_bytes;
  }
  EXPECT_EQ(row, 7);
  EXPECT_EQ(targets, whole.target_tokens);
  EXPECT_EQ(bytes, whole.target_bytes);
}

TEST_F(LoaderTest, EveryEpochHoldsEverySampleOnceInAnotherOrder) {
  Loader loader({&a_.train}, options(32, 1));
  const int64_t samples = PackingIndex::samples(a_.train, 32);
  std::vector<std::vector<int64_t>> first_inputs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    std::map<int64_t, int64_t> inputs_of;  // by document
    std::vector<int64_t> order;
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t sample = loader.sample_at(epoch * samples + i);
      EXPECT_EQ(loader.origin_of(sample), (Loader::Origin{0, epoch, i}));
      for (const DocumentSpan& span : loader.spans_of(sample)) {
        if (span.document == kPadding) continue;
        inputs_of[span.document] += span.length;
        order.push_back(span.document);
      }
    }
    ASSERT_EQ(inputs_of.size(), 60u);
    for (const auto& [document, inputs] : inputs_of) EXPECT_EQ(inputs, a_.train.length(document) + 1);
    first_inputs.push_back(order);
  }
  EXPECT_NE(first_inputs[0], first_inputs[1]);
  EXPECT_NE(first_inputs[1], first_inputs[2]);
  // One epoch's bytes are the corpus's bytes.
  int64_t bytes = 0;
  for (int64_t i = 0; i < samples; ++i) bytes += loader.batch_of(i, 1).target_bytes;
  EXPECT_EQ(bytes, a_.train.text_bytes());
}

TEST_F(LoaderTest, EpochsAreCountedOverTheWhole) {
  Loader loader({&a_.train, &b_.train}, options(32, 6));
  const auto samples =
      static_cast<double>(PackingIndex::samples(a_.train, 32) + PackingIndex::samples(b_.train, 32));
  EXPECT_EQ(loader.epochs_at(0), 0);
  EXPECT_DOUBLE_EQ(loader.epochs_at(7), 42 / samples);
}

TEST_F(LoaderTest, TakingPrefetchesWhatBatchAtGives) {
  LoaderOptions staged = options();
  // The batch grows: 2 rows a step for ten steps, then 5.
  staged.first_position = [](int64_t step) { return step <= 10 ? 2 * step : 20 + 5 * (step - 10); };
  staged.prefetch = 3;
  Loader loader({&a_.train, &b_.train}, staged);
  for (int64_t step = 4; step < 25; ++step) EXPECT_EQ(loader.take(step), loader.batch_at(step)) << step;
  EXPECT_EQ(loader.take(7), loader.batch_at(7)) << "back again";
  EXPECT_EQ(loader.take(12).rows, 5);
  LoaderOptions none = staged;
  none.prefetch = 0;
  EXPECT_EQ(Loader({&a_.train, &b_.train}, none).take(6), loader.batch_at(6));
}

// Stopped anywhere and started again with the same options, the samples go on as if nothing had happened.
TEST_F(LoaderTest, ResumingNeedsOnlyTheStep) {
  std::vector<Batch> expected;
  {
    Loader loader({&a_.train, &b_.train}, options());
    for (int64_t step = 0; step < 12; ++step) expected.push_back(loader.take(step));
  }
  for (int64_t stop = 0; stop < 12; ++stop) {
    Loader again({&a_.train, &b_.train}, options());
    EXPECT_EQ(again.take(stop), expected[static_cast<size_t>(stop)]);
  }
}

TEST_F(LoaderTest, SkippedSamplesAreNeverSeenAndOthersKeepTheirOrder) {
  LoaderOptions skipping = options();
  skipping.skip = {{10, 13}, {5, 7}, {6, 8}, {100, 100}};
  Loader loader({&a_.train}, skipping);
  std::vector<int64_t> seen;
  for (int64_t position = 0; position < 20; ++position) seen.push_back(loader.sample_at(position));
  EXPECT_EQ(seen,
            (std::vector<int64_t>{0, 1, 2, 3, 4, 8, 9, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}));
}

TEST_F(LoaderTest, DataPositionKeepsAndComparesWhatDecidesTheOrder) {
  LoaderOptions with_skip = options();
  with_skip.skip = {{3, 5}};
  const DataPosition position = Loader({&a_.train}, with_skip).position_before(9);
  EXPECT_EQ(position.first_sample, 54);
  EXPECT_EQ(data_position_from_json(nlohmann::json::parse(to_json(position).dump())), position);
  EXPECT_EQ(error_of([&] { data_position_from_json(nlohmann::json::object()); }).code(),
            ExitCode::kCheckpoint);
  require_same_data(position, Loader({&a_.train}, with_skip).position_before(9));
  for (const DataPosition& elsewhere : {Loader({&a_.train}, options()).position_before(9),
                                        Loader({&a_.train}, with_skip).position_before(8)}) {
    EXPECT_EQ(error_of([&] { require_same_data(position, elsewhere); }).code(), ExitCode::kData);
  }
  LoaderOptions longer = options(33);
  longer.skip = with_skip.skip;
  EXPECT_EQ(error_of([&] {
              require_same_data(position, Loader({&b_.train}, with_skip).position_before(9));
            }).code(),
            ExitCode::kData);
  EXPECT_EQ(
      error_of([&] { require_same_data(position, Loader({&a_.train}, longer).position_before(9)); }).code(),
      ExitCode::kData);
}

// A run of 20 steps that goes back behind step 7 and passes over steps 8 to 12.
TEST_F(LoaderTest, SamplesArePassedOverFromWhereTheyBegin) {
  LoaderOptions with_prefetch = options();
  with_prefetch.prefetch = 3;
  Loader loader({&a_.train}, with_prefetch), plain({&a_.train}, options());
  for (int64_t step = 0; step < 13; ++step) EXPECT_EQ(loader.take(step).inputs, plain.batch_at(step).inputs);
  const SampleRange range = loader.samples_of(8, 12);
  EXPECT_EQ(range, (SampleRange{48, 78}));
  loader.pass_over({range});
  EXPECT_EQ(loader.take(7).inputs, plain.batch_at(7).inputs);
  for (int64_t step = 8; step < 20; ++step)
    EXPECT_EQ(loader.take(step).inputs, plain.batch_at(step + 5).inputs) << step;
  loader.pass_over({range});  // again: nothing new
  EXPECT_EQ(loader.samples_of(8, 8), (SampleRange{78, 84}));
  EXPECT_EQ(loader.position_before(8).skip, std::vector<SampleRange>{range});
}

TEST_F(LoaderTest, AListOfSamplesToPassOverMayGrowBehindWhatWasTrainedOn) {
  LoaderOptions with_skip = options();
  with_skip.skip = {{10, 20}};
  // 30 samples: 0 to 9, 20 to 39
  const DataPosition saved = Loader({&a_.train}, with_skip).position_before(5);
  const auto now = [&](std::vector<SampleRange> skip) {
    DataPosition position = saved;
    position.skip = std::move(skip);
    return position;
  };
  require_same_data(saved, now({{10, 20}, {40, 50}}));
  require_same_data(saved, now({{60, 61}, {10, 20}}));
  const DataPosition at_its_edge = Loader({&a_.train},
                                          [&] {
                                            auto o = options();
                                            o.skip = {{30, 40}};
                                            return o;
                                          }())
                                       .position_before(5);
  DataPosition grown = at_its_edge;
  grown.skip = {{30, 45}};  // the next sample was 40
  require_same_data(at_its_edge, grown);
  for (const auto& other : {std::vector<SampleRange>{{10, 20}, {39, 50}},
                            {{10, 21}},
                            {{9, 20}},
                            {{10, 20}, {0, 1}},
                            {{10, 19}},
                            {}}) {
    EXPECT_EQ(error_of([&] { require_same_data(saved, now(other)); }).code(), ExitCode::kData);
  }
}

TEST_F(LoaderTest, TheFileOfSkipsIsAddedToAndReadStrictly) {
  const auto file = skip_file(folder_ / "run");
  EXPECT_TRUE(read_skips(file).empty());
  add_skip(file, {.range = {40, 50}, .reason = "killed all \"ranks\"", .by = "driver"});
  SkipEntry spike{.range = {45, 60}, .reason = "loss spike at step 9", .by = "trainer"};
  spike.rate_factor = 0.5;
  add_skip(file, spike);
  const auto skips = read_skips(file);
  ASSERT_EQ(skips.size(), 2u);
  EXPECT_EQ(skips[0].reason, "killed all \"ranks\"");
  EXPECT_EQ(skips[0].rate_factor, 1);
  EXPECT_EQ(skips[1].by, "trainer");
  EXPECT_EQ(skips[1].rate_factor, 0.5);
  EXPECT_EQ(ranges_of(skips), (std::vector<SampleRange>{{40, 60}}));
  set_skips(file, "driver", {{.range = {1, 2}, .reason = "a probe"}});
  set_skips(file, "driver", {{.range = {5, 6}, .reason = "another"}, {.range = {9, 10}}});
  EXPECT_EQ(ranges_of(read_skips(file)), (std::vector<SampleRange>{{5, 6}, {9, 10}, {45, 60}}));
  set_skips(file, "driver", {});
  EXPECT_EQ(ranges_of(read_skips(file)), (std::vector<SampleRange>{{45, 60}}));
  for (const char* bad :
       {"{}", "[", R"({"version":2,"ranges":[]})", R"({"version":1,"ranges":[{"begin":5,"end":4}]})",
        R"({"version":1,"ranges":[{"begin":-1,"end":4}]})",
        R"({"version":1,"ranges":[{"begin":1,"end":4,"rate_factor":0}]})"}) {
    EXPECT_EQ(error_of([&] { skips_of(bad, "skip.json"); }).code(), ExitCode::kData) << bad;
  }
  EXPECT_EQ(skipped_in(to_json(Loader({&a_.train}, options()).position_before(3))),
            std::vector<SampleRange>{});
  EXPECT_EQ(skipped_in({{"skip", {{3, 5}}}}), (std::vector<SampleRange>{{3, 5}}));
  EXPECT_EQ(skipped_in({{"first_sample", 3}}), std::vector<SampleRange>{});
}

TEST_F(LoaderTest, BadBlendsAreRefused) {
  LoaderOptions weighted = options();
  weighted.weights = {1, 2, 3};
  EXPECT_EQ(error_of([&] { Loader loader({&a_.train}, weighted); }).code(), ExitCode::kUsage);
  EXPECT_EQ(error_of([&] { Loader loader({}, options()); }).code(), ExitCode::kData);
  EXPECT_EQ(error_of([&] { Loader loader({&a_.held_out}, options()); }).code(), ExitCode::kData);
  const PreparedSource other = prepare(corpus_of(folder_ / "b"), 0, byte_encoder(7), folder_ / "cache");
  EXPECT_EQ(error_of([&] { Loader loader({&a_.train, &other.train}, options()); }).code(), ExitCode::kData);
}

TEST_F(LoaderTest, DamagedShardReachesTheOneWhoTakes) {
  write_file(folder_ / "big/a.txt", std::string(2 << 20, 'x'));
  const Corpus corpus = corpus_of(folder_ / "big");
  const auto shard =
      prepare(corpus, 0, byte_encoder(), folder_ / "cache").folder / "train/shard-00000.tokens";
  std::string bytes = read_file(shard);
  // in the second of five blocks; the tables, which opening checks, are in the last
  bytes[256 + (3 << 19)] ^= 1;
  write_file(shard, bytes);
  const PreparedSource prepared = prepare(corpus, 0, byte_encoder(), folder_ / "cache");
  Loader loader({&prepared.train}, options(65536, 1));
  EXPECT_EQ(loader.take(0).inputs.size(), 65536u);
  const Error error = error_of([&] {
    for (int64_t step = 1; step < 33; ++step) loader.take(step);
  });
  EXPECT_EQ(error.code(), ExitCode::kData);
  EXPECT_EQ(error.fields().where, shard.string());
}

TEST_F(LoaderTest, EvaluationCountsEveryByteOnce) {
  for (const EvaluationOptions& options :
       {EvaluationOptions{.context = 16, .tokens_per_batch = 64},
        EvaluationOptions{.context = 16, .tokens_per_batch = 64, .overlap = 5},
        EvaluationOptions{.context = 1, .tokens_per_batch = 1},
        EvaluationOptions{.context = 1000, .tokens_per_batch = 100},
        EvaluationOptions{.context = 50, .tokens_per_batch = 1000, .overlap = 49}}) {
    EvaluationReader reader({&a_.train, &b_.train}, options);
    int64_t targets = 0, bytes = 0, position = 0;
    std::string text;
    while (const auto batch = reader.next()) {
      batch->layout.validate();
      EXPECT_EQ(batch->layout.documents(), batch->rows);
      EXPECT_EQ(batch->first_position, position);
      EXPECT_TRUE(batch->layout.tokens() <= options.tokens_per_batch || batch->rows == 1);
      for (int64_t d = 0; d < batch->rows; ++d) {
        const auto begin = static_cast<size_t>(batch->layout.document_offsets[static_cast<size_t>(d)]);
        const auto end = static_cast<size_t>(batch->layout.document_offsets[static_cast<size_t>(d) + 1]);
        EXPECT_LE(static_cast<int64_t>(end - begin), options.context);
        for (size_t t = begin; t + 1 < end; ++t)
          EXPECT_TRUE(batch->labels[t] == -1 || batch->labels[t] == batch->inputs[t + 1]);
      }
      for (int64_t label : batch->labels) {
        if (label >= 0) text += label == 256 ? '|' : static_cast<char>(label);
      }
      position += batch->rows;
      targets += batch->target_tokens;
      bytes += batch->target_bytes;
    }
    std::string expected;
    for (const TokenDataset* dataset : {&a_.train, &b_.train}) {
      for (int64_t d = 0; d < dataset->documents(); ++d) expected += text_of(*dataset, d) + "|";
    }
    EXPECT_EQ(text, expected) << "context " << options.context << " overlap " << options.overlap;
    EXPECT_EQ(targets, reader.tokens());
    EXPECT_EQ(bytes, a_.train.text_bytes() + b_.train.text_bytes());
  }
}

TEST_F(LoaderTest, LimitedEvaluationIsTheSameEveryTime) {
  const auto pass = [&] {
    EvaluationReader reader({&a_.train}, {.context = 32, .tokens_per_batch = 128, .limit_tokens = 500});
    std::vector<int64_t> labels;
    while (const auto batch = reader.next())
      labels.insert(labels.end(), batch->labels.begin(), batch->labels.end());
    return labels;
  };
  EXPECT_EQ(pass(), pass());
  EXPECT_GE(pass().size(), 500u);
  EXPECT_LT(pass().size(), 540u);
  EXPECT_EQ(error_of([&] { EvaluationReader reader({&a_.train}, {.context = 8, .overlap = 8}); }).code(),
            ExitCode::kUsage);
}

}  // namespace
}  // namespace longhaul::data

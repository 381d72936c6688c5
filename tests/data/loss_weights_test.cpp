// Which tokens count in the loss: from JSON rows through shards of format 2 to batches and evaluation; shards
// of format 1 beside them.
#include <gmock/gmock.h>

#include <bit>
#include <cstring>
#include <limits>

#include "data/order/batch_share.h"
#include "data/order/evaluation.h"
#include "data/order/loader.h"
#include "data/order/packing.h"
#include "data/support.h"
#include "support/places.h"

namespace longhaul::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int64_t kNone = -1;

CorpusOptions rows_of(const std::filesystem::path& path, recipe::LossOn loss_on) {
  CorpusOptions options;
  options.sources = {path.string()};
  options.source.loss_on = loss_on;
  options.held_out_percent = 0;
  options.remove_copies = true;
  return options;
}

// One dataset of these rows; ids are bytes.
struct Rows {
  Rows(std::string_view rows, recipe::LossOn loss_on = recipe::LossOn::kParts,
       const std::string& name = "rows.jsonl") {
    write_file(folder / name, rows);
    prepared = prepare(Corpus::open(rows_of(folder / name, loss_on)), 0, byte_encoder(), folder / "cache");
  }
  const TokenDataset& train() const { return prepared.train; }
  std::vector<float> weights(int64_t document) const {
    std::vector<float> all(static_cast<size_t>(train().length(document)) + 1);
    train().read_weights(document, 0, all);
    return all;
  }
  TemporaryFolder folder;
  PreparedSource prepared;
};

std::string refusal(std::string_view rows, recipe::LossOn loss_on = recipe::LossOn::kParts) {
  try {
    Rows of(rows, loss_on);
  } catch (const Error& error) {
    return fmt::format("{} | {} | {}", error.fields().expected, error.fields().found, error.fields().where);
  }
  return "";
}

TEST(LossWeights, ComeFromPartsOfRows) {
  const Rows rows(
      R"({"text": [{"text": "ask", "loss": false}, {"text": "ok"}, {"text": "no", "loss": 0}, {"text": "x", "loss": 0.5}]})"
      "\n"
      R"({"text": "whole"})"
      "\n"
      R"({"text": [{"text": "ab", "loss": true}, {"text": "", "loss": false}, {"text": "c", "loss": 1}]})"
      "\n"
      R"({"text": [{"text": "yes"}, {"text": "not", "loss": false, "role": "user"}]})"
      "\n");
  ASSERT_EQ(rows.train().documents(), 4);
  EXPECT_EQ(text_of(rows.train(), 0), "askoknox");
  EXPECT_THAT(rows.weights(0), ElementsAre(0, 0, 0, 1, 1, 0, 0, 0.5, 0.5))
      << "the end weighs as the last part";
  EXPECT_THAT(rows.weights(1), ElementsAre(1, 1, 1, 1, 1, 1));
  EXPECT_EQ(text_of(rows.train(), 2), "abc");
  EXPECT_THAT(rows.train().segments(2), IsEmpty()) << "every part counts";
  EXPECT_THAT(rows.weights(3), ElementsAre(1, 1, 1, 0, 0, 0, 0));
  EXPECT_TRUE(rows.train().weighted());
  EXPECT_EQ(rows.train().counted_labels(), 4 + 6 + 4 + 3);
  EXPECT_EQ(rows.prepared.counts.bytes, 8 + 5 + 3 + 6);
  std::vector<float> some(3);
  rows.train().read_weights(0, 2, some);
  EXPECT_THAT(some, ElementsAre(0, 1, 1));
}

TEST(LossWeights, ComeFromPromptsAndCompletions) {
  const Rows rows(R"({"prompt": "2+2=", "completion": "4", "id": 7})"
                  "\n"
                  R"({"completion": "free", "prompt": ""})"
                  "\n"
                  R"({"prompt": "only", "completion": ""})"
                  "\n",
                  recipe::LossOn::kCompletion);
  EXPECT_EQ(text_of(rows.train(), 0), "2+2=4");
  EXPECT_THAT(rows.weights(0), ElementsAre(0, 0, 0, 0, 1, 1));
  EXPECT_THAT(rows.train().segments(0), ElementsAre(LossSegment{4, 0}, LossSegment{5, 1}));
  EXPECT_THAT(rows.weights(1), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(rows.weights(2), ElementsAre(0, 0, 0, 0, 0));
}

// A .json file with one array of rows shows that it holds rows, and not one text.
TEST(LossWeights, ComeFromArraysToo) {
  const Rows parts(R"([{"text": [{"text": "a", "loss": false}, {"text": "b"}]}, {"text": [{"text": "c"}]}])",
                   recipe::LossOn::kParts, "rows.json");
  ASSERT_EQ(parts.train().documents(), 2);
  EXPECT_THAT(parts.weights(0), ElementsAre(0, 1, 1));
  const Rows completions(R"([{"prompt": "a", "completion": "b"}])", recipe::LossOn::kCompletion, "rows.json");
  EXPECT_THAT(completions.weights(0), ElementsAre(0, 1, 1));
}

TEST(LossWeights, TheSameTextWithOtherWeightsIsNoCopy) {
  const Rows rows(R"({"text": [{"text": "same", "loss": false}, {"text": "text"}]})"
                  "\n"
                  R"({"text": [{"text": "same"}, {"text": "text", "loss": false}]})"
                  "\n"
                  R"({"text": [{"text": "same", "loss": false}, {"text": "text"}]})"
                  "\n");
  EXPECT_EQ(rows.train().documents(), 2);
  EXPECT_EQ(rows.prepared.counts.copies, 1);
}

TEST(LossWeights, BadRowsAreNamed) {
  using enum recipe::LossOn;
  EXPECT_THAT(refusal(R"({"text": [{"loss": false}]})"), HasSubstr("a part without a string \"text\""));
  EXPECT_THAT(refusal(R"({"text": [{"text": "a", "loss": "no"}]})"),
              HasSubstr("neither true, false nor a number"));
  EXPECT_THAT(refusal(R"({"text": [{"text": "a", "loss": -1}]})"),
              HasSubstr("neither true, false nor a number"));
  EXPECT_THAT(refusal(R"({"text": [{"text": "a", "loss": 1e300}]})"),
              HasSubstr("neither true, false nor a number"));
  EXPECT_THAT(refusal(R"({"text": [{"text": "a", "loss": null}]})"),
              HasSubstr("neither true, false nor a number"));
  EXPECT_THAT(refusal(R"({"text": ["a"]})"), HasSubstr("a part that is no object"));
  EXPECT_THAT(refusal(R"({"other": []})"), HasSubstr("no list \"text\""));
  EXPECT_THAT(refusal("{\"prompt\": \"a\", \"completion\": \"b\"}\n{\"prompt\": \"a\"}", kCompletion),
              ::testing::AllOf(HasSubstr("\"prompt\" and \"completion\""),
                               HasSubstr("no string \"completion\""), HasSubstr("rows.jsonl:2")));
  EXPECT_THAT(refusal("{\"prompt\": 5, \"completion\": \"b\"}", kCompletion),
              HasSubstr("no string \"prompt\""));
  EXPECT_THAT(refusal("{\"text\": [{\"text\": \"\xff\"}]}"), HasSubstr("UTF-8"));
}

// A row of 16 inputs: the begin of the first document, its labels, then the second's.
TEST(LossWeights, ReachTheBatchAsWeightsAndIgnoredLabels) {
  const Rows rows(R"({"text": [{"text": "abc", "loss": false}, {"text": "de", "loss": 2}]})"
                  "\n");
  write_file(rows.folder / "plain" / "a.txt", "whole");
  const PreparedSource plain =
      prepare(corpus_of(rows.folder / "plain"), 0, byte_encoder(), rows.folder / "cache");
  EXPECT_FALSE(plain.train.weighted());

  Loader loader({&rows.train()}, with_batch({.sequence = 8}, 1));
  const Batch batch = loader.batch_at(0);
  EXPECT_THAT(batch.inputs, ElementsAre(256, 'a', 'b', 'c', 'd', 'e', 256, 256));
  EXPECT_THAT(batch.labels, ElementsAre(kNone, kNone, kNone, 'd', 'e', 256, kNone, kNone));
  EXPECT_THAT(std::vector<float>(batch.weights.begin(), batch.weights.begin() + 6),
              ElementsAre(0, 0, 0, 2, 2, 2));
  EXPECT_EQ(batch.target_tokens, 3);
  EXPECT_EQ(batch.target_bytes, 2);
  EXPECT_EQ(batch.target_weight(), 6);
  EXPECT_THAT(batch.layout.positions, ElementsAre(0, 1, 2, 3, 4, 5, 0, 1));
  EXPECT_EQ(batch_from_bytes(to_bytes(batch)), batch);

  // A sample in the middle of the document has its own part of the weights.
  Loader halves({&rows.train()}, with_batch({.sequence = 4}, 2));
  const Batch both = halves.batch_at(0);
  for (const Batch& part : micro_batches(both, 1)) {
    ASSERT_EQ(part.weights.size(), 4u);
    const bool first = part.inputs[0] == 256;
    EXPECT_EQ(part.target_weight(), first ? 2 : 4) << first;
    EXPECT_EQ(part.labels[first ? 3 : 0], first ? 'd' : 'e');
  }

  // Beside it, what says nothing counts whole; alone, it has no weights.
  Loader mixed({&rows.train(), &plain.train}, with_batch({.sequence = 8, .weights = {1, 1}}, 4));
  const Batch all = mixed.batch_at(0);
  EXPECT_EQ(all.weights.size(), all.labels.size());
  EXPECT_EQ(all.target_weight(), 2 * 6 + 2 * 6);
  Loader alone({&plain.train}, with_batch({.sequence = 8}, 1));
  EXPECT_TRUE(alone.batch_at(0).weights.empty());
  EXPECT_EQ(alone.batch_at(0).target_weight(), 6);
}

TEST(LossWeights, EvaluationJudgesWhatCounts) {
  const Rows rows(R"({"text": [{"text": "abc", "loss": false}, {"text": "de", "loss": 2}]})"
                  "\n");
  EvaluationReader reader({&rows.train()}, {.context = 4, .tokens_per_batch = 64, .overlap = 2});
  int64_t targets = 0, bytes = 0;
  while (const auto batch = reader.next()) {
    targets += batch->target_tokens;
    bytes += batch->target_bytes;
    EXPECT_TRUE(batch->weights.empty()) << "no label counts more than another";
  }
  EXPECT_EQ(targets, 3);
  EXPECT_EQ(bytes, 2);
}

// ---- shards

ShardIdentity weighed_identity() { return {sha256_hex("tokenizer"), sha256_hex("preparation"), 300, 0}; }

std::filesystem::path weighed_shard(const std::filesystem::path& path, bool weighed = true) {
  ShardWriter writer(path, weighed_identity());
  const std::vector<int32_t> ids = {1, 2, 3, 4, 5};
  writer.append(ids);
  if (weighed)
    writer.end_document(5, std::vector<LossSegment>{{2, 0.0f}, {5, 1.5f}});
  else
    writer.end_document(5);
  writer.append(std::span(ids).first(2));
  writer.end_document(2);
  writer.end_document(0);
  writer.finish();
  return path;
}

TEST(WeighedShard, KeepsSegmentsAndIsWrittenOnlyWhereThereAreSome) {
  TemporaryFolder folder;
  const TokenShard shard = TokenShard::open(weighed_shard(folder / "a.tokens")),
                   plain = TokenShard::open(weighed_shard(folder / "b.tokens", false));
  EXPECT_THAT(shard.segments(0), ElementsAre(LossSegment{2, 0.0f}, LossSegment{5, 1.5f}));
  EXPECT_THAT(shard.segments(1), IsEmpty());
  EXPECT_THAT(shard.segments(2), IsEmpty());
  shard.verify();
  EXPECT_EQ(read_file(folder / "a.tokens")[8], 2);
  EXPECT_EQ(read_file(folder / "b.tokens")[8], 1);
  EXPECT_EQ(plain.header().segments, 0);
  EXPECT_NE(shard.header().blocks_checksum, plain.header().blocks_checksum)
      << "the fingerprint of a dataset is made of it";
}

// Bytes that someone changed, with checksums that fit.
void expect_refused(const std::filesystem::path& path, size_t at, const std::string& value,
                    std::string_view why) {
  std::string bytes = read_file(path);
  std::memcpy(bytes.data() + at, value.data(), value.size());
  const auto hash = [&](size_t begin, size_t end) {
    return xxh3(std::as_bytes(std::span(bytes)).subspan(begin, end - begin));
  };
  const uint64_t block = hash(256, bytes.size() - 8);
  std::memcpy(bytes.data() + bytes.size() - 8, &block, 8);
  const uint64_t table = hash(bytes.size() - 8, bytes.size());
  std::memcpy(bytes.data() + 128, &table, 8);
  const uint64_t header = hash(0, 248);
  std::memcpy(bytes.data() + 248, &header, 8);
  const std::filesystem::path changed = path.string() + ".changed";
  write_file(changed, bytes);
  try {
    TokenShard::open(changed);
    ADD_FAILURE() << "accepted: " << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.fields().expected, HasSubstr(why));
  }
}

template <class Number>
std::string bytes_of(Number value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

TEST(WeighedShard, RefusesWhatCannotBe) {
  TemporaryFolder folder;
  const auto path = weighed_shard(folder / "a.tokens");
  // 7 tokens of 2 bytes padded to 16; then ends, bytes and segments of 3 documents, ends and weights of 2
  // segments.
  const size_t of_documents = 256 + 16 + 2 * 24, ends = of_documents + 24, weights = ends + 16;
  ASSERT_EQ(read_file(path).size(), weights + 8 + 8);
  expect_refused(path, 8, bytes_of(uint32_t{3}), "version 1 or 2");
  expect_refused(path, 8, bytes_of(uint32_t{1}), "sensible numbers");
  expect_refused(path, 144, bytes_of(int64_t{0}), "sensible numbers");
  expect_refused(path, 144, bytes_of(int64_t{3}), "sizes that add up");
  expect_refused(path, of_documents, bytes_of(int64_t{3}), "segments of documents in ascending order");
  expect_refused(path, of_documents, bytes_of(int64_t{1}), "segments of 5 tokens");
  expect_refused(path, ends, bytes_of(int64_t{6}), "ends of segments in ascending order");
  expect_refused(path, ends + 8, bytes_of(int64_t{4}), "segments of 5 tokens");
  expect_refused(path, weights, bytes_of(-1.0f), "weights of 0 or more");
  expect_refused(path, weights, bytes_of(std::numeric_limits<float>::quiet_NaN()), "weights of 0 or more");
}

// Written by the program before there was format 2, and never again; the fingerprint is SHA-256 of what
// docs/formats/token-shards.md says.
TEST(CompatShards, VersionOneReadsWithItsFingerprint) {
  const auto folder = std::filesystem::path(source_folder()) / "tests" / "compat" / "tokens-v1";
  const PreparedSource prepared = PreparedSource::open(folder);
  EXPECT_EQ(prepared.train.fingerprint(), "475e54c5d826f9a130073e8faea01922c088a25841d209e1151f757d366a4617");
  ASSERT_EQ(prepared.train.documents(), 4);
  EXPECT_EQ(text_of(prepared.train, 0), "The first document.");
  EXPECT_EQ(text_of(prepared.train, 3), "held out perhaps, the fifth");
  EXPECT_EQ(text_of(prepared.held_out, 0), "A fourth one,\nof two lines.");
  EXPECT_FALSE(prepared.train.weighted());
  EXPECT_EQ(prepared.train.counted_labels(), 63 + 4);
  prepared.train.verify();
  // The writer of today makes the same file.
  TemporaryFolder made;
  ShardWriter writer(made / "again.tokens", prepared.identity);
  for (int64_t d = 0; d < 4; ++d) {
    std::vector<int64_t> ids(static_cast<size_t>(prepared.train.length(d)));
    prepared.train.read(d, 0, ids);
    writer.append(std::vector<int32_t>(ids.begin(), ids.end()));
    writer.end_document(prepared.train.text_bytes(d));
  }
  writer.finish();
  EXPECT_EQ(read_file(made / "again.tokens"), read_file(folder / "train" / "shard-00000.tokens"));
}

// Written by a script from the page on the format alone, not by this program.
TEST(CompatShards, VersionTwoReadsWithItsFingerprint) {
  const PreparedSource prepared =
      PreparedSource::open(std::filesystem::path(source_folder()) / "tests" / "compat" / "tokens-v2");
  EXPECT_EQ(prepared.train.fingerprint(), "d5558246332b1b6392a693f6446d1fc555454de2f38848da6a3a2fdb994156a3");
  ASSERT_EQ(prepared.train.documents(), 3);
  EXPECT_EQ(text_of(prepared.train, 0), "ask: yes");
  EXPECT_THAT(prepared.train.segments(0), ElementsAre(LossSegment{5, 0}, LossSegment{8, 1}));
  EXPECT_THAT(prepared.train.segments(1), IsEmpty());
  EXPECT_THAT(prepared.train.segments(2), ElementsAre(LossSegment{4, 0.5}));
  EXPECT_EQ(prepared.train.counted_labels(), 4 + 6 + 5);
  EXPECT_TRUE(prepared.train.weighted());
  EXPECT_FALSE(prepared.held_out.weighted());
  prepared.train.verify();
}

}  // namespace
}  // namespace longhaul::data

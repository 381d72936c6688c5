// Whole documents: samples that bring their own first and last token, are never cut where they fit, and whose
// first token is no label.
#include <gmock/gmock.h>

#include <algorithm>
#include <map>

#include "data/order/evaluation.h"
#include "data/order/loader.h"
#include "data/order/whole_packing.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

struct WholeDocument {
  std::vector<int32_t> ids;
  std::vector<LossSegment> segments{};
  int64_t bytes = 0;
};

// A dataset of these documents, whose ids are below 100.
class WholeDocuments {
 public:
  explicit WholeDocuments(const std::vector<WholeDocument>& documents, int32_t begin = kWholeDocuments) {
    const ShardIdentity identity{std::string(64, 'a'), std::string(64, 'b'), 100, 99, begin};
    std::filesystem::create_directories(folder_ / "train");
    ShardWriter writer(folder_ / "train" / "shard-00000.tokens", identity);
    for (const WholeDocument& each : documents) {
      writer.append(each.ids);
      writer.end_document(each.bytes, each.segments);
    }
    const ShardHeader header = writer.finish();
    const std::vector<ShardEntry> shards{
        {"shard-00000.tokens", header.documents, header.tokens, header.text_bytes, header.blocks_checksum}};
    dataset = TokenDataset::open(folder_ / "train", shards, identity);
  }
  std::filesystem::path index() const { return folder_ / "index"; }

 private:
  TemporaryFolder folder_;

 public:
  TokenDataset dataset;
};

// `length` tokens: 10 × number, + 1, …
WholeDocument numbered(int32_t number, int64_t length) {
  WholeDocument document;
  for (int64_t i = 0; i < length; ++i) document.ids.push_back(static_cast<int32_t>(10 * number + i % 10));
  return document;
}

TEST(WholeDocument, LabelsAreAllTokensButTheFirst) {
  const WholeDocuments of(
      {{.ids = {5, 6, 7, 8}, .segments = {{2, 0}, {4, 1}}, .bytes = 9}, {.ids = {1, 2}, .bytes = 2}});
  const TokenDataset& data = of.dataset;
  EXPECT_TRUE(data.identity().whole()) << "the shard keeps it";
  EXPECT_EQ(data.labels(0), 3);
  EXPECT_EQ(data.labels(), 4);
  std::vector<int64_t> inputs(3), labels(3);
  std::vector<float> weights(3);
  read_span(data, {0, 0, 3}, inputs, labels);
  EXPECT_THAT(inputs, ElementsAre(5, 6, 7));
  EXPECT_THAT(labels, ElementsAre(6, 7, 8));
  weigh_span(data, {0, 0, 3}, labels, weights);
  EXPECT_THAT(weights, ElementsAre(0, 1, 1));
  EXPECT_THAT(labels, ElementsAre(-1, 7, 8));
  EXPECT_EQ(data.counted_labels(), 2 + 1) << "7 and 8, and of the second document its second token";
  EXPECT_EQ(span_bytes(data, {0, 0, 3}), 9) << "its labels share the bytes of the text";
  EXPECT_EQ(span_bytes(data, {0, 0, 1}) + span_bytes(data, {0, 1, 2}), 9);
  std::vector<float> later(2);
  data.read_weights(0, 1, later);
  EXPECT_THAT(later, ElementsAre(1, 1));
}

TEST(WholeDocument, AFirstTokenThatWeighsIsNoLabel) {
  const WholeDocuments of({{.ids = {5, 6, 7}, .segments = {{1, 1}, {2, 0}, {3, 0.5f}}}});
  EXPECT_EQ(of.dataset.counted_labels(), 1);
  std::vector<float> weights(2);
  of.dataset.read_weights(0, 0, weights);
  EXPECT_THAT(weights, ElementsAre(0, 0.5f));
}

TEST(WholeDocument, IsAnotherDatasetThanTheSameTokensBetweenSeparators) {
  const WholeDocuments whole({numbered(1, 5)}), between({numbered(1, 5)}, 99);
  EXPECT_NE(whole.dataset.fingerprint(), between.dataset.fingerprint());
}

// By hand: 7 opens row 0, 5 row 1, 4 row 2; 3 goes into row 1, which it fills; both 2 into row 2.
TEST(WholePacking, PutsTheLongestFirstIntoTheFullestRowWithRoom) {
  const std::vector<int64_t> labels{2, 3, 5, 7, 2, 4}, order{0, 1, 2, 3, 4, 5};
  const WholeRows rows = pack_whole(labels, order, 8);
  EXPECT_THAT(rows.ends, ElementsAre(1, 3, 6));
  EXPECT_THAT(rows.pieces, ElementsAre(WholePiece{3, 0}, WholePiece{2, 0}, WholePiece{1, 0}, WholePiece{5, 0},
                                       WholePiece{0, 0}, WholePiece{4, 0}));
  EXPECT_EQ(count_whole_rows(labels, 8), 3);
}

TEST(WholePacking, TakesTheRowWithLeastRoomAndNotTheFirst) {
  const std::vector<int64_t> labels{6, 7, 3}, order{0, 1, 2};
  EXPECT_EQ(count_whole_rows(labels, 10), 1 + 1) << "3 goes beside 7, which leaves row 6 as it was";
  EXPECT_THAT(pack_whole(labels, order, 10).pieces,
              ElementsAre(WholePiece{1, 0}, WholePiece{2, 0}, WholePiece{0, 0}));
}

TEST(WholePacking, CutsOnlyWhatIsLongerThanARowAndLeavesOutWhatHasNoLabel) {
  const std::vector<int64_t> labels{10, 4, 0}, order{2, 1, 0};
  const WholeRows rows = pack_whole(labels, order, 8);
  EXPECT_THAT(rows.pieces, ElementsAre(WholePiece{0, 0}, WholePiece{1, 0}, WholePiece{0, 8}));
  EXPECT_THAT(rows.ends, ElementsAre(1, 3));
}

TEST(WholePacking, OfADatasetHasEveryDocumentOnceAndUncut) {
  std::vector<WholeDocument> documents;
  for (int32_t d = 0; d < 9; ++d) documents.push_back(numbered(d, 2 + (d * 5) % 9));
  const WholeDocuments of(documents);
  std::vector<std::vector<int64_t>> orders;
  for (const int64_t epoch : {0, 1, 2}) {
    const PackingIndex index = PackingIndex::open_or_make(of.dataset, 12, epoch, 3, of.index());
    EXPECT_EQ(index.samples(), PackingIndex::samples(of.dataset, 12));
    const PackingIndex again = PackingIndex::open_or_make(of.dataset, 12, epoch, 3, of.index());
    std::map<int64_t, int64_t> times;
    orders.emplace_back();
    for (int64_t sample = 0; sample < index.samples(); ++sample) {
      int64_t inputs = 0;
      EXPECT_EQ(index.sample(of.dataset, sample), again.sample(of.dataset, sample));
      for (const DocumentSpan& span : index.sample(of.dataset, sample)) {
        inputs += span.length;
        if (span.document == kPadding) continue;
        ++times[span.document];
        orders.back().push_back(span.document);
        EXPECT_EQ(span.start, 0);
        EXPECT_EQ(span.length, of.dataset.length(span.document) - 1);
      }
      EXPECT_EQ(inputs, 12);
    }
    EXPECT_THAT(times, SizeIs(9));
    EXPECT_TRUE(std::ranges::all_of(times, [](const auto& entry) { return entry.second == 1; }));
  }
  EXPECT_NE(orders[0], orders[1]) << "an epoch has an order of its own";
}

TEST(WholePacking, OfALoaderResetsAtEveryDocumentAndPadsWithIgnoredLabels) {
  const WholeDocuments of({{.ids = {1, 2, 3, 4}, .segments = {{2, 0}, {4, 2}}}, {.ids = {5, 6, 7}}});
  LoaderOptions options = with_batch({.sequence = 7, .prefetch = 0, .index_folder = of.index()}, 1);
  const Loader loader({&of.dataset}, options);
  const Batch batch = loader.batch_at(0);
  EXPECT_THAT(batch.inputs, ElementsAre(1, 2, 3, 5, 6, 99, 99));
  EXPECT_THAT(batch.labels, ElementsAre(-1, 3, 4, 6, 7, -1, -1));
  EXPECT_THAT(batch.layout.document_offsets, ElementsAre(0, 3, 5, 7));
  EXPECT_EQ(batch.target_weight(), 2 + 2 + 1 + 1);
}

TEST(WholeDocument, IsJudgedAloneWithOnlyTheLabelsThatCount) {
  const WholeDocuments of(
      {{.ids = {1, 2, 3, 4}, .segments = {{2, 0}, {4, 1}}, .bytes = 3}, {.ids = {5, 6, 7}, .bytes = 2}});
  EvaluationReader reader({&of.dataset}, {.context = 16, .tokens_per_batch = 16});
  EXPECT_EQ(reader.tokens(), 5);
  const std::optional<Batch> batch = reader.next();
  ASSERT_TRUE(batch);
  EXPECT_THAT(batch->inputs, ElementsAre(1, 2, 3, 5, 6));
  EXPECT_THAT(batch->labels, ElementsAre(-1, 3, 4, 6, 7));
  EXPECT_EQ(batch->target_tokens, 4);
  EXPECT_EQ(batch->target_bytes, 2 + 2);
  EXPECT_FALSE(reader.next());
}

}  // namespace
}  // namespace longhaul::data

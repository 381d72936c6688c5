#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include "data/order/blend.h"
#include "data/order/packing.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

class PackingTest : public testing::Test {
 protected:
  PackingTest() {
    write_documents(folder_ / "text", 60, 400);
    prepared_ =
        prepare(corpus_of(folder_ / "text"), 0, byte_encoder(), folder_ / "cache", {.shard_tokens = 3000});
  }
  TemporaryFolder folder_;
  PreparedSource prepared_;
};

TEST_F(PackingTest, EveryLabelOfEveryDocumentComesOncePerEpoch) {
  const TokenDataset& data = prepared_.train;
  for (int64_t sequence : {1, 7, 64, 1000, 1000000}) {
    const PackingIndex index = PackingIndex::open_or_make(data, sequence, 3, 17, folder_ / "index");
    ASSERT_EQ(index.samples(), PackingIndex::samples(data, sequence));
    std::map<int64_t, std::string> text;
    std::map<int64_t, int64_t> next_label, bytes;
    std::vector<DocumentSpan> all;
    for (int64_t i = 0; i < index.samples(); ++i) {
      int64_t length = 0;
      for (const DocumentSpan& span : index.sample(data, i)) {
        length += span.length;
        all.push_back(span);
      }
      ASSERT_EQ(length, sequence);
    }
    std::sort(all.begin(), all.end(), [](const DocumentSpan& a, const DocumentSpan& b) {
      return std::tie(a.document, a.start) < std::tie(b.document, b.start);
    });
    for (size_t i = 0; i < all.size(); ++i) {
      const DocumentSpan& span = all[i];
      std::vector<int64_t> inputs(static_cast<size_t>(span.length)), labels(inputs.size());
      read_span(data, span, inputs, labels);
      if (span.document == kPadding) {
        EXPECT_EQ(i, 0u) << "only one sample is filled";
        EXPECT_TRUE(std::all_of(labels.begin(), labels.end(), [](int64_t l) { return l == -1; }));
        continue;
      }
      // The parts of a document have no gap between them.
      EXPECT_EQ(span.start, next_label[span.document]);
      next_label[span.document] += span.length;
      bytes[span.document] += span_bytes(data, span);
      EXPECT_EQ(inputs[0], span.start == 0 ? 256 : static_cast<unsigned char>(text[span.document].back()));
      for (size_t k = 0; k < labels.size(); ++k) {
        if (k > 0) {
          EXPECT_EQ(inputs[k], labels[k - 1]);
        }
        if (labels[k] != 256) text[span.document] += static_cast<char>(labels[k]);
      }
      if (next_label[span.document] == data.length(span.document) + 1) {
        EXPECT_EQ(labels.back(), 256);
      }
    }
    ASSERT_EQ(text.size(), 60u);
    for (const auto& [document, found] : text) {
      EXPECT_EQ(found, text_of(data, document));
      EXPECT_EQ(next_label[document], data.length(document) + 1);
      EXPECT_EQ(bytes[document], data.text_bytes(document));
    }
  }
}

TEST_F(PackingTest, OrderDependsOnSeedAndEpochOnly) {
  const TokenDataset& data = prepared_.train;
  const auto order = [&](int64_t epoch, uint64_t seed, const char* folder) {
    const PackingIndex index = PackingIndex::open_or_make(data, 64, epoch, seed, folder_ / folder);
    std::vector<DocumentSpan> all;
    for (int64_t i = 0; i < index.samples(); ++i) {
      for (const DocumentSpan& span : index.sample(data, i)) all.push_back(span);
    }
    return all;
  };
  EXPECT_EQ(order(0, 1, "a"), order(0, 1, "b"));
  EXPECT_NE(order(0, 1, "a"), order(1, 1, "a"));
  EXPECT_NE(order(0, 1, "a"), order(0, 2, "a"));
}

// Training on one file after another forgets the earlier ones: a document of a hundred samples must be spread
// over the epoch.
TEST_F(PackingTest, PiecesOfALongDocumentAreSpreadOverTheEpoch) {
  const TokenDataset& data = prepared_.train;
  const PackingIndex index = PackingIndex::open_or_make(data, 4, 0, 5, folder_ / "index");
  int64_t neighbours = 0;
  std::map<int64_t, int64_t> pieces;
  for (int64_t i = 0, before = kPadding; i < index.samples(); ++i) {
    const int64_t document = index.sample(data, i)[0].document;
    neighbours += i > 0 && document == before;
    ++pieces[document];
    before = document;
  }
  double expected = 0;  // neighbours that a random order has: Σ n (n − 1) / samples
  for (const auto& [document, count] : pieces)
    expected += static_cast<double>(count * (count - 1)) / static_cast<double>(index.samples());
  ASSERT_GT(index.samples(), 1000);
  EXPECT_LT(static_cast<double>(neighbours), expected + 5 * std::sqrt(expected)) << "of " << index.samples();
}

TEST_F(PackingTest, IndexIsReusedAndMadeAgainWhenDamaged) {
  const TokenDataset& data = prepared_.train;
  const auto path = PackingIndex::open_or_make(data, 64, 0, 1, folder_ / "index").path();
  const std::string good = read_file(path);
  std::filesystem::create_hard_link(path, folder_ / "the file itself");
  PackingIndex::open_or_make(data, 64, 0, 1, folder_ / "index");
  EXPECT_TRUE(std::filesystem::equivalent(path, folder_ / "the file itself")) << "made again";
  const PackingKey key{data.fingerprint(), 64, 0, 1};
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    write_file(path, bad);
    EXPECT_EQ(error_of([&] { PackingIndex::open(path, key, data.documents()); }).code(), ExitCode::kData)
        << at;
  }
  write_file(path, good.substr(0, good.size() - 8));
  EXPECT_EQ(error_of([&] { PackingIndex::open(path, key, data.documents()); }).code(), ExitCode::kData);
  PackingIndex::open_or_make(data, 64, 0, 1, folder_ / "index");
  EXPECT_EQ(read_file(path), good);
  EXPECT_EQ(error_of([&] {
              PackingIndex::open(path, {data.fingerprint(), 64, 1, 1}, data.documents());
            }).code(),
            ExitCode::kData);
}

TEST(Blend, CountsStayWithinTwoOfTheWeightsAtEveryPrefix) {
  const std::vector<std::vector<double>> cases = {{1},
                                                  {1, 1},
                                                  {0.7, 0.3},
                                                  {7, 2, 1},
                                                  {0.5, 0, 0.5},
                                                  {1e-3, 1},
                                                  {1e-5, 1, 1e-5, 1e-5},
                                                  {1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89},
                                                  {3.14159, 2.71828, 1.41421, 0.57721},
                                                  {123456, 7891, 55},
                                                  std::vector<double>(17, 1.0)};
  for (const auto& weights : cases) {
    const Blend blend(weights);
    std::vector<int64_t> given(weights.size(), 0);
    double sum = 0;
    for (double weight : weights) sum += weight;
    for (int64_t n = 0; n < 300000; ++n) {
      const Blend::Place place = blend.at(n);
      ASSERT_EQ(place.index, given[static_cast<size_t>(place.dataset)]++);
      if (n > 1000 && n % 97 != 0) continue;
      for (size_t k = 0; k < weights.size(); ++k) {
        ASSERT_LT(std::abs(static_cast<double>(n + 1) * weights[k] / sum - static_cast<double>(given[k])),
                  2.0)
            << k << " of " << n;
      }
    }
    for (size_t k = 0; k < weights.size(); ++k)
      EXPECT_DOUBLE_EQ(blend.weight(static_cast<int64_t>(k)), weights[k] / sum);
  }
}

// By hand: ten bytes are four tokens, which share them evenly, rounded down in sum; the end of the document
// stands for none.
TEST(SpanBytes, AreOfTheTokensAndNotOfTheSeparator) {
  TemporaryFolder folder;
  write_file(folder / "text/a.txt", "0123456789");
  Encoder encoder = byte_encoder();
  encoder.encode = [](std::string_view text, std::vector<int32_t>& ids) {
    for (size_t at = 0; at < text.size(); at += 3) ids.push_back(static_cast<unsigned char>(text[at]));
  };
  encoder.sha256 = sha256_hex("three bytes an id");
  const TokenDataset data = prepare(corpus_of(folder / "text"), 0, encoder, folder / "cache").train;
  ASSERT_EQ(data.length(0), 4);
  const auto bytes = [&](int64_t start, int64_t length) { return span_bytes(data, {0, start, length}); };
  EXPECT_EQ(bytes(0, 1), 2);
  EXPECT_EQ(bytes(1, 1), 3);
  EXPECT_EQ(bytes(2, 1), 2);
  EXPECT_EQ(bytes(3, 1), 3);
  EXPECT_EQ(bytes(4, 1), 0) << "the separator";
  EXPECT_EQ(bytes(0, 4), 10);
  EXPECT_EQ(bytes(3, 2), 3);
  EXPECT_EQ(span_bytes(data, {kPadding, 0, 5}), 0);
}

// There is no smallest weight: each is sampled in its proportion, far out in a run too.
TEST(Blend, SmallWeightsAreSampled) {
  for (const double weight : {1.0 / 70000, 1e-6, 1e-9, 1e-12}) {
    const Blend blend(std::vector<double>{1 - weight, weight});
    for (const int64_t samples : {int64_t{1} << 20, int64_t{1} << 40, int64_t{1} << 55}) {
      const Blend::Place place = blend.at(samples);
      const int64_t of_small = place.dataset == 1 ? place.index : samples - place.index;
      EXPECT_NEAR(static_cast<double>(of_small), static_cast<double>(samples) * weight,
                  1.01 + static_cast<double>(samples) * weight * 1e-9);
    }
  }
  const Blend third(std::vector<double>{1e-6, 1, 1e-6});
  EXPECT_NEAR(static_cast<double>(third.at(1000000000).index), 1e9 * (1 - 2e-6), 10);
}

TEST(Blend, BadWeightsAreRefused) {
  for (const auto& weights :
       {std::vector<double>{}, {0, 0}, {1, -1}, {NAN, 1}, {INFINITY}, {1e308, 1e308}, {1, 1e-20}}) {
    EXPECT_EQ(error_of([&] { Blend blend(weights); }).code(), ExitCode::kUsage);
  }
}

}  // namespace
}  // namespace longhaul::data

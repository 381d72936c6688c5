// ctest: label=full timeout=300
// Memory stays bounded whatever the input: one line of 200 MB as text and as JSON, packed into a few hundred
// KB.
#include "base/machine/machine.h"
#include "data/support.h"
#include "data/tokenizer/commands.h"

namespace longhaul::data {
namespace {

constexpr int64_t kBytes = 200'000'000;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// with the sanitizer's shadow, and the freed memory that AddressSanitizer keeps (256 MB)
constexpr int64_t kGrowth = 500'000'000;
#else
constexpr int64_t kGrowth = 100'000'000;
#endif

void write_gzip(const std::filesystem::path& path, const std::string& before, const std::string& after) {
  gzFile file = gzopen(path.c_str(), "wb1");
  ASSERT_NE(file, nullptr);
  gzwrite(file, before.data(), static_cast<unsigned>(before.size()));
  const std::string spaces(1 << 20, ' ');
  for (int64_t left = kBytes; left > 0; left -= static_cast<int64_t>(spaces.size())) {
    gzwrite(file, spaces.data(),
            static_cast<unsigned>(std::min<int64_t>(left, static_cast<int64_t>(spaces.size()))));
  }
  gzwrite(file, after.data(), static_cast<unsigned>(after.size()));
  gzclose(file);
}

void expect_bounded(const Corpus& corpus, const Encoder& encoder, const std::filesystem::path& cache) {
  const int64_t before = peak_resident_bytes();
  const PreparedSource prepared = prepare(corpus, 0, encoder, cache);
  EXPECT_EQ(prepared.train.text_bytes(), kBytes);
  EXPECT_LT(peak_resident_bytes() - before, kGrowth);
}

TEST(BoundedMemory, OneHugeLineOfText) {
  TemporaryFolder folder;
  write_gzip(folder / "a.txt.gz", "", "");
  expect_bounded(corpus_of(folder / "a.txt.gz", 0, true), byte_encoder(), folder / "cache");
}

TEST(BoundedMemory, OneHugeLineOfJson) {
  TemporaryFolder folder;
  write_gzip(folder / "a.jsonl.gz", "{\"id\": 1, \"text\": \"", "\"}");
  expect_bounded(corpus_of(folder / "a.jsonl.gz"), byte_encoder(), folder / "cache");
}

TEST(BoundedMemory, OneHugeLineThroughARealTokenizer) {
  TemporaryFolder folder;
  write_gzip(folder / "a.txt.gz", "", "");
  expect_bounded(corpus_of(folder / "a.txt.gz"), encoder_of(Tokenizer::bytes()), folder / "cache");
}

// One file of many documents, and one of a single one: `tokenizer train` holds neither.
TEST(BoundedMemory, TrainingATokenizer) {
  TemporaryFolder folder;
  {
    gzFile file = gzopen((folder / "a.jsonl.gz").c_str(), "wb1");
    for (int i = 0; i < 500000; ++i) gzprintf(file, "{\"text\": \"%0392d\"}\n", i % 1000);
    gzclose(file);
  }
  write_gzip(folder / "b.txt.gz", "", "");
  const int64_t before = peak_resident_bytes();
  const TrainReport report =
      train_tokenizer_on_paths({(folder / "a.jsonl.gz").string(), (folder / "b.txt.gz").string()}, "text",
                               folder / "tokenizer.json", {.vocabulary = 300});
  EXPECT_EQ(report.files, 2);
  EXPECT_EQ(report.bytes, 500000 * 392 + kBytes);
  EXPECT_LT(peak_resident_bytes() - before, kGrowth);
}

TEST(BoundedMemory, ManySmallDocuments) {
  TemporaryFolder folder;
  {
    gzFile file = gzopen((folder / "a.jsonl.gz").c_str(), "wb1");
    for (int i = 0; i < 500000; ++i) gzprintf(file, "{\"text\": \"%0392d\"}\n", i);
    gzclose(file);
  }
  const int64_t before = peak_resident_bytes();
  const PreparedSource prepared =
      prepare(corpus_of(folder / "a.jsonl.gz"), 0, byte_encoder(), folder / "cache");
  EXPECT_EQ(prepared.train.documents(), 500000);
  EXPECT_LT(peak_resident_bytes() - before, 200'000'000);
}

}  // namespace
}  // namespace longhaul::data

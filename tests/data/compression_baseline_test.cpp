#include <cmath>
#include <optional>
#include <tuple>

#include "base/process/process.h"
#include "data/corpus/compression_baseline.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

TEST(CompressionBaseline, IsWhatTheProgramsMakeOfTheJoinedText) {
  TemporaryFolder folder;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (int k = 0; k < 2000; ++k)
      text += fmt::format("{} words and {} numbers\n", k * i % 97, (k * k + i) % 1013);
    write_file(folder / fmt::format("text/{:02}.txt", i), text);
  }
  const Corpus corpus = corpus_of(folder / "text", 50);
  std::string joined;
  for_each_text(corpus, Split::kHeldOut, [&](std::string_view text) { joined += text; });
  const CompressionBaseline found = compression_baseline(corpus);
  ASSERT_GT(joined.size(), 100000u);
  EXPECT_EQ(found.bytes, static_cast<int64_t>(joined.size()));
  EXPECT_DOUBLE_EQ(found.gzip_bits_per_byte(),
                   8.0 * static_cast<double>(found.gzip_bytes) / static_cast<double>(joined.size()));
  EXPECT_LT(found.xz_bytes, found.gzip_bytes);
  write_file(folder / "joined", joined);
  const auto program = [&](const char* command) {
    return static_cast<int64_t>(std::stoll(
        run_process({"sh", "-c", fmt::format("{} -9 < {} | wc -c", command, (folder / "joined").string())})
            .output));
  };
  EXPECT_NEAR(static_cast<double>(program("gzip")), static_cast<double>(found.gzip_bytes),
              0.005 * static_cast<double>(found.gzip_bytes));
  if (run_process({"sh", "-c", "command -v xz"}).status == 0) {
    EXPECT_EQ(program("xz -T1"), found.xz_bytes);
  }

  // Kept for the next start of any run; another text is another file, and a damaged one is made anew.
  const std::vector<int64_t> held_out{found.bytes};
  const auto kept = [&] { return compression_baseline(corpus, held_out, folder / "cache")->gzip_bytes; };
  EXPECT_EQ(kept(), found.gzip_bytes);
  const auto file = std::filesystem::directory_iterator(folder / "cache")->path();
  write_file(file, R"({"bytes":1,"gzip_bytes":2,"xz_bytes":3})");
  EXPECT_EQ(kept(), 2);
  write_file(file, R"({"bytes":1,"gzip)");
  EXPECT_EQ(kept(), found.gzip_bytes);
  EXPECT_EQ(compression_baseline(corpus, held_out, file)->gzip_bytes, found.gzip_bytes)
      << "a folder that cannot be made";
  write_file(folder / "text/00.txt", "another text\n");
  write_file(file, R"({"bytes":1,"gzip_bytes":2,"xz_bytes":3})");
  EXPECT_NE(compression_baseline(corpus_of(folder / "text", 50), held_out, folder / "cache")->gzip_bytes, 2);
}

// Of much text the beginning, of each source in proportion: an hour of xz stands before no run.
TEST(CompressionBaseline, IsOfSoMuchTextAtMost) {
  TemporaryFolder folder;
  CorpusOptions options;
  std::string expected;
  for (const auto& [name, bytes, taken] : {std::tuple("a", 9000, 3000), std::tuple("b", 3000, 1000)}) {
    std::string text;
    for (int i = 0; std::ssize(text) < bytes; ++i) text += fmt::format("{} {}\n", name, i * 7919 % 1009);
    text.resize(static_cast<size_t>(bytes));
    write_file(folder / name / "text.txt", text);
    options.validation.push_back((folder / name).string());
    expected += text.substr(0, static_cast<size_t>(taken));
  }
  write_file(folder / "train/text.txt", "trained on");
  options.sources = {(folder / "train").string()};
  options.held_out_percent = 0;
  const auto found = compression_baseline(Corpus::open(options), {0, 9000, 3000}, folder / "cache", 4000);
  write_file(folder / "expected/text.txt", expected);
  const auto whole = compression_baseline(corpus_of(folder / "expected", 100));
  EXPECT_EQ(whole.bytes, 4000);
  EXPECT_EQ(found->bytes, 4000);
  EXPECT_EQ(found->gzip_bytes, whole.gzip_bytes);
  EXPECT_EQ(found->xz_bytes, whole.xz_bytes);
}

// An option that is on by default ends no run.
TEST(CompressionBaseline, IsLeftOutWhereItCannotBeHad) {
  TemporaryFolder folder;
  write_documents(folder / "text", 60);
  const Corpus corpus = corpus_of(folder / "text", 50);
  corpus.survey();
  std::filesystem::remove_all(folder / "text");
  EXPECT_EQ(compression_baseline(corpus, {1000}, folder / "cache"), std::nullopt);
}

}  // namespace
}  // namespace longhaul::data

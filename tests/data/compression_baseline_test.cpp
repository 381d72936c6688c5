#include <cmath>

#include "base/process.h"
#include "data/compression_baseline.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

TEST(CompressionBaseline, IsWhatTheProgramsMakeOfTheJoinedText) {
  TemporaryFolder folder;
  for (int i = 0; i < 40; ++i) {
    std::string text;
    for (int k = 0; k < 2000; ++k) text += fmt::format("{} words and {} numbers\n", k * i % 97, (k * k + i) % 1013);
    write_file(folder / fmt::format("text/{:02}.txt", i), text);
  }
  const Corpus corpus = corpus_of(folder / "text", 50);
  std::string joined;
  for_each_text(corpus, Split::kHeldOut, [&](std::string_view text) { joined += text; });
  const CompressionBaseline found = compression_baseline(corpus);
  ASSERT_GT(joined.size(), 100000u);
  EXPECT_EQ(found.bytes, static_cast<int64_t>(joined.size()));
  EXPECT_DOUBLE_EQ(found.gzip_bits_per_byte(), 8.0 * static_cast<double>(found.gzip_bytes) / static_cast<double>(joined.size()));
  EXPECT_LT(found.xz_bytes, found.gzip_bytes);
  write_file(folder / "joined", joined);
  const auto program = [&](const char* command) {
    return static_cast<int64_t>(
        std::stoll(run_process({"sh", "-c", fmt::format("{} -9 < {} | wc -c", command, (folder / "joined").string())}).output));
  };
  EXPECT_NEAR(static_cast<double>(program("gzip")), static_cast<double>(found.gzip_bytes), 0.005 * static_cast<double>(found.gzip_bytes));
  if (run_process({"sh", "-c", "command -v xz"}).status == 0) {
    EXPECT_EQ(program("xz -T1"), found.xz_bytes);
  }

  // Kept for the next start of a run; another text is another file, and a damaged one is made anew.
  const auto kept = [&](Baseline wanted) { return compression_baseline(corpus, folder / "cache", wanted).gzip_bytes; };
  EXPECT_EQ(kept(Baseline::kNew), found.gzip_bytes);
  const auto file = std::filesystem::directory_iterator(folder / "cache")->path();
  write_file(file, R"({"bytes":1,"gzip_bytes":2,"xz_bytes":3})");
  EXPECT_EQ(kept(Baseline::kKept), 2);
  EXPECT_EQ(kept(Baseline::kNew), found.gzip_bytes);
  EXPECT_EQ(kept(Baseline::kKept), found.gzip_bytes);
  write_file(file, R"({"bytes":1,"gzip)");
  EXPECT_EQ(kept(Baseline::kKept), found.gzip_bytes);
  EXPECT_EQ(compression_baseline(corpus, file, Baseline::kKept).gzip_bytes, found.gzip_bytes) << "a folder that cannot be made";
  write_file(folder / "text/00.txt", "another text\n");
  write_file(file, R"({"bytes":1,"gzip_bytes":2,"xz_bytes":3})");
  EXPECT_NE(compression_baseline(corpus_of(folder / "text", 50), folder / "cache", Baseline::kKept).gzip_bytes, 2);
}

}  // namespace
}  // namespace longhaul::data

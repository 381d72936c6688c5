#include <algorithm>
#include <set>

#include "data/corpus/corpus_texts.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

TEST(CorpusCopies, OnlyTheFirstOfEqualDocumentsIsKeptAcrossSourcesAndKinds) {
  TemporaryFolder folder;
  write_file(folder / "a/1.txt", "same");
  write_file(folder / "a/2.txt.gz", gzipped("same"));
  write_file(folder / "a/3.txt", "other");
  write_file(folder / "b/x.jsonl", "{\"text\":\"same\"}\n{\"text\":\"new\"}\n{\"text\":\"new\"}\n");
  CorpusOptions options;
  options.sources = {(folder / "a").string(), (folder / "b").string()};
  options.held_out_percent = 0;
  const Corpus corpus = Corpus::open(options);
  Collector all;
  EXPECT_EQ(corpus.read(0, std::nullopt, all).copies, 1);
  EXPECT_EQ(corpus.read(1, std::nullopt, all).copies, 2);
  std::vector<std::string> texts;
  for (const auto& [identity, text] : all.documents) texts.push_back(text);
  EXPECT_EQ(texts, (std::vector<std::string>{"same", "other", "new"}));
  options.remove_copies = false;
  EXPECT_EQ(documents_of(Corpus::open(options)).size(), 6u);
}

TEST(CorpusCounts, EmptyAndBadUtf8AreCountedAndBytesKept) {
  TemporaryFolder folder;
  write_file(folder / "empty.txt", "");
  write_file(folder / "empty.txt.gz", gzipped(""));
  write_file(folder / "good.txt", "é中😀");
  write_file(folder / "bad.txt", "a\xff z");
  write_file(folder / "cut.txt", "x\xe4\xb8");  // ends inside a character
  Collector all;
  const CorpusCounts counts = corpus_of(folder.path()).read(0, std::nullopt, all);
  EXPECT_EQ(counts.documents, 3);
  EXPECT_EQ(counts.empty, 2);
  EXPECT_EQ(counts.bad_utf8, 2);
  EXPECT_EQ(counts.bytes, 4 + 3 + 9);
  for (const auto& [identity, text] : all.documents) EXPECT_EQ(text, read_file(folder / identity));
}

// Chunks are cut every MiB, also inside a character: that must not make it bad.
TEST(CorpusCounts, CharacterAcrossChunksIsGoodUtf8) {
  for (size_t shift = 0; shift < 4; ++shift) {
    TemporaryFolder folder;
    std::string text(shift, 'x');
    while (text.size() < (5 << 19)) text += "😀";
    write_file(folder / "a.txt", text);
    Collector all;
    EXPECT_EQ(corpus_of(folder.path()).read(0, std::nullopt, all).bad_utf8, 0) << shift;
    text[(1 << 20) + 100] = '\xff';
    write_file(folder / "a.txt", text);
    EXPECT_EQ(corpus_of(folder.path()).read(0, std::nullopt, all).bad_utf8, 1) << shift;
  }
}

TEST(CorpusKey, ChangesWithWhatDecidesTheDocuments) {
  TemporaryFolder folder;
  write_file(folder / "a.txt", "a");
  write_file(folder / "b.txt", "b");
  std::set<std::string> keys = {corpus_of(folder.path()).key(0)};
  EXPECT_EQ(corpus_of(folder.path()).key(0), *keys.begin());
  keys.insert(corpus_of(folder.path(), 5).key(0));
  keys.insert(corpus_of(folder.path(), 5, true).key(0));
  CorpusOptions options{.sources = {folder.path().string()}, .held_out_percent = 0, .remove_copies = false};
  EXPECT_EQ(Corpus::open(options).key(0),
            *std::find(keys.begin(), keys.end(), corpus_of(folder.path()).key(0)));
  options.source.skip_bad_lines = true;
  keys.insert(Corpus::open(options).key(0));
  options.source.keep_binary = true;
  keys.insert(Corpus::open(options).key(0));
  options.validation = {(folder / "a.txt").string()};
  keys.insert(Corpus::open(options).key(0));
  keys.insert(Corpus::open(options).key(1));
  write_file(folder / "c.txt", "c");
  keys.insert(corpus_of(folder.path()).key(0));
  write_file(folder / "c.txt", "cc");
  keys.insert(corpus_of(folder.path()).key(0));
  std::filesystem::rename(folder / "c.txt", folder / "d.txt");
  keys.insert(corpus_of(folder.path()).key(0));
  EXPECT_EQ(keys.size(), 10u);
}

TEST(CorpusPulled, TextsComeInOrderAndMayBeAbandoned) {
  TemporaryFolder folder;
  write_documents(folder.path(), 50);
  write_file(folder / "long.txt", std::string(9 << 20, 'x') + "\nend");
  const Corpus corpus = corpus_of(folder.path(), 10);
  std::string expected, got, text;
  for_each_text(corpus, Split::kTrain, [&](std::string_view chunk) { expected += chunk; });
  CorpusTexts texts(corpus, Split::kTrain);
  while (texts.next(text)) {
    EXPECT_LE(text.size(), size_t{6} << 20);
    got += text;
  }
  EXPECT_TRUE(got == expected);
  CorpusTexts abandoned(corpus, Split::kTrain);
  EXPECT_TRUE(abandoned.next(text));
  std::filesystem::remove(folder / "0003.txt");
  CorpusTexts failing(corpus, Split::kTrain);
  EXPECT_THROW(while (failing.next(text)){}, Error);
}

}  // namespace
}  // namespace longhaul::data

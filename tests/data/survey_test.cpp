// Which documents are held out, cut or left out: by their text, whatever they are called and however they are
// packed.
#include "data/corpus/survey.h"

#include <xxhash.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "data/support.h"

namespace longhaul::data {
namespace {

std::set<std::string> texts_of(const Corpus& corpus, Split split) {
  std::set<std::string> texts;
  Collector collector;
  for (size_t s = 0; s < corpus.sources().size(); ++s) corpus.read(s, split, collector);
  for (const auto& [identity, text] : collector.documents) texts.insert(text);
  return texts;
}

std::string document(int i) {
  return fmt::format("document {} with some words of its own: {}\n", i, i * 7919 % 1009);
}

TEST(Survey, HeldOutAreAboutThePercentOfTheDocuments) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 20000; ++i) lines += nlohmann::json{{"text", document(i)}}.dump() + "\n";
  write_file(folder / "a.jsonl", lines);
  for (const int64_t percent : {1, 3, 50}) {
    const auto held_out = texts_of(corpus_of(folder / "a.jsonl", percent), Split::kHeldOut);
    const double expected = 200.0 * static_cast<double>(percent);
    EXPECT_NEAR(static_cast<double>(held_out.size()), expected, 4 * std::sqrt(expected));
  }
}

TEST(Survey, TheTextAloneDecides) {
  TemporaryFolder folder;
  std::string lines;
  for (int i = 0; i < 300; ++i) {
    write_file(folder / fmt::format("plain/{}.txt", i), document(i));
    // Another name, another order, compressed in one of three ways.
    const std::string name = fmt::format("packed/{}-{}", (i * 77) % 300, i);
    if (i % 3 == 0) write_file(folder / (name + ".gz"), gzipped(document(i)));
    if (i % 3 == 1) write_file(folder / (name + ".zst"), zstd_compressed(document(i)));
    if (i % 3 == 2) write_file(folder / (name + ".md.xz"), xz_compressed(document(i)));
    lines = nlohmann::json{{"id", i}, {"text", document(i)}}.dump() + "\n" + lines;
  }
  write_file(folder / "lines.jsonl", lines);
  const auto expected = texts_of(corpus_of(folder / "plain", 5), Split::kHeldOut);
  EXPECT_GT(expected.size(), 3u);
  EXPECT_EQ(texts_of(corpus_of(folder / "packed", 5), Split::kHeldOut), expected);
  EXPECT_EQ(texts_of(corpus_of(folder / "lines.jsonl", 5), Split::kHeldOut), expected);
  // Texts that are added move no other to another side.
  for (int i = 300; i < 600; ++i) write_file(folder / fmt::format("plain/{}.txt", i), document(i));
  const auto more = texts_of(corpus_of(folder / "plain", 5), Split::kHeldOut);
  EXPECT_TRUE(std::includes(more.begin(), more.end(), expected.begin(), expected.end()));
  EXPECT_LT(more.size(), 60u);
}

TEST(Survey, CopiesInAnotherSourceLieOnTheSameSide) {
  TemporaryFolder folder;
  for (int i = 0; i < 300; ++i) {
    write_file(folder / fmt::format("a/{}.txt", i), document(i));
    if (i % 2 == 0) write_file(folder / fmt::format("b/other-{}.txt.gz", i), gzipped(document(i)));
  }
  // too few: one is chosen
  for (int i = 0; i < 3; ++i) write_file(folder / fmt::format("c/{}.txt", i), document(i));
  for (const bool remove_copies : {false, true}) {
    const Corpus corpus =
        Corpus::open({.sources = {(folder / "a").string(), (folder / "b").string(), (folder / "c").string()},
                      .held_out_percent = 10,
                      .remove_copies = remove_copies});
    const auto train = texts_of(corpus, Split::kTrain), held_out = texts_of(corpus, Split::kHeldOut);
    EXPECT_EQ(train.size() + held_out.size(), 300u) << "a text is on both sides";
    if (!remove_copies) {
      Collector few;
      corpus.read(2, Split::kHeldOut, few);
      EXPECT_GE(few.documents.size(), 1u);
    }
  }
}

TEST(Survey, OfAFewDocumentsTheSmallestHashIsHeldOutAndNeverTheBulk) {
  TemporaryFolder folder;
  for (int i = 0; i < 5; ++i) write_file(folder / fmt::format("few/f{}.txt", i), fmt::format("text {}", i));
  const auto held = texts_of(corpus_of(folder / "few", 1), Split::kHeldOut);
  ASSERT_EQ(held.size(), 1u);
  EXPECT_TRUE(texts_of(corpus_of(folder / "few", 0), Split::kHeldOut).empty());
  // The same one under other names.
  for (int i = 0; i < 5; ++i)
    write_file(folder / fmt::format("other/{}.md", 9 - i), fmt::format("text {}", i));
  EXPECT_EQ(texts_of(corpus_of(folder / "other", 1), Split::kHeldOut), held);
  for (int i = 0; i < 40; ++i) {  // whatever the hashes are
    const auto at = folder / fmt::format("two-{}", i);
    write_file(at / "readme.txt", document(i));
    write_file(at / "book.txt", std::string(100000, 'x') + document(i));
    EXPECT_EQ(texts_of(corpus_of(at, 1), Split::kHeldOut), std::set{document(i)});
  }
  for (int i = 0; i < 4; ++i) write_file(folder / fmt::format("twins/{}.txt", i), document(i / 2));
  EXPECT_EQ(texts_of(corpus_of(folder / "twins", 1), Split::kTrain).size(), 1u)
      << "equal texts are one document";
}

TEST(Survey, OfOneDocumentTheEndIsHeldOutFromALineOn) {
  TemporaryFolder folder;
  std::string text;
  for (int i = 0; text.size() < 1'100'000; ++i)
    text += fmt::format("line {} of the one book that everybody reads\n", i);
  const auto check = [&](const Corpus& corpus, int64_t at_least, int64_t at_most) {
    Collector all;
    const CorpusCounts counts = corpus.read(0, std::nullopt, all);
    ASSERT_EQ(all.documents.size(), 2u);
    EXPECT_EQ(all.splits, (std::vector{Split::kTrain, Split::kHeldOut}));
    EXPECT_EQ(all.documents[0].second + all.documents[1].second, text);
    EXPECT_EQ(all.documents[0].second.back(), '\n');
    EXPECT_GE(static_cast<int64_t>(all.documents[1].second.size()), at_least);
    EXPECT_LE(static_cast<int64_t>(all.documents[1].second.size()), at_most);
    EXPECT_EQ(counts.cut, 1);
    EXPECT_EQ(counts.documents, 2);
    EXPECT_EQ(counts.bytes, static_cast<int64_t>(text.size()));
    EXPECT_EQ(texts_of(corpus, Split::kTrain), std::set{all.documents[0].second});
    EXPECT_EQ(texts_of(corpus, Split::kHeldOut), std::set{all.documents[1].second});
  };
  write_file(folder / "book.txt", text);
  check(corpus_of(folder / "book.txt", 1), 11000, 11100);
  check(corpus_of(folder / "book.txt", 20), 220000, 220100);
  write_file(folder / "packed/a.xz", xz_compressed(text));
  write_file(folder / "packed/copy.txt", text);
  write_file(folder / "packed/empty.txt", "");
  check(corpus_of(folder / "packed", 1, true), 11000, 11100);
  write_file(folder / "book.jsonl", "{\"text\":\"\"}\n" + nlohmann::json{{"text", text}}.dump() + "\n");
  check(corpus_of(folder / "book.jsonl", 1), 11000, 11100);
  // Of a short one at least enough to evaluate, but no more than a tenth or so; of a very short one nothing.
  text.resize(20000);
  text.back() = '\n';
  write_file(folder / "book.txt", text);
  check(corpus_of(folder / "book.txt", 1), 2000, 2100);
  write_file(folder / "book.txt", "a few words\n");
  EXPECT_EQ(documents_of(corpus_of(folder / "book.txt", 99)).size(), 1u);
  EXPECT_TRUE(texts_of(corpus_of(folder / "book.txt", 99), Split::kHeldOut).empty());
}

TEST(Survey, WithoutLineEndsTheCutIsBetweenCharacters) {
  TemporaryFolder folder;
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    while (text.size() < 200000) text += "😀";
    write_file(folder / "a.txt", text);
    Collector all;
    EXPECT_EQ(corpus_of(folder / "a.txt", 7).read(0, std::nullopt, all).bad_utf8, 0) << shift;
    ASSERT_EQ(all.documents.size(), 2u);
    EXPECT_EQ(all.documents[0].second + all.documents[1].second, text);
  }
  write_file(folder / "a.txt", std::string(5000, '\x80'));  // no character anywhere
  CorpusOptions options{.sources = {(folder / "a.txt").string()}, .held_out_percent = 1};
  options.source.keep_binary = true;
  EXPECT_EQ(texts_of(Corpus::open(options), Split::kHeldOut), std::set{std::string(500, '\x80')});
}

// The same book once alone and once among others: neither part may be trained on in one place and evaluated
// in the other.
TEST(Survey, ACutDocumentIsCutInEverySource) {
  TemporaryFolder folder;
  std::string book;
  for (int i = 0; i < 3000; ++i) book += document(i);
  write_file(folder / "a/book.txt", book);
  write_file(folder / "b/book.txt", book);
  for (int i = 0; i < 20; ++i) write_file(folder / fmt::format("b/{}.txt", i), document(i * 31));
  const Corpus corpus = Corpus::open({.sources = {(folder / "b").string(), (folder / "a").string()},
                                      .held_out_percent = 5,
                                      .remove_copies = false});
  const auto held_out = texts_of(corpus, Split::kHeldOut);
  Collector alone, among;
  corpus.read(1, std::nullopt, alone);
  corpus.read(0, Split::kTrain, among);
  ASSERT_EQ(alone.documents.size(), 2u);
  bool found = false;
  for (const auto& [identity, text] : among.documents) {
    EXPECT_NE(text, book);
    found = found || text == alone.documents[0].second;
  }
  EXPECT_TRUE(found);
}

TEST(Survey, ValidationIsNeverTrainedOn) {
  TemporaryFolder folder;
  for (int i = 0; i < 60; ++i) write_file(folder / fmt::format("texts/{}.txt", i), document(i));
  for (int i = 50; i < 60; ++i) write_file(folder / fmt::format("texts/held/{}.txt", i + 100), document(i));
  for (const bool remove_copies : {false, true}) {
    CorpusOptions options{.sources = {(folder / "texts").string()},
                          .validation = {(folder / "texts/held").string()},
                          .held_out_percent = 0,
                          .remove_copies = remove_copies};
    const Corpus corpus = Corpus::open(options);
    ASSERT_EQ(corpus.sources().size(), 2u);
    EXPECT_EQ(texts_of(corpus, Split::kTrain).size(), 50u);
    const auto held_out = texts_of(corpus, Split::kHeldOut);
    EXPECT_EQ(held_out.size(), 10u);
    EXPECT_TRUE(held_out.contains(document(55)));
    options.held_out_percent = 10;  // asked for besides
    const auto both = texts_of(Corpus::open(options), Split::kHeldOut);
    EXPECT_GT(both.size(), 10u);
    EXPECT_TRUE(std::includes(both.begin(), both.end(), held_out.begin(), held_out.end()));
  }
}

TEST(Survey, WhatIsNotTextIsLeftOutCountedAndNamed) {
  TemporaryFolder folder;
  write_file(folder / "a.txt", "text\n");
  write_file(folder / "b.png", std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16));
  write_file(folder / "c.txt", std::string("\xff\xfeh\0i\0", 6));
  write_file(folder / "d.bin.gz", gzipped(std::string(40, '\x01')));
  write_file(folder / "caf\xe9.dat", std::string(3, '\0'));
  Collector all;
  const Corpus corpus = corpus_of(folder.path());
  const CorpusCounts counts = corpus.read(0, std::nullopt, all);
  ASSERT_EQ(all.documents.size(), 1u);
  EXPECT_EQ(counts.not_text, 4);
  EXPECT_EQ(counts.not_text_bytes, 16 + 6 + 3 + static_cast<int64_t>(read_file(folder / "d.bin.gz").size()));
  const auto& named = corpus.survey().not_text(0);
  ASSERT_EQ(named.size(), 4u);
  EXPECT_EQ(named[0].name, "b.png");
  EXPECT_EQ(named[0].reason, "a NUL byte at 8");
  EXPECT_EQ(named[1].name, "c.txt");
  EXPECT_EQ(named[1].reason, "UTF-16");
  EXPECT_EQ(named[2].name, "file:caf%E9.dat");
  EXPECT_EQ(named[3].reason, "100 % control characters");
  CorpusOptions options{.sources = {folder.path().string()}, .held_out_percent = 0, .remove_copies = false};
  options.source.keep_binary = true;
  EXPECT_EQ(documents_of(Corpus::open(options)).size(), 5u);
}

// A line beyond the limit of simdjson is scanned as it comes, so it is known to be bad when a part of it was
// given out.
TEST(Survey, LongBadLinesAreLeftOutToo) {
  TemporaryFolder folder;
  const std::string longer(6 << 20, 'x');
  const std::string good = "{\"text\": \"good\"}\n";
  for (const std::string& bad :
       {"{\"text\": \"" + longer + "\"\n", "{\"text\": \"" + longer + "\", \"text\": \"twice\"}\n",
        "{\"text\": \"" + longer + "\", \"text\": 3}\n", "{\"other\": \"" + longer + "\"}\n"}) {
    write_file(folder / "a.jsonl", good + bad + "{\"text\": \"better\"}\n");
    CorpusOptions options{
        .sources = {(folder / "a.jsonl").string()}, .held_out_percent = 0, .remove_copies = false};
    EXPECT_EQ(error_of([&] { documents_of(Corpus::open(options)); }).fields().where,
              (folder / "a.jsonl").string() + ":2");
    options.source.skip_bad_lines = true;
    Collector all;
    const CorpusCounts counts = Corpus::open(options).read(0, std::nullopt, all);
    EXPECT_EQ(counts.bad_lines, 1);
    ASSERT_EQ(all.documents.size(), 2u);
    EXPECT_EQ(all.documents[0].second, "good");
    EXPECT_EQ(all.documents[1], (std::pair<std::string, std::string>{"a.jsonl:3", "better"}));
  }
}

// Who splits the texts outside gets the same split by the rule that docs/guides/data-order.md says.
TEST(Survey, HeldOutIsWhatTheDocumentedHashSays) {
  TemporaryFolder folder;
  std::set<std::string> expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = document(i);
    write_file(folder / fmt::format("{}.txt", i), text);
    if (XXH3_128bits(text.data(), text.size()).high64 % 100 < 10) expected.insert(text);
  }
  EXPECT_EQ(texts_of(corpus_of(folder.path(), 10), Split::kHeldOut), expected);
}

}  // namespace
}  // namespace longhaul::data

#include <nlohmann/json.hpp>

#include "data/json_lines.h"
#include "data/support.h"

namespace longhaul::data {
namespace {

using Documents = std::vector<std::pair<std::string, std::string>>;

TEST(Source, FolderIsReadInBytewiseOrderOfRelativePaths) {
  TemporaryFolder folder;
  write_file(folder / "b.txt", "B");
  write_file(folder / "a/z.txt", "AZ");
  write_file(folder / "Z.txt", "Z");
  write_file(folder / "a.txt", "A");
  write_file(folder / ".git/x.txt", "hidden");
  write_file(folder / "a/.x.txt", "hidden");
  EXPECT_EQ(documents_of(corpus_of(folder.path())), (Documents{{"Z.txt", "Z"}, {"a.txt", "A"}, {"a/z.txt", "AZ"}, {"b.txt", "B"}}));
}

TEST(Source, EndingsLookBehindCompression) {
  TemporaryFolder folder;
  write_file(folder / "a.py", "a");
  write_file(folder / "b.py.gz", gzipped("b"));
  write_file(folder / "c.py.zst", zstd_compressed("c"));
  write_file(folder / "d.txt", "d");
  write_file(folder / "e.py.xz", xz_compressed("e"));
  CorpusOptions options;
  options.sources = {folder.path().string()};
  options.source.endings = {".py"};
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"a.py", "a"}, {"b.py.gz", "b"}, {"c.py.zst", "c"}, {"e.py.xz", "e"}}));
}

TEST(Source, SeveralGzipMembersZstdFramesAndXzStreamsAreOneText) {
  TemporaryFolder folder;
  const std::string big(3 << 20, 'x');
  write_file(folder / "a.txt.gz", gzipped("one ") + gzipped(big) + gzipped(" end") + std::string(512, '\0'));
  write_file(folder / "b.txt.zst", zstd_compressed("one ") + zstd_compressed(big) + zstd_compressed(" end"));
  write_file(folder / "c.txt.xz", xz_compressed("one ") + xz_compressed(big) + xz_compressed(" end") + std::string(512, '\0'));
  const Documents documents = documents_of(corpus_of(folder.path()));
  ASSERT_EQ(documents.size(), 3u);
  for (const auto& [name, text] : documents) EXPECT_EQ(text, "one " + big + " end") << name;
}

TEST(Source, TruncatedOrDamagedCompressionIsAnError) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919) + "\n";
  for (const auto& [ending, packed] :
       {std::pair{"gz", gzipped(text)}, std::pair{"zst", zstd_compressed(text)}, std::pair{"xz", xz_compressed(text)}}) {
    for (const std::string& broken :
         {packed.substr(0, packed.size() / 2), packed.substr(0, packed.size() - 1), std::string(), "plain text" + packed}) {
      TemporaryFolder folder;
      const auto path = folder / fmt::format("a.txt.{}", ending);
      write_file(path, broken);
      // An empty file is an empty document, not a damaged one, so that a folder with one in it can be read.
      if (broken.empty()) {
        EXPECT_TRUE(documents_of(corpus_of(path)).empty());
        continue;
      }
      const Error error = error_of([&] { documents_of(corpus_of(path)); });
      EXPECT_EQ(error.code(), ExitCode::kData);
      EXPECT_EQ(error.fields().where, path.string());
    }
  }
}

TEST(Source, JsonLines) {
  TemporaryFolder folder;
  const auto path = folder / "a.jsonl";
  write_file(
      path,
      "\xEF\xBB\xBF{\"text\": \"one\\n\\u00e9\", \"id\": 1}\n\n{\"id\": {\"text\": \"inner\"}, \"text\": \"two\"}\r\n  \n{\"text\":\"\"}\n{\"text\":\"last\"}");
  EXPECT_EQ(documents_of(corpus_of(path)), (Documents{{"a.jsonl:1", "one\n\xc3\xa9"}, {"a.jsonl:3", "two"}, {"a.jsonl:6", "last"}}));
  write_file(folder / "b.jsonl.gz", gzipped("{\"body\": \"x\"}\n{\"body\": \"y\"}\n"));
  CorpusOptions options;
  options.sources = {(folder / "b.jsonl.gz").string()};
  options.source.jsonl_field = "body";
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"b.jsonl.gz:1", "x"}, {"b.jsonl.gz:2", "y"}}));
}

TEST(Source, BadJsonLineNamesFileAndLine) {
  TemporaryFolder folder;
  const auto path = folder / "a.jsonl";
  for (const char* bad : {"{\"text\": \"x\"", "[1]", "{\"text\": 3}", "{\"other\": \"x\"}", "nonsense", "{\"text\": \"x\"} y",
                          "{\"text\": \"\\q\"}", "{\"text\": \"x\",}", "{\"text\": \"x\", \"a\": 01}", "{\"text\": \"a\tb\"}"}) {
    write_file(path, fmt::format("{{\"text\": \"good\"}}\n{}\n{{\"text\": \"better\"}}\n", bad));
    const Error error = error_of([&] { documents_of(corpus_of(path)); });
    EXPECT_EQ(error.code(), ExitCode::kData) << bad;
    EXPECT_EQ(error.fields().where, path.string() + ":2") << bad;
    CorpusOptions options;
    options.sources = {path.string()};
    options.source.skip_bad_lines = true;
    Collector all;
    const CorpusCounts counts = Corpus::open(options).read(0, std::nullopt, all);
    EXPECT_EQ(all.documents.size(), 2u) << bad;
    EXPECT_EQ(counts.bad_lines, 1) << bad;
  }
}

// As JavaScript, Python and nlohmann read it.
TEST(Source, OfAKeyThatStandsTwiceTheLastValueCounts) {
  TemporaryFolder folder;
  const std::vector<std::string> lines = {R"({"text": "one", "text": "two"})", R"({"text": 1, "a": 2, "text": "two"})",
                                          R"({"text": "a", "t\u0065xt": "two", "b": {"text": "three"}})",
                                          "{\"text\": \"\xff\", \"text\": \"two\"}"};
  for (const std::string& line : lines) {
    write_file(folder / "a.jsonl", line + "\n");
    EXPECT_EQ(documents_of(corpus_of(folder / "a.jsonl")), (Documents{{"a.jsonl:1", "two"}})) << line;
  }
  for (const char* line : {R"({"text": "one", "text": 2})", R"({"text": "one", "text": null})"}) {
    write_file(folder / "a.jsonl", line);
    EXPECT_EQ(error_of([&] { documents_of(corpus_of(folder / "a.jsonl")); }).fields().found, "\"text\" is not a string") << line;
  }
}

TEST(Source, JsonLinesKeepBadUtf8) {
  TemporaryFolder folder;
  write_file(folder / "a.jsonl", "{\"text\": \"a\xff\xfe z\"}\n{\"text\": \"\\ud800x\"}\n");
  Collector all;
  const CorpusCounts counts = corpus_of(folder / "a.jsonl").read(0, std::nullopt, all);
  ASSERT_EQ(all.documents.size(), 2u);
  EXPECT_EQ(all.documents[0].second, "a\xff\xfe z");
  EXPECT_EQ(all.documents[1].second, "\xed\xa0\x80x");
  EXPECT_EQ(counts.bad_utf8, 2);
}

// The scanner of long lines gives, piece by piece however cut, what a JSON library gives of the whole.
TEST(Source, ScannerOfLongLinesAgreesWithNlohmann) {
  const std::vector<std::string> lines = {
      R"({"text": "plain"})",
      R"({"a": [1, -2.5e+3, [], {}, {"text": "no"}], "text": "q\"\\\/\b\f\n\r\t\u00e9\u4e2d\ud83d\ude00", "z": null})",
      R"( { "b" : true , "text" : "" , "c" : "x\"y" } )",
      R"({"te\u0078t": "escaped key", "k": false})",
  };
  for (const std::string& line : lines) {
    const std::string expected = nlohmann::json::parse(line).at("text");
    for (size_t piece = 1; piece <= line.size(); ++piece) {
      std::string got;
      int begun = 0;
      JsonTextScanner scanner(
          "text", [&] { ++begun; }, [&](std::string_view text) { got += text; });
      for (size_t at = 0; at < line.size(); at += piece)
        ASSERT_TRUE(scanner.feed(std::string_view(line).substr(at, piece))) << scanner.reason();
      ASSERT_TRUE(scanner.finish()) << scanner.reason();
      EXPECT_EQ(got, expected);
      EXPECT_EQ(begun, 1);
    }
  }
}

TEST(Source, LongJsonLineIsScannedInPieces) {
  TemporaryFolder folder;
  const auto path = folder / "a.jsonl";
  std::string text;
  while (text.size() < (6 << 20)) text += "line \"quoted\" \\ and more\n";
  write_file(path, "{\"text\": \"before\"}\n" + nlohmann::json{{"text", text}, {"other", 1}}.dump() + "\n{\"text\": \"after\"}");
  EXPECT_EQ(documents_of(corpus_of(path)), (Documents{{"a.jsonl:1", "before"}, {"a.jsonl:2", text}, {"a.jsonl:3", "after"}}));
  // Going on after line 1 and after line 2.
  for (int64_t line : {1, 2}) {
    Collector rest;
    corpus_of(path).read(0, std::nullopt, rest, {0, line});
    ASSERT_EQ(rest.documents.size(), static_cast<size_t>(3 - line));
    EXPECT_EQ(rest.documents.back().second, "after");
  }
}

TEST(Source, MissingEmptyAndUnreadableAreErrors) {
  TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { corpus_of(folder / "missing"); }).code(), ExitCode::kData);
  EXPECT_EQ(error_of([&] { corpus_of(folder.path()); }).code(), ExitCode::kData);
  write_file(folder / "a.txt", "a");
  CorpusOptions options;
  options.sources = {folder.path().string()};
  options.source.endings = {".py"};
  EXPECT_NE(std::string(error_of([&] { Corpus::open(options); }).what()).find(".py"), std::string::npos);
  options.sources = {"libtorch"};
  EXPECT_EQ(error_of([&] { Corpus::open(options); }).code(), ExitCode::kData);
  const Corpus corpus = corpus_of(folder.path());
  std::filesystem::remove(folder / "a.txt");  // after it was listed
  EXPECT_EQ(error_of([&] { documents_of(corpus); }).code(), ExitCode::kData);
}

TEST(Source, TildeIsTheHomeFolder) {
  TemporaryFolder folder;
  write_file(folder / "texts/a.txt", "at home");
  const char* before = std::getenv("HOME");
  const std::string home = before == nullptr ? "" : before;
  ::setenv("HOME", folder.path().c_str(), 1);
  EXPECT_EQ(documents_of(Corpus::open({.sources = {"~/texts"}, .held_out_percent = 0, .remove_copies = false})),
            (Documents{{"a.txt", "at home"}}));
  if (before != nullptr) ::setenv("HOME", home.c_str(), 1);
}

TEST(Source, LibtorchIsItsPythonElseItsHeaders) {
  TemporaryFolder folder;
  write_file(folder / "include/a.h", "h");
  CorpusOptions options;
  options.sources = {"libtorch"};
  options.source.libtorch_folder = folder.path();
  options.remove_copies = false;
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"include/a.h", "h"}}));
  write_file(folder / "x/b.py", "py");
  write_file(folder / "lib/libtorch.so", "binary");
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"x/b.py", "py"}}));
  // As scripts/package lays it out: the same names as in the wheel, so the same documents are held out.
  write_file(folder / "share/libtorch-python/x/b.py", "packaged");
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"x/b.py", "packaged"}}));
}

}  // namespace
}  // namespace longhaul::data

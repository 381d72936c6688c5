#include <nlohmann/json.hpp>

#include <chrono>
#include <set>

#include "data/corpus/json_lines.h"
#include "data/corpus/json_rows.h"
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
  EXPECT_EQ(documents_of(corpus_of(folder.path())),
            (Documents{{"Z.txt", "Z"}, {"a.txt", "A"}, {"a/z.txt", "AZ"}, {"b.txt", "B"}}));
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
  EXPECT_EQ(documents_of(Corpus::open(options)),
            (Documents{{"a.py", "a"}, {"b.py.gz", "b"}, {"c.py.zst", "c"}, {"e.py.xz", "e"}}));
}

TEST(Source, SeveralGzipMembersZstdFramesAndXzStreamsAreOneText) {
  TemporaryFolder folder;
  const std::string big(3 << 20, 'x');
  write_file(folder / "a.txt.gz", gzipped("one ") + gzipped(big) + gzipped(" end") + std::string(512, '\0'));
  write_file(folder / "b.txt.zst", zstd_compressed("one ") + zstd_compressed(big) + zstd_compressed(" end"));
  write_file(folder / "c.txt.xz",
             xz_compressed("one ") + xz_compressed(big) + xz_compressed(" end") + std::string(512, '\0'));
  const Documents documents = documents_of(corpus_of(folder.path()));
  ASSERT_EQ(documents.size(), 3u);
  for (const auto& [name, text] : documents) EXPECT_EQ(text, "one " + big + " end") << name;
}

TEST(Source, TruncatedOrDamagedCompressionIsAnError) {
  std::string text;
  for (int i = 0; i < 100000; ++i) text += std::to_string(i * 7919) + "\n";
  for (const auto& [ending, packed] :
       {std::pair{"gz", gzipped(text)}, std::pair{"zst", zstd_compressed(text)},
        std::pair{"xz", xz_compressed(text)}}) {
    for (const std::string& broken :
         {packed.substr(0, packed.size() / 2), packed.substr(0, packed.size() - 1), std::string(),
          "plain text" + packed}) {
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
  write_file(path,
             "\xEF\xBB\xBF{\"text\": \"one\\n\\u00e9\", \"id\": 1}\n\n{\"id\": {\"text\": \"inner\"}, "
             "\"text\": \"two\"}\r\n  \n{\"text\":\"\"}\n{\"text\":\"last\"}");
  EXPECT_EQ(documents_of(corpus_of(path)),
            (Documents{{"a.jsonl:1", "one\n\xc3\xa9"}, {"a.jsonl:3", "two"}, {"a.jsonl:6", "last"}}));
  write_file(folder / "b.jsonl.gz", gzipped("{\"body\": \"x\"}\n{\"body\": \"y\"}\n"));
  CorpusOptions options;
  options.sources = {(folder / "b.jsonl.gz").string()};
  options.source.jsonl_field = "body";
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"b.jsonl.gz:1", "x"}, {"b.jsonl.gz:2", "y"}}));
}

TEST(Source, BadJsonLineNamesFileAndLine) {
  TemporaryFolder folder;
  const auto path = folder / "a.jsonl";
  for (const char* bad : {"{\"text\": \"x\"", "[1]", "{\"text\": 3}", "{\"other\": \"x\"}", "nonsense",
                          "{\"text\": \"x\"} y", "{\"text\": \"\\q\"}", "{\"text\": \"x\",}",
                          "{\"text\": \"x\", \"a\": 01}", "{\"text\": \"a\tb\"}"}) {
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
  const std::vector<std::string> lines = {R"({"text": "one", "text": "two"})",
                                          R"({"text": 1, "a": 2, "text": "two"})",
                                          R"({"text": "a", "t\u0065xt": "two", "b": {"text": "three"}})",
                                          "{\"text\": \"\xff\", \"text\": \"two\"}"};
  for (const std::string& line : lines) {
    write_file(folder / "a.jsonl", line + "\n");
    EXPECT_EQ(documents_of(corpus_of(folder / "a.jsonl")), (Documents{{"a.jsonl:1", "two"}})) << line;
  }
  for (const char* line : {R"({"text": "one", "text": 2})", R"({"text": "one", "text": null})"}) {
    write_file(folder / "a.jsonl", line);
    EXPECT_EQ(error_of([&] { documents_of(corpus_of(folder / "a.jsonl")); }).fields().found,
              "\"text\" is not a string")
        << line;
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
  write_file(path, "{\"text\": \"before\"}\n" + nlohmann::json{{"text", text}, {"other", 1}}.dump() +
                       "\n{\"text\": \"after\"}");
  EXPECT_EQ(documents_of(corpus_of(path)),
            (Documents{{"a.jsonl:1", "before"}, {"a.jsonl:2", text}, {"a.jsonl:3", "after"}}));
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
  EXPECT_EQ(
      documents_of(Corpus::open({.sources = {"~/texts"}, .held_out_percent = 0, .remove_copies = false})),
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

// C4, Dolma and most files of the Hub are JSON Lines under another name; Alpaca is one array.
TEST(Source, RowsOfJsonAreKnownByHowTheFileBegins) {
  TemporaryFolder folder;
  const std::string lines = "\n {\"url\": \"x\", \"text\": \"one\"}\n{\"text\": \"two\"}\n";
  const std::string array =
      "[\n  {\n    \"id\": [1, {\"a\": 2}],\n    \"text\": \"o\\n]e}, \\\"q\\\"\"\n  "
      "},\n{\"text\":\"two\"}\n]\n";
  write_file(folder / "lines.json", lines);
  write_file(folder / "upper.JSONL", lines);
  write_file(folder / "packed.json.GZ", gzipped(lines));
  write_file(folder / "array.json", array);
  write_file(folder / "array.json.xz", xz_compressed("\xEF\xBB\xBF" + array));
  const std::string pretty = "{\n  \"text\": \"a configuration\"\n}\n",
                    minified = "{\"name\": \"one object in one line\"}\n";
  write_file(folder / "pretty.json", pretty);
  write_file(folder / "minified.json", minified);
  write_file(folder / "numbers.json", "[1, 2]");
  EXPECT_EQ(documents_of(corpus_of(folder.path())), (Documents{{"array.json:1", "o\n]e}, \"q\""},
                                                               {"array.json:2", "two"},
                                                               {"array.json.xz:1", "o\n]e}, \"q\""},
                                                               {"array.json.xz:2", "two"},
                                                               {"lines.json:2", "one"},
                                                               {"lines.json:3", "two"},
                                                               {"minified.json", minified},
                                                               {"numbers.json", "[1, 2]"},
                                                               {"packed.json.GZ:2", "one"},
                                                               {"packed.json.GZ:3", "two"},
                                                               {"pretty.json", pretty},
                                                               {"upper.JSONL:2", "one"},
                                                               {"upper.JSONL:3", "two"}}));
}

// However the array is cut into reads, its lines are the same.
TEST(Source, AnArrayIsReadInPiecesOfAnySize) {
  TemporaryFolder folder;
  write_file(folder / "a.json", "[{\"text\": \"a\"}, {\"text\": \"b\\\\\"} ,\n3, {\"x\": [[]]}]");
  for (const size_t piece : {size_t{1}, size_t{2}, size_t{7}, size_t{4096}}) {
    const auto lines = lines_of_json_array(open_stream(folder / "a.json"), folder / "a.json");
    std::string text;
    std::vector<char> buffer(piece);
    while (const size_t got = lines->read(buffer)) text.append(buffer.data(), got);
    EXPECT_EQ(text, "{\"text\": \"a\"}\n{\"text\": \"b\\\\\"}\n3\n{\"x\": [[]]}\n") << piece;
  }
}

TEST(Source, RowsWithoutTheFieldAreRefusedOrNamed) {
  TemporaryFolder folder;
  write_file(folder / "rows/a.json", "{\"content\": \"one\"}\n{\"content\": \"two\"}\n");
  write_file(folder / "rows/b.json", "[{\"instruction\": \"say it\", \"output\": \"it\"}]");
  for (const auto& path : {folder / "rows", folder / "rows/a.json", folder / "rows/b.json"}) {
    const Error error = error_of([&] { corpus_of(path); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_NE(error.fields().hint.find("data.jsonl_field"), std::string::npos);
    EXPECT_EQ(error.fields().expected, "a string \"text\" in each, as data.jsonl_field says");
  }
  CorpusOptions options;
  options.sources = {(folder / "rows/a.json").string()};
  options.source.jsonl_field = "content";
  EXPECT_EQ(documents_of(Corpus::open(options)), (Documents{{"a.json:1", "one"}, {"a.json:2", "two"}}));
  write_file(folder / "rows/c.txt", "text");  // the sources of a program, say, with its data
  EXPECT_EQ(documents_of(corpus_of(folder / "rows")).size(), 3u);
}

TEST(Source, AnArrayThatBreaksOffIsAnError) {
  TemporaryFolder folder;
  const std::string rows = "[{\"text\": \"one\"}, {\"text\": \"two\"}";
  for (const std::string& broken : {rows, rows + "] more"}) {
    write_file(folder / "a.json", broken);
    const Error error = error_of([&] { documents_of(corpus_of(folder / "a.json")); });
    EXPECT_EQ(error.fields().what, "cannot read a JSON array of the corpus") << broken;
  }
}

TEST(Source, JsonLinesInUtf16SaySo) {
  TemporaryFolder folder;
  using namespace std::string_literals;
  for (const auto& [bytes, found] :
       {std::pair("\xff\xfe{\0}\0\n\0"s, "UTF-16"), std::pair("\xfe\xff\0{\0}\0\n"s, "UTF-16"),
        std::pair("{\0}\0\n\0"s, "UTF-16, without a byte order mark"),
        std::pair("\xff\xfe\0\0{\0\0\0"s, "UTF-32")}) {
    write_file(folder / "a.jsonl", bytes);
    const Error error = error_of([&] { documents_of(corpus_of(folder / "a.jsonl")); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_EQ(error.fields().found, found);
  }
}

TEST(Source, ARelativePathThatIsMissingIsNamedWhole) {
  const Error error = error_of([&] { corpus_of("no/such/texts"); });
  EXPECT_EQ(error.fields().where,
            "no/such/texts, that is " + (std::filesystem::current_path() / "no/such/texts").string());
}

TEST(Source, LinksToFoldersAreFollowed) {
  TemporaryFolder folder;
  namespace fs = std::filesystem;
  write_file(folder / "text/a.txt", "A");
  write_file(folder / "text/.cache/b.txt", "hidden");
  write_file(folder / "elsewhere/b.txt", "B");
  write_file(folder / "elsewhere/deep/c.txt", "C");
  fs::create_directory_symlink("../elsewhere", folder / "text/part1");
  // a circle, from within the linked folder
  fs::create_directory_symlink("..", folder / "elsewhere/deep/up");
  fs::create_directory_symlink(folder / "text", folder / "text/itself");   // and one to the source
  fs::create_directory_symlink("../elsewhere", folder / "text/.part2");    // hidden
  fs::create_directory_symlink("/no/such/folder", folder / "text/part3");  // told by the log
  EXPECT_EQ(documents_of(corpus_of(folder / "text")),
            (Documents{{"a.txt", "A"}, {"part1/b.txt", "B"}, {"part1/deep/c.txt", "C"}}));
}

// A few KB that unpack to GB.
TEST(Source, ABombIsRefused) {
  TemporaryFolder folder;
  // packed well, and no more than may be
  write_file(folder / "logs.txt.zst", zstd_compressed(std::string(200 << 20, 'a')));
  int64_t bytes = 0;
  for_each_text(corpus_of(folder / "logs.txt.zst"), Split::kTrain,
                [&](std::string_view text) { bytes += std::ssize(text); });
  EXPECT_EQ(bytes, 200 << 20);
  write_file(folder / "bomb.txt.zst", zstd_compressed(std::string(300 << 20, 'a')));
  const Error error = error_of(
      [&] { for_each_text(corpus_of(folder / "bomb.txt.zst"), Split::kTrain, [](std::string_view) {}); });
  EXPECT_EQ(error.code(), ExitCode::kData);
  EXPECT_EQ(error.fields().where, (folder / "bomb.txt.zst").string());
}

// Two trees of shards of one size and one time, as images of containers and archives have them.
TEST(Source, OtherTextsOfTheSameNamesSizesAndTimesHaveAnotherKey) {
  TemporaryFolder folder;
  namespace fs = std::filesystem;
  const std::string text(20000, 'a');
  std::vector<std::string> keys;
  for (const auto& [name, at] : {std::pair("one", -1), std::pair("two", 0), std::pair("three", 10000),
                                 std::pair("four", 19999), std::pair("copy", -1)}) {
    std::string other = text;
    if (at >= 0) other[static_cast<size_t>(at)] = 'b';
    write_file(folder / name / "a.txt", other);
    fs::last_write_time(folder / name / "a.txt", fs::file_time_type{} + std::chrono::hours(1));
    keys.push_back(corpus_of(folder / name).key(0));
  }
  EXPECT_EQ(keys.front(), keys.back()) << "where they lie is no part of it";
  EXPECT_EQ(std::set(keys.begin(), keys.end()).size(), 4u);
}

}  // namespace
}  // namespace longhaul::data

// Parquet and Arrow tables that pyarrow wrote (tests/golden/tables/make.py), and bad ones. Where the program
// was built without Arrow: what it says.
#include "data/corpus/table_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/support.h"
#include "support/places.h"

namespace longhaul::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::filesystem::path table(const std::string& name) {
  return std::filesystem::path(source_folder()) / "tests/golden/tables" / name;
}

using Rows = std::vector<std::pair<int64_t, std::string>>;

Rows rows_of(const std::filesystem::path& path, const std::string& column = "text", int64_t after = 0) {
  Rows rows;
  read_table(path, column, after, [&](int64_t row, const std::string_view* text) {
    rows.emplace_back(row, text == nullptr ? "(null)" : std::string(*text));
  });
  return rows;
}

TEST(Tables, GiveWholeRowsWithoutTheFieldsThatAreNull) {
  if (!can_read_tables()) GTEST_SKIP() << "built without Arrow";
  std::vector<std::string> rows;
  read_table_rows(table("talks.parquet"), [&](int64_t row, nlohmann::ordered_json&& fields) {
    EXPECT_EQ(row, std::ssize(rows) + 1);
    rows.push_back(fields.dump());
  });
  EXPECT_THAT(
      rows,
      ElementsAre(
          R"({"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"é","name":"a"}],"weight":0.5,"good":true,"level":3})",
          R"({"messages":[{"role":"user","content":"r"},{"role":"assistant","content":"s"}],"good":false,"level":4})"));
}

TEST(Tables, AreKnownByTheirEndings) {
  EXPECT_TRUE(is_table("a/b.parquet"));
  EXPECT_TRUE(is_table("data-00000-of-00001.arrow"));
  EXPECT_FALSE(is_table("parquet.txt"));
}

TEST(Tables, OfEveryKindHaveTheSameRows) {
  if (!can_read_tables()) GTEST_SKIP() << "built without Arrow";
  for (const char* name : {"rows.parquet", "file.arrow", "saved/data-00000-of-00001.arrow"}) {
    EXPECT_THAT(rows_of(table(name)),
                ElementsAre(Pair(1, "one"), Pair(2, "zwei\nline"), Pair(3, "(null)"), Pair(4, "vier é")))
        << name;
    EXPECT_THAT(rows_of(table(name), "text", 2), ElementsAre(Pair(3, "(null)"), Pair(4, "vier é"))) << name;
  }
}

TEST(Tables, BadOnesAreRefused) {
  if (!can_read_tables()) GTEST_SKIP() << "built without Arrow";
  TemporaryFolder folder;
  const auto refusal = [](const std::filesystem::path& path, const std::string& column) {
    const Error error = error_of([&] { rows_of(path, column); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    return std::string(error.what());
  };
  for (const char* name : {"rows.parquet", "file.arrow", "saved/data-00000-of-00001.arrow"}) {
    EXPECT_THAT(refusal(table(name), "body"), HasSubstr("columns id, text, nested"));
    EXPECT_THAT(refusal(table(name), "id"), HasSubstr("strings"));
    const std::string good = read_file(table(name));
    const auto cut = folder / ("cut" + std::filesystem::path(name).extension().string());
    write_file(cut, good.substr(0, good.size() / 2));
    EXPECT_THAT(refusal(cut, "text"), HasSubstr("cut"));
    write_file(cut, "no table at all, only words");
    EXPECT_THAT(refusal(cut, "text"), HasSubstr("cut"));
  }
}

TEST(Tables, AreSourcesLikeJsonLines) {
  if (!can_read_tables()) GTEST_SKIP() << "built without Arrow";
  CorpusOptions options;
  options.sources = {table("saved").string()};
  options.held_out_percent = 0;
  EXPECT_THAT(error_of([&] { documents_of(Corpus::open(options)); }).what(), HasSubstr("has no text"));
  options.source.skip_bad_lines = true;
  const std::string name = "data-00000-of-00001.arrow";
  EXPECT_THAT(
      documents_of(Corpus::open(options)),
      ElementsAre(Pair(name + ":1", "one"), Pair(name + ":2", "zwei\nline"), Pair(name + ":4", "vier é")));
}

TEST(Tables, WithoutArrowAreRefusedWithTheWay) {
  if (can_read_tables()) GTEST_SKIP() << "built with Arrow";
  for (const char* name : {"rows.parquet", "saved"}) {
    CorpusOptions options;
    options.sources = {table(name).string()};
    const Error error = error_of([&] { Corpus::open(options); });
    EXPECT_EQ(error.code(), ExitCode::kData);
    EXPECT_THAT(error.what(), HasSubstr("scripts/fetch-arrow"));
  }
}

TEST(Tables, SplitsOfADataSetAreNamedOneByOne) {
  TemporaryFolder folder;
  write_file(folder / "dataset_dict.json", "{}");
  CorpusOptions options;
  options.sources = {folder.path().string()};
  EXPECT_THAT(error_of([&] { Corpus::open(options); }).what(), HasSubstr("several splits"));
}

}  // namespace
}  // namespace longhaul::data

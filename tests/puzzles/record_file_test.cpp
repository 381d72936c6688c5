// Files of puzzles in all formats: the same rows come back, public ones are read
// (tests/golden/puzzles/make.py wrote them with pyarrow), bad ones are refused with their row, and what is
// not whole has not the name of the file.
#include "puzzles/record_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files/small_disk.h"
#include "base/files/temporary_folder.h"
#include "puzzles/record_table.h"
#include "puzzles/support.h"
#include "puzzles/tasks.h"
#include "support/places.h"

namespace longhaul::puzzles {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kNoArrow = "built without Arrow";

std::filesystem::path golden(const std::string& name) {
  return std::filesystem::path(source_folder()) / "tests/golden/puzzles" / name;
}

std::vector<ReadRecord> records_in(const std::filesystem::path& path, const TaskEntry* task = nullptr) {
  std::vector<ReadRecord> all;
  each_record(path, task, [&](ReadRecord&& record, const std::string&) { all.push_back(std::move(record)); });
  return all;
}

// Three puzzles of every task in both languages: two of a training set, one of the seeds to test on.
std::vector<nlohmann::ordered_json> some_rows() {
  std::vector<nlohmann::ordered_json> rows;
  for (const TaskEntry* task : tasks()) {
    for (int64_t index = 0; index < 3; ++index) {
      const KnobValues knobs = at_level(task->knobs, 1);
      const uint64_t seed = 5 | (index == 2 ? kValidationSeeds : 0);
      const Language language = index == 1 ? Language::kChinese : Language::kEnglish;
      rows.push_back(
          to_record(make_puzzle(*task, knobs, seed, index).value(), {task, knobs, 1, seed, language}));
    }
  }
  return rows;
}

void write_rows(const std::filesystem::path& path, const std::vector<nlohmann::ordered_json>& rows) {
  RecordWriter writer(path, format_to_write(path.string(), false));
  for (const auto& row : rows) writer.write(row);
  writer.finish();
}

TEST(PuzzleFiles, HoldTheSameRowsInBothFormats) {
  TemporaryFolder folder;
  const auto rows = some_rows();
  std::vector<std::string> names = {"rows.jsonl"};
  if (can_use_tables()) names.push_back("rows.parquet");
  for (const std::string& name : names) {
    write_rows(folder / name, rows);
    const auto read = records_in(folder / name);
    ASSERT_EQ(read.size(), rows.size()) << name;
    for (size_t i = 0; i < rows.size(); ++i) {
      EXPECT_EQ(read[i].columns.dump(), rows[i].dump()) << name;  // with the columns in their order
      EXPECT_EQ(read[i].answer, rows[i]["solution"].get<std::string>());
      EXPECT_EQ(read[i].columns["reward_model"]["ground_truth"], rows[i]["solution"]);
      const ReadRecord game =
          read_game(rows[i]["data_source"].get<std::string>(), rows[i]["extra_info"]["game_data_str"], "row");
      EXPECT_EQ(game.given, read[i].given);
      EXPECT_EQ(game.task, read[i].task);
      EXPECT_TRUE(read[i].task->verify(read[i].given, read[i].answer).accepted()) << rows[i].dump();
    }
  }
}

TEST(PuzzleFiles, OfATaskGoToPublicGeneratorsAndBack) {
  TemporaryFolder folder;
  for (const TaskEntry* task : tasks()) {
    const auto path = folder / (std::string(task->key) + ".jsonl");
    int64_t written = 0;
    {
      RecordWriter writer(path, RecordFormat::kGeneratorLines);
      for (const auto& row : some_rows()) {
        ReadRecord record = read_row(row, "row");
        if (record.task != task) continue;
        writer.write(record);
        ++written;
      }
      writer.finish();
    }
    std::vector<std::string> keys;
    const std::string text = read_text(path);
    const auto first = nlohmann::ordered_json::parse(text.substr(0, text.find('\n')));
    for (const auto& [key, value] : first.items()) keys.push_back(key);
    EXPECT_THAT(keys, ElementsAre("question", "answer", "difficulty", "metadata", "gpt_response"));
    const auto read = records_in(path, task);
    EXPECT_EQ(static_cast<int64_t>(read.size()), written);
    for (const ReadRecord& record : read)
      EXPECT_TRUE(record.task->verify(record.given, record.answer).accepted()) << task->key;
    EXPECT_THAT(error_of([&] { records_in(path); }).what(), HasSubstr("--task KEY"));
  }
  RecordWriter writer(folder / "two.jsonl", RecordFormat::kGeneratorLines);
  const auto rows = some_rows();
  writer.write(read_row(rows.front(), "row"));
  EXPECT_THAT(error_of([&] { writer.write(read_row(rows.back(), "row")); }).what(), HasSubstr("--only"));
}

TEST(PuzzleFiles, OfOthersAreRead) {
  if (!can_use_tables()) GTEST_SKIP() << kNoArrow;
  const auto read = records_in(golden("public.parquet"));
  ASSERT_EQ(read.size(), 2u);
  EXPECT_EQ(read[0].task->key, "sudoku");
  EXPECT_EQ(read[0].columns["data_source"], "val/sudoku");
  EXPECT_EQ(read[0].answer, "");
  EXPECT_TRUE(read[0].task->verify(read[0].given, "[[1,2,3,4],[3,4,1,2],[2,1,4,3],[4,3,2,1]]").accepted());
  EXPECT_EQ(read[1].task->key, "futoshiki");
  EXPECT_EQ(read[1].given["grid"], nlohmann::json::parse(R"([["X", "X"], [2, "X"]])"));
  EXPECT_TRUE(read[1].task->verify(read[1].given, read[1].answer).accepted());
  EXPECT_EQ(read[1].columns["extra_info"]["index"], 1);
  // Without our columns they go through our files, too.
  TemporaryFolder folder;
  RecordWriter writer(folder / "copy.parquet", RecordFormat::kTable);
  for (const ReadRecord& record : read) writer.write(record);
  writer.finish();
  const auto copied = records_in(folder / "copy.parquet");
  ASSERT_EQ(copied.size(), 2u);
  for (size_t i = 0; i < 2; ++i) EXPECT_EQ(copied[i].columns.dump(), read[i].columns.dump());
}

TEST(PuzzleFiles, ThatAreBadAreRefusedWithTheRow) {
  TemporaryFolder folder;
  const auto refusal = [&](const std::string& line) {
    write_text_atomically(folder / "bad.jsonl", some_rows().front().dump() + "\n\n" + line + "\n");
    const Error error = error_of([&] { records_in(folder / "bad.jsonl"); });
    EXPECT_EQ(error.code(), ExitCode::kData) << line;
    EXPECT_THAT(error.what(), HasSubstr("bad.jsonl:3")) << line;
    return std::string(error.what());
  };
  const auto changed = [](const char* key, const nlohmann::ordered_json& value) {
    auto row = some_rows().back();
    row[key] = value;
    return row.dump();
  };
  EXPECT_THAT(refusal(changed("data_source", "sudokku")), HasSubstr("did you mean sudoku?"));
  EXPECT_THAT(refusal(changed("data_source", 7)), HasSubstr("data_source"));
  EXPECT_THAT(refusal(changed("data_source", nullptr)), HasSubstr("data_source"));
  EXPECT_THAT(refusal(changed("extra_info", "text")), HasSubstr("extra_info"));
  EXPECT_THAT(refusal(changed("extra_info", {{"index", 1}})), HasSubstr("game_data_str"));
  EXPECT_THAT(refusal(changed("extra_info", {{"game_data_str", "{\"question\": \"\"}"}})),
              HasSubstr("metadata"));
  EXPECT_THAT(refusal(changed("extra_info", {{"game_data_str", "{\"metadata\": []}"}})),
              HasSubstr("metadata"));
  EXPECT_THAT(refusal(changed("extra_info", {{"game_data_str", "{\"metadata\": {}, \"question\": 1}"}})),
              HasSubstr("question"));
  EXPECT_THAT(refusal(changed("level", 11)), HasSubstr("level"));
  EXPECT_THAT(refusal(changed("level", "3")), HasSubstr("level"));
  EXPECT_THAT(refusal(changed("seed", -1)), HasSubstr("seed"));
  EXPECT_THAT(refusal(changed("prompt", nlohmann::ordered_json::array({"text"}))), HasSubstr("prompt"));
  EXPECT_THAT(refusal("[1]"), HasSubstr("an object"));
  EXPECT_THAT(refusal("{"), HasSubstr("JSON"));
}

TEST(PuzzleFiles, OfTablesThatAreBadAreRefusedWithTheRow) {
  if (!can_use_tables()) GTEST_SKIP() << kNoArrow;
  const auto refusal = [&](const std::filesystem::path& path) {
    const Error error = error_of([&] { records_in(path); });
    EXPECT_EQ(error.code(), ExitCode::kData) << path;
    return std::string(error.what());
  };
  EXPECT_THAT(refusal(golden("unknown_task.parquet")), AllOf(HasSubstr("sudokku"), HasSubstr("row 2")));
  EXPECT_THAT(refusal(golden("wrong_type.parquet")),
              AllOf(HasSubstr("data_source"), HasSubstr("row 1"), HasSubstr("7")));
  EXPECT_THAT(refusal(std::filesystem::path(source_folder()) / "tests/golden/tables/rows.parquet"),
              AllOf(HasSubstr("data_source"), HasSubstr("columns id, text, nested")));
  TemporaryFolder folder;
  write_text_atomically(folder / "none.parquet", "no table at all, only words");
  EXPECT_THAT(refusal(folder / "none.parquet"), HasSubstr("none.parquet"));
  const std::string whole = read_text(golden("public.parquet"));
  write_text_atomically(folder / "half.parquet", whole.substr(0, whole.size() / 2));
  EXPECT_THAT(refusal(folder / "half.parquet"), HasSubstr("half.parquet"));
}

TEST(PuzzleFiles, AreWholeOrNotThere) {
  TemporaryFolder folder;
  for (const RecordFormat format : {RecordFormat::kLines, RecordFormat::kTable}) {
    if (format == RecordFormat::kTable && !can_use_tables()) continue;
    const auto path = folder / (format == RecordFormat::kTable ? "rows.parquet" : "rows.jsonl");
    write_text_atomically(path, "of before");
    {
      RecordWriter writer(path, format);
      writer.write(some_rows().front());
      for (const std::string& name : files_in(folder.path()))
        EXPECT_TRUE(name.ends_with(".tmp") || read_text(folder / name) == "of before") << name;
    }
    EXPECT_EQ(read_text(path), "of before");
    std::filesystem::remove(path);
  }
  EXPECT_THAT(files_in(folder.path()), ElementsAre());
}

TEST(PuzzleFiles, OnAFullDiskAreAnErrorOfTheDisk) {
  TemporaryFolder folder;
  const SmallDisk disk(folder / "small", 256 << 10);
  if (!disk.usable()) GTEST_SKIP() << "this user may not mount";
  const auto rows = some_rows();
  for (const RecordFormat format : {RecordFormat::kLines, RecordFormat::kTable}) {
    if (format == RecordFormat::kTable && !can_use_tables()) continue;
    const auto path = folder / "small" / (format == RecordFormat::kTable ? "rows.parquet" : "rows.jsonl");
    const Error error = error_of([&] {
      RecordWriter writer(path, format);
      for (int64_t i = 0; i < 20000; ++i) {
        auto row = rows[static_cast<size_t>(i) % rows.size()];
        row["payload_hash"] = fmt::format("{:x}", i * 7919 * 104729 % 1000003 * 31337);
        row["solution"] = fmt::format("{:x}", i * 15485863 * 32452843 % 982451653);
        writer.write(row);
      }
      writer.finish();
    });
    EXPECT_EQ(error.code(), ExitCode::kDisk) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(path.filename().string()));
    EXPECT_THAT(files_in(folder / "small"), ElementsAre());
  }
}

TEST(PuzzleFiles, OfOtherEndingsAreRefusedAndParquetSaysWhatItNeeds) {
  EXPECT_THAT(error_of([] { format_to_write("a.csv", false); }).what(), HasSubstr("FILE.jsonl"));
  EXPECT_THAT(error_of([] { format_to_write("a.parquet", true); }).what(), HasSubstr("FILE.jsonl"));
  if (can_use_tables()) return;
  EXPECT_THAT(error_of([] { format_to_write("a.parquet", false); }).what(), HasSubstr("scripts/fetch-arrow"));
  EXPECT_THAT(error_of([] { records_in(golden("public.parquet")); }).what(),
              HasSubstr("scripts/fetch-arrow"));
}

TEST(PuzzleFiles, ReadNumbersOfPublicQuestions) {
  const TaskEntry& task = task_named("futoshiki");
  const auto given_of = [&](const std::string& question) {
    nlohmann::json object = {{"question", question}};
    object["metadata"] =
        nlohmann::json::parse(R"({"grid_size": 3, "prefilled_coords": [[1, 1], [0, 2]], "constraints": []})");
    return task.from_reference(object);
  };
  const auto grid = nlohmann::json::parse(R"([["X", "X", 1], ["X", 2, "X"], ["X", "X", "X"]])");
  EXPECT_EQ(given_of("Current puzzle:\nX X 1\nX 2 X\nX X X\n\nInequalities")["grid"], grid);
  EXPECT_EQ(given_of("Current puzzle:\n[['X', 'X', 1],\n ['X', 2, 'X'],\n ['X', 'X', 'X']]\n")["grid"], grid);
  for (const char* bad : {"X X 1", "Current puzzle:\nX X 1\nX X 2\nX X X", "Current puzzle:\nX X 1\n"})
    EXPECT_EQ(error_of([&] { given_of(bad); }).code(), ExitCode::kData) << bad;
}

}  // namespace
}  // namespace longhaul::puzzles

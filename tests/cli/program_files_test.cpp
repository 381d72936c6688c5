// Commands that work on files: tokenizers, prepared data, caches, checkpoints, runs.
// ctest: label=full timeout=600
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/started_program.h"
#include "storage/commit.h"

namespace longhaul::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgramFiles : public StartedProgram {};

TEST_F(ProgramFiles, TokenizerTrainsEncodesAndDecodes) {
  const ProcessResult trained = run({"tokenizer", "train", "--vocabulary", "280", "--out",
                                     path("tokenizer.json"), path("texts"), "--json"});
  ASSERT_EQ(trained.status, 0) << trained.errors;
  EXPECT_EQ(json::parse(trained.output)["vocabulary"], 280);

  const ProcessResult encoded = run(
      {"tokenizer", "encode", path("tokenizer.json"), path("texts/0.txt"), path("texts/1.txt"), "--json"});
  ASSERT_EQ(encoded.status, 0) << encoded.errors;
  std::istringstream lines(encoded.output);
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const json first = json::parse(line);
  EXPECT_EQ(first["file"], path("texts/0.txt"));
  ASSERT_GT(first["ids"].size(), 5u);
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(json::parse(line)["file"], path("texts/1.txt"));

  write("ids.json", first.dump());
  EXPECT_EQ(run({"tokenizer", "decode", path("tokenizer.json"), path("ids.json")}).output,
            "the cat sat on mat 0\nand then it slept the day away\n");
  EXPECT_EQ(run({"tokenizer", "decode", "bytes", "104", "105"}).output, "hi");

  expect_error(run({"tokenizer", "encode", path("missing.json"), path("texts/0.txt")}), 65, "missing.json");
  expect_error(run({"tokenizer", "encode", path("tokenizer.json"), path("missing.txt")}), 65, "missing.txt");
  expect_error(run({"tokenizer", "decode", "bytes", "300"}), 65, "300");
  expect_error(run({"tokenizer", "decode", "bytes", "-1"}), 65, "-1 at position 0");
  write("broken.json", "{\"model\":");
  expect_error(run({"tokenizer", "encode", path("broken.json"), path("texts/0.txt")}), 65, "broken.json");
}

// What a user types to see which tokens count, while the data is made and afterwards.
TEST_F(ProgramFiles, DataShowsWhichTokensCountInTheLoss) {
  write("rows.jsonl",
        "{\"prompt\": \"2 + 2 = \", \"completion\": \"4\"}\n{\"prompt\": \"\", \"completion\": \"free\"}\n");
  const std::vector<std::string> prepare = {"data",
                                            "prepare",
                                            path("recipe.toml"),
                                            "data.source=" + path("rows.jsonl"),
                                            "data.loss_on=completion",
                                            "data.held_out_percent=0",
                                            "--documents",
                                            "1"};
  const ProcessResult shown = run(prepare);
  EXPECT_THAT(shown.output, AllOf(HasSubstr("training, document 1 of 2"), HasSubstr("1 to 8"),
                                  HasSubstr("none"), HasSubstr("2 + 2 ="), HasSubstr("9 to 9 and end"),
                                  HasSubstr("7 of 15 labels count in the loss")));
  EXPECT_THAT(shown.output, Not(HasSubstr("document 2")));
  std::vector<std::string> as_json = prepare;
  as_json.push_back("--json");
  const json source = json::parse(run(as_json).output).at("sources").at(0);
  EXPECT_EQ(source.at("train").at("counted_labels"), 7);
  const json& parts = source.at("shown_documents").at(0).at("parts");
  EXPECT_EQ(
      parts.at(0),
      json::parse(R"({"begin": 0, "end": 8, "weight": 0.0, "ends_document": false, "text": "2 + 2 = "})"));
  EXPECT_EQ(parts.at(1).at("weight"), 1);
  const std::string folder = source.at("folder");
  EXPECT_THAT(run({"data", "show", folder, "--documents", "2"}).output,
              AllOf(HasSubstr("document 2 of 2"), Not(HasSubstr("free"))));
  EXPECT_THAT(run({"data", "show", folder, "--documents", "2", "--tokenizer", "bytes"}).output,
              HasSubstr("free"));
  std::vector<std::string> bad = prepare;
  bad[4] = "data.loss_on=parts";
  expect_error(run(bad), 65, "no list \"text\"");
}

TEST_F(ProgramFiles, DataIsPreparedVerifiedAndShown) {
  const ProcessResult prepared = run({"data", "prepare", path("recipe.toml"), "--json"});
  ASSERT_EQ(prepared.status, 0) << prepared.errors;
  const json source = json::parse(prepared.output)["sources"][0];
  EXPECT_EQ(source["train"]["documents"].get<int>() + source["held_out"]["documents"].get<int>(), 30);
  const std::string folder = source["folder"];

  EXPECT_EQ(run({"data", "verify", folder}).status, 0);
  const ProcessResult shown = run({"data", "show", path("cache"), "--json"});
  EXPECT_EQ(json::parse(shown.output)["sources"][0]["train"], source["train"]);

  for (const auto& entry : fs::recursive_directory_iterator(folder)) {  // one flipped bit in a shard
    if (entry.path().parent_path().filename() != "train") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(300);
    const char byte = static_cast<char>(file.get() ^ 1);
    file.seekp(300);
    file.put(byte);
    break;
  }
  expect_error(run({"data", "verify", folder}), 65, "train");
  expect_error(run({"data", "verify", path("texts")}), 65, "no prepared data");
  expect_error(run({"data", "prepare", path("recipe.toml"), "data.source=" + path("nowhere")}), 65,
               "nowhere");
}

TEST_F(ProgramFiles, DataOfOddNamesAndFilesThatAreNotText) {
  const std::string odd = path("caf\xe9");
  fs::create_directories(odd);
  write("caf\xe9/na\xefve.txt", "some text of its own\n");
  write("caf\xe9/plain.txt", "some other text\n");
  write("caf\xe9/\xff.bin", std::string(10, '\0'));
  for (const std::string& source : {odd, "file:" + path("caf%E9")}) {
    const ProcessResult prepared =
        run({"data", "prepare", path("recipe.toml"), "data.source=" + source, "--json"});
    ASSERT_EQ(prepared.status, 0) << prepared.errors;
    const json found = json::parse(prepared.output)["sources"][0];
    EXPECT_EQ(found["source"], "file:" + path("caf%E9"));
    EXPECT_EQ(found["not_text"], 1);
    EXPECT_EQ(found["not_text_bytes"], 10);
    EXPECT_EQ(found["not_text_files"][0]["name"], "file:%FF.bin");
    EXPECT_THAT(run({"data", "show", found["folder"]}).output,
                AllOf(HasSubstr("left out: not text"), HasSubstr("file:%FF.bin")));
  }
  expect_error(run({"data", "prepare", path("recipe.toml"), "data.source=" + path("caf\xe8")}), 65,
               "no such file");
  expect_error(run({"data", "prepare", path("recipe.toml"), "data.source=file:%zz"}), 64, "%25");
  const ProcessResult shown = run({"config", "show", path("recipe.toml"), "data.source=" + odd});
  EXPECT_EQ(shown.status, 0);
  EXPECT_THAT(shown.output, HasSubstr("file:"));
}

TEST_F(ProgramFiles, CleanRemovesWhatNoRecentRunUsed) {
  ASSERT_EQ(run({"data", "prepare", path("recipe.toml")}).status, 0);
  const auto clean = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"data", "clean", "--json"});
    const ProcessResult result = run(more);
    EXPECT_EQ(result.status, 0) << result.errors;
    return json::parse(result.output);
  };
  EXPECT_EQ(clean({})["entries"].size(), 0u) << "it was used just now";
  const json listed = clean({"--all"});
  ASSERT_EQ(listed["entries"].size(), 1u);
  EXPECT_EQ(listed["entries"][0]["kind"], "token shards");
  EXPECT_GT(listed["bytes"].get<int64_t>(), 0);
  EXPECT_EQ(listed["removed_bytes"], 0);
  EXPECT_TRUE(fs::exists(listed["entries"][0]["path"].get<std::string>()))
      << "without --yes nothing is removed";
  EXPECT_THAT(run({"data", "clean", "--all"}).output, HasSubstr("add --yes"));
  for (const auto& entry : fs::recursive_directory_iterator(path("cache"))) {
    fs::last_write_time(entry.path(), fs::file_time_type::clock::now() - std::chrono::hours(24 * 40));
  }
  EXPECT_EQ(clean({"--older-than", "50"})["entries"].size(), 0u);
  const json removed = clean({"--yes"});
  EXPECT_EQ(removed["removed_bytes"], removed["bytes"]);
  EXPECT_TRUE(removed["entries"][0]["removed"].get<bool>());
  EXPECT_FALSE(fs::exists(removed["entries"][0]["path"].get<std::string>()));
  EXPECT_THAT(run({"data", "clean", path("cache"), "--all"}).output, HasSubstr("nothing"));
}

TEST_F(ProgramFiles, CheckpointsAreListedVerifiedComparedAndPruned) {
  save("a", 10, 0);
  const fs::path newest = save("a", 20, 0);
  save("b", 20, 0.5f);

  const json listed = json::parse(run({"checkpoint", "list", path("a"), "--json"}).output)["checkpoints"];
  ASSERT_EQ(listed.size(), 2u);
  EXPECT_EQ(listed[0]["step"], 20);
  EXPECT_TRUE(listed[0]["latest"].get<bool>());
  EXPECT_EQ(json::parse(run({"checkpoint", "show", path("a"), "--json"}).output)["tensors"][0]["name"], "w");
  const std::string shown_table = run({"checkpoint", "show", path("a")}).output;
  EXPECT_THAT(shown_table,
              AllOf(HasSubstr("\n  run               a\n"), HasSubstr("\n  step              20\n"),
                    HasSubstr("\n  generation "), HasSubstr(" by 1 process\n"), HasSubstr(" in 1 file\n"),
                    HasSubstr("\n  tensors, weight   1 of 8 values\n"), Not(HasSubstr("{"))));
  EXPECT_THAT(run({"checkpoint", "show", path("a"), "--tensors"}).output, HasSubstr("w      F32     [8]"));
  EXPECT_THAT(run({"checkpoint", "list", path("a")}).output, HasSubstr("generation"));
  EXPECT_EQ(run({"checkpoint", "verify", newest.string()}).status, 0);
  EXPECT_EQ(run({"checkpoint", "verify", path("a")}).status, 0);
  for (const char* name : {"a/checkpoints/", "a/checkpoints/latest", "a/checkpoints/step-000000020",
                           "a/checkpoints/step-000000020/manifest.json"}) {
    EXPECT_EQ(json::parse(run({"checkpoint", "show", path(name), "--json"}).output)["step"], 20) << name;
  }
  EXPECT_EQ(run({"checkpoint", "verify", path("a/checkpoints/latest")}).status, 0);
  expect_error(run({"checkpoint", "list", newest.string()}), 66, "one checkpoint");
  expect_error(run({"checkpoint", "verify", path("recipe.toml")}), 66, "recipe.toml");
  EXPECT_EQ(run({"checkpoint", "diff", newest.string(), newest.string()}).status, 0);
  const ProcessResult differ = run({"checkpoint", "diff", path("a"), path("b"), "--json"});
  EXPECT_EQ(differ.status, 1);
  EXPECT_EQ(json::parse(differ.output)["tensors"][0]["different"], 1);

  EXPECT_EQ(
      json::parse(
          run({"checkpoint", "prune", path("a"), "--keep", "1", "--dry-run", "--json"}).output)["removed"]
          .size(),
      1u);
  EXPECT_EQ(run({"checkpoint", "prune", path("a"), "--keep", "1"}).status, 0);
  EXPECT_EQ(json::parse(run({"checkpoint", "list", path("a"), "--json"}).output)["checkpoints"].size(), 1u);

  std::fstream file(newest / "rank-00000.safetensors", std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-2, std::ios::end);
  file.put('x');
  file.close();
  const ProcessResult damaged = run({"checkpoint", "verify", newest.string()});
  expect_error(damaged, 66, "rank-00000.safetensors");
  EXPECT_THAT(damaged.errors, HasSubstr("w"));
  expect_error(run({"checkpoint", "verify", path("texts")}), 66, "manifest.json");

  // A damaged newest one: the next older is taken, which is said; the list says it in one line.
  save("b", 10, 0);
  fs::resize_file(folder_ / "b/checkpoints/step-000000020/rank-00000.safetensors", 10);
  const ProcessResult shown = run({"checkpoint", "show", path("b"), "--json"});
  EXPECT_EQ(json::parse(shown.output)["step"], 10);
  EXPECT_THAT(shown.errors, AllOf(HasSubstr("passed over"), HasSubstr("step-000000020")));
  const std::string table = run({"checkpoint", "list", path("b")}).output;
  EXPECT_THAT(table, HasSubstr("unusable: a file of the checkpoint has the wrong size"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 4) << table;  // folder, headings, two checkpoints
  expect_error(run({"checkpoint", "list", path("nowhere")}), 66, "nowhere");
  EXPECT_THAT(run({"checkpoint", "list", path("nowhere")}).errors,
              ::testing::EndsWith("  read      docs/guides/troubleshooting.md#checkpoints\n"));
}

TEST_F(ProgramFiles, CompareNamesTheFirstStepAndTensor) {
  for (const char* name : {"a", "b", "c"}) fs::create_directories(folder_ / name);
  save("a", 2, 0), save("b", 2, 0.5f), save("c", 2, 0);
  events("a", "2.25"), events("b", "2.125"), events("c", "2.25");

  const ProcessResult differ = run({"compare", path("a"), path("b"), "--json"});
  EXPECT_EQ(differ.status, 1) << differ.errors;
  const json found = json::parse(differ.output);
  EXPECT_EQ(found["first_step"], 2);
  EXPECT_EQ(found["first_tensor"], "w");
  const ProcessResult same = run({"compare", path("a"), path("c")});
  EXPECT_EQ(same.status, 0) << same.output << same.errors;
  EXPECT_THAT(same.output, HasSubstr("equal in every bit"));
  EXPECT_NE(run({"compare", path("a"), path("nowhere")}).status, 0);
}

}  // namespace
}  // namespace longhaul::cli

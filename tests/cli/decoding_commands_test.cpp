// ctest: label=full timeout=600
// sample, score and evaluate on several ranks and in eight bits, as a person types them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/net/http.h"
#include "base/process/process.h"
#include "cli/models/model_tokenizer.h"
#include "storage/safetensors.h"
#include "support/child.h"
#include "support/known_machine.h"
#include "support/places.h"

namespace longhaul::cli::decoding_commands_test {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A model that two tensor ranks have trained.
class DecodingCommands : public ::testing::Test {
 protected:
  DecodingCommands()
      : folder_(fs::temp_directory_path() / ("longhaul-decoding-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "text");
    for (int i = 0; i < 20; ++i)
      std::ofstream(folder_ / "text" / (std::to_string(i) + ".txt"))
          << "The " << i << "th of twenty texts.\n";
    std::ofstream(folder_ / "tiny.toml")
        << "version = 1\n[model]\nlayers = 2\nhidden = 160\nheads = 4\nkv_heads = 2\nhead_dim = 16\n"
           "vocabulary = 300\nmixers = [\"lightning\", \"softmax\"]\nintermediate = 32\nrotary_dim = 8\n"
           "[data]\ntokenizer = \"bytes\"\n[train]\nsteps = 3\ndtype = \"fp32\"\nbatch = 2\nmicro_batch = 1\n"
           "sequence = 32\nevaluate_every = 0\n[parallel]\nranks = 2\ntp = 2\n[observe]\nreport = false\n"
           "tensorboard = false\ncompression_baseline = false\n";
    const ProcessResult trained = longhaul({"train", (folder_ / "tiny.toml").string(),
                                            "data.source=" + (folder_ / "text").string(), "--run", run()});
    EXPECT_EQ(trained.status, 0) << trained.errors;
  }
  ~DecodingCommands() override { fs::remove_all(folder_); }

  ProcessResult longhaul(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), program_file());
    return run_process(arguments, {cache_variable(folder_ / "cache")}, 180);
  }
  std::string run() const { return (folder_ / "run").string(); }
  nlohmann::json sample(std::vector<std::string> more) const {
    std::vector<std::string> words{"sample", run(),    "--prompt",      "The ", "--tokens",
                                   "12",     "--json", "--temperature", "0"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.status == 0 ? nlohmann::json::parse(result.output) : nlohmann::json();
  }
  std::vector<float> score(std::vector<std::string> more) const {
    std::ofstream(folder_ / "ids.json") << "[1, 50, 90, 120, 7, 33, 256]";
    std::vector<std::string> words{
        "score", run(), "--ids", (folder_ / "ids.json").string(), "--out", (folder_ / "logits").string()};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto bytes =
        storage::SafetensorsFile::open(storage::LocalFileSystem(), folder_ / "logits").read("logits");
    std::vector<float> logits(bytes.size() / sizeof(float));
    EXPECT_EQ(logits.size(), 7u * 300);
    std::memcpy(logits.data(), bytes.data(), bytes.size());
    return logits;
  }
  double bits_per_byte(std::vector<std::string> more) const {
    std::vector<std::string> words{"evaluate", run(), "--data", (folder_ / "text").string(), "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, 0) << result.errors;
    return result.status == 0 ? nlohmann::json::parse(result.output)["bits_per_byte"].get<double>() : 0;
  }
  static double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
    double largest = 0;
    for (size_t i = 0; i < a.size(); ++i) largest = std::max<double>(largest, std::abs(a[i] - b[i]));
    return largest;
  }

  fs::path folder_;
};

// Over HTTP two stages write what sample writes alone, also where requests run side by side, and SIGTERM ends
// all ranks; what several ranks leave out is refused by name.
TEST_F(DecodingCommands, AServerOnSeveralRanksWritesWhatOneWrites) {
  const std::string text = sample({})["text"];
  Child server({program_file(), "serve", run(), "--pp", "2", "--port", "0", "--max-batch", "3", "--memory",
                "100000000"},
               {cache_variable(folder_ / "cache")}, folder_ / "server.txt");
  ASSERT_TRUE(server.wait_for([&] { return server.output().find("Ctrl-C") != std::string::npos; }))
      << server.output();
  const size_t begin = server.output().find("http://");
  HttpAddress address = http_address(server.output().substr(begin, server.output().find("v1 ") - begin));
  const auto ask = [&](const std::string& path, const nlohmann::json& body) {
    HttpAddress to = address;
    to.path = path;
    return http_post(to, body.dump(), "application/json", 60, 1 << 20);
  };
  const nlohmann::json request = {{"prompt", "The "}, {"max_tokens", 12}, {"temperature", 0}, {"n", 2}};
  const nlohmann::json answer = nlohmann::json::parse(ask("/v1/completions", request).body);
  for (const auto& choice : answer["choices"]) EXPECT_EQ(choice["text"], text);
  EXPECT_EQ(answer["choices"].size(), 2U) << answer;
  const HttpAnswer vectors = ask("/v1/embeddings", {{"input", "The"}});
  EXPECT_EQ(vectors.status, 400);
  EXPECT_THAT(vectors.body, HasSubstr("they make no embeddings"));
  EXPECT_EQ(nlohmann::json::parse(ask("/v1/completions", request).body)["choices"], answer["choices"]);
  server.send(SIGTERM);
  EXPECT_EQ(server.wait(), 0) << server.output();

  const std::pair<std::vector<std::string>, std::string> refused[] = {
      {{"--follow", "5"}, "--follow"},
      {{"second=" + run()}, "start a server for each"},
      {{"--memory", "1048576", "--max-batch", "4096"}, "--max-batch"},
      {{"--weights", "int8"}, "leave --weights"}};
  for (const auto& [options, said] : refused) {
    std::vector<std::string> words{"serve", run(), "--tp", "2", "--port", "0"};
    words.insert(words.end(), options.begin(), options.end());
    const ProcessResult result = longhaul(words);
    EXPECT_NE(result.status, 0) << said;
    EXPECT_THAT(result.errors, HasSubstr(said));
  }
}

// Spikes of one text are drawn matrix by matrix, scales of weights follow texts, and what cannot be is
// refused by the name of the option.
TEST_F(DecodingCommands, SpikesAreDrawnAndFollowTexts) {
  const auto spiking = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"sample",   run(), "--prompt",      "The ",
                                   "--tokens", "12",  "--temperature", "0"};
    words.insert(words.end(), more.begin(), more.end());
    return longhaul(words);
  };
  const std::string picture = (folder_ / "spikes.svg").string(), texts = (folder_ / "texts.txt").string();
  std::ofstream(texts) << "The first of two texts.\nThe second.\n";
  const ProcessResult drawn = spiking({"--spikes", "--spike-raster", picture});
  ASSERT_EQ(drawn.status, 0) << drawn.errors;
  std::ifstream file(picture);
  const std::string svg{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(svg.starts_with("<svg"));
  EXPECT_THAT(svg, HasSubstr("layers.0.channel.down.weight"));
  EXPECT_EQ(svg.find("layers.1."), std::string::npos) << "--spike-raster-of is layers.0. by default";
  const ProcessResult followed = spiking({"--spikes", "--spikes-texts", texts});
  EXPECT_EQ(followed.status, 0) << followed.errors;
  EXPECT_THAT(followed.errors, HasSubstr("matrices are rounded by what they read of 2 texts"));

  const std::pair<std::vector<std::string>, std::string> refused[] = {
      {{"--spikes-texts", texts}, "add --spikes"},
      {{"--spike-raster", picture}, "add --spikes"},
      {{"--spikes", "--spikes-texts", texts, "--tp", "2"}, "--spikes-texts with one rank"},
      {{"--spikes", "--spike-raster", picture, "--tp", "2"}, "--spike-raster with one rank"},
      {{"--spikes", "--spike-raster", picture, "--count", "2"}, "--count 1"}};
  for (const auto& [options, said] : refused) {
    const ProcessResult result = spiking(options);
    EXPECT_EQ(result.status, 64) << said;
    EXPECT_THAT(result.errors, HasSubstr(said));
  }
  EXPECT_EQ(spiking({"--spikes", "--spikes-texts", (folder_ / "none").string()}).status, 65);
}

TEST_F(DecodingCommands, SeveralRanksWriteWhatOneWrites) {
  const nlohmann::json alone = sample({});
  const nlohmann::json stages = sample({"--pp", "2"});
  EXPECT_EQ(stages["ids"], alone["ids"]);
  EXPECT_EQ(stages["log_probabilities"], alone["log_probabilities"]) << "to the bit";
  const nlohmann::json wide = sample({"--dtype", "fp64"}), tensors = sample({"--dtype", "fp64", "--tp", "2"});
  EXPECT_EQ(tensors["ids"], wide["ids"]);
  for (size_t i = 0; i < wide["log_probabilities"].size(); ++i) {
    EXPECT_NEAR(tensors["log_probabilities"][i].get<double>(), wide["log_probabilities"][i].get<double>(),
                1e-9);
  }
  const std::vector<float> scored = score({});
  EXPECT_EQ(largest_difference(score({"--pp", "2"}), scored), 0);
  EXPECT_LT(largest_difference(score({"--tp", "2"}), scored), 1e-4);
  // A single text is printed as it comes, once.
  const std::vector<std::string> words{"sample",   run(), "--prompt",      "The ",
                                       "--tokens", "12",  "--temperature", "0"};
  std::vector<std::string> on_ranks = words;
  on_ranks.insert(on_ranks.end(), {"--tp", "2", "--pp", "2"});
  EXPECT_EQ(longhaul(on_ranks).output, longhaul(words).output);
}

TEST_F(DecodingCommands, RanksThatCannotBeAreRefused) {
  const auto refusal = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"sample", run(), "--prompt", "a"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = longhaul(words);
    EXPECT_EQ(result.status, 64) << result.errors;
    return result.errors;
  };
  EXPECT_THAT(refusal({"--pp", "3"}), HasSubstr("more pipeline stages than layers"));
  EXPECT_THAT(refusal({"--tp", "2", "--weights", "int8"}), HasSubstr("--tp and --pp"));
  EXPECT_THAT(refusal({"--tp", "2", "--routes", "routes.safetensors"}), HasSubstr("--routes"));
  EXPECT_THAT(refusal({"--weights", "int8", "--dtype", "fp64"}), HasSubstr("--dtype fp32"));
}

TEST_F(DecodingCommands, EightBitsCostLittle) {
  const double wide = bits_per_byte({}), weights = bits_per_byte({"--weights", "int8"}),
               cache = bits_per_byte({"--kv-cache", "int8"}),
               both = bits_per_byte({"--weights", "int8", "--kv-cache", "int8"});
  for (const double each : {weights, cache, both}) {
    EXPECT_NE(each, wide);
    EXPECT_NEAR(each, wide, 5e-3 * wide);
  }
  EXPECT_NE(both, weights);
  const std::vector<float> logits = score({}), narrow = score({"--weights", "int8"});
  EXPECT_GT(largest_difference(narrow, logits), 0);
  EXPECT_LT(largest_difference(narrow, logits), 0.2);
  EXPECT_EQ(sample({"--weights", "int8", "--kv-cache", "int8"})["ids"].size(), 12u);
  const ProcessResult task =
      longhaul({"evaluate", run(), "--task", "needle", "--lengths", "64", "--kv-cache", "int8"});
  EXPECT_EQ(task.status, 64);
  EXPECT_THAT(task.errors, HasSubstr("--data"));
}

}  // namespace
}  // namespace longhaul::cli::decoding_commands_test

#include "bench/models/posttrain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files/file.h"
#include "base/files/temporary_folder.h"
#include "base/progress.h"
#include "base/random.h"
#include "base/statistics.h"
#include "base/text/text.h"
#include "observe/events/run_history.h"
#include "recipe/load.h"
#include "run/run.h"
#include "tensor/cpu_allocator.h"

namespace longhaul::bench {
namespace {

constexpr std::string_view kPosttrainRecipe =
    "version = 1\n[model]\nlayers = 4\nhidden = 256\nvocabulary = 259\nheads = 4\nkv_heads = 2\n"
    "head_dim = 64\nmixers = [\"lightning*3\", \"softmax\"]\nintermediate = 768\nrotary_dim = 32\n"
    "tie_embeddings = true\n"
    "[data]\ntokenizer = \"bytes\"\nheld_out_percent = 0\n"
    "[train]\ndtype = \"bf16\"\ncheckpoint_every = 0\ncheckpoint_keep = 1\ncheckpoint_memory_every = 0\n"
    "evaluate_every = 0\n[optim]\nschedule = \"constant\"\nwarmup_steps = 1\n[sample]\ntokens = 0\n"
    "[observe]\ncompression_baseline = false\nreport = false\ntensorboard = false\n";
constexpr int64_t kStepsNotCounted = 2;
constexpr std::string_view kPretrain = "pretrain", kChat = "chat", kLora = "chat, LoRA",
                           kReinforce = "reinforce";

// Words of made-up letters, the same at every call.
class MadeUpText {
 public:
  std::string words(int64_t bytes) {
    std::string text;
    while (std::ssize(text) < bytes) {
      if (!text.empty()) text += ' ';
      for (uint64_t letters = 2 + random_.bits(next_++) % 7; letters > 0; --letters)
        text += static_cast<char>('a' + random_.bits(next_++) % 26);
    }
    text.resize(static_cast<size_t>(bytes));
    return text;
  }

 private:
  RandomStream random_{0, "bench posttrain"};
  uint64_t next_ = 0;
};

// The files that the runs read, in the folder: a text, conversations and prompts.
void write_inputs(const PosttrainRequest& request, const std::filesystem::path& folder) {
  MadeUpText text;
  const int64_t rows = request.batch * (request.steps + 4);
  write_text_atomically(folder / "text.txt", text.words(rows * request.sequence));
  std::string conversations, prompts;
  // Half of a row each, so that rows are full but for the marks of turns.
  const int64_t turn = std::max<int64_t>(8, request.sequence / 2 - 40);
  for (int64_t i = 0; i < 2 * rows; ++i) {
    conversations += nlohmann::json{{"messages",
                                     {{{"role", "user"}, {"content", text.words(turn / 4)}},
                                      {{"role", "assistant"}, {"content", text.words(turn - turn / 4)}}}}}
                         .dump() +
                     "\n";
  }
  for (int64_t i = 0; i < 256; ++i)
    prompts += nlohmann::json{{"prompt", text.words(24)}, {"completion", text.words(1)}}.dump() + "\n";
  write_text_atomically(folder / "conversations.jsonl", conversations);
  write_text_atomically(folder / "prompts.jsonl", prompts);
}

struct PosttrainWay {
  PosttrainLine line;
  std::vector<std::string> overrides;
  std::vector<double> seconds{}, a_token{}, generation{}, judging{}, preparing{};  // of all counted steps
  std::vector<double> a_token_of_round{};                                          // medians
};

std::vector<PosttrainWay> posttrain_ways(const PosttrainRequest& request,
                                         const std::filesystem::path& folder) {
  const auto source = [&](const char* file) {
    return fmt::format("data.source={}", (folder / file).string());
  };
  const std::vector<std::string> chat = {source("conversations.jsonl"), "train.task=chat",
                                         "chat.template=chatml", "chat.new_tokens=<|im_start|>,<|im_end|>",
                                         "data.stop_tokens=<|im_end|>"};
  std::vector<std::string> lora = chat;
  lora.insert(lora.end(), {"lora.rank=8", "lora.targets=all-linear"});
  const std::string prompts = (folder / "prompts.jsonl").string();
  return {{.line = {.way = std::string(kPretrain)}, .overrides = {source("text.txt")}},
          {.line = {.way = std::string(kChat)}, .overrides = chat},
          {.line = {.way = std::string(kLora)}, .overrides = lora},
          {.line = {.way = std::string(kReinforce)},
           .overrides = {"train.task=reinforce", "reinforce.prompts_file=" + prompts,
                         "reinforce.reward=[\"exact\"]", "reinforce.prompts=8", "reinforce.group=8",
                         "reinforce.dynamic=false", fmt::format("reinforce.tokens={}", request.answer)}}};
}

void take_steps(PosttrainWay& way, const observe::RunHistory& history) {
  std::vector<double> of_round;
  for (const observe::StepReport& step : history.steps) {
    if (step.step <= kStepsNotCounted || step.tokens_per_second <= 0) continue;
    const auto phase = [&](const char* name) { return observe::metric(step.metrics, name).value_or(0); };
    way.seconds.push_back(step.milliseconds * 1e-3);
    way.a_token.push_back(1 / step.tokens_per_second);
    of_round.push_back(1 / step.tokens_per_second);
    way.generation.push_back(phase("rollout_seconds"));
    way.judging.push_back(phase("judging_seconds"));
    way.preparing.push_back(step.data_wait_milliseconds.value_or(0) * 1e-3);
  }
  if (of_round.empty()) {
    throw Error({.code = ExitCode::kInternal,
                 .what = "a run of the bench has no step that counts",
                 .found = way.line.way});
  }
  way.a_token_of_round.push_back(median(of_round));
  for (const observe::MeasuredMemory& memory : history.memory) {
    if (memory.purpose == "optimizer state") way.line.state_bytes = memory.peak_bytes;
    if (memory.purpose != "together") continue;
    way.line.peak_bytes = memory.peak_bytes;
    way.line.planned_bytes = memory.planned_bytes.value_or(0);
  }
}

PosttrainLine finished_line(const PosttrainWay& way, const PosttrainWay* beside) {
  PosttrainLine line = way.line;
  line.milliseconds = 1e3 * median(way.seconds);
  line.tokens_per_second = 1 / median(way.a_token);
  if (beside != nullptr) {
    std::vector<double> ratios;
    for (size_t round = 0; round < way.a_token_of_round.size(); ++round)
      ratios.push_back(way.a_token_of_round[round] / beside->a_token_of_round[round]);
    line.against = median(ratios);
  }
  if (line.way != kReinforce) return line;
  const auto share = [&](const std::vector<double>& seconds) {
    double part = 0, whole = 0;
    for (size_t i = 0; i < seconds.size(); ++i) part += seconds[i], whole += way.seconds[i];
    return part / whole;
  };
  line.generation = share(way.generation);
  line.judging = share(way.judging);
  line.preparing = share(way.preparing);
  line.update = 1 - line.generation - line.judging - line.preparing;
  return line;
}

}  // namespace

std::vector<PosttrainLine> bench_posttrain(const PosttrainRequest& request, train::TaskEntries tasks) {
  const TemporaryFolder folder;
  write_inputs(request, folder.path());
  std::vector<PosttrainWay> ways = posttrain_ways(request, folder.path());
  Progress progress("runs", request.rounds * std::ssize(ways));
  for (int64_t round = 0; round < request.rounds; ++round) {
    for (PosttrainWay& way : ways) {
      std::vector<std::string> overrides = {
          fmt::format("train.steps={}", request.steps + kStepsNotCounted),
          fmt::format("train.sequence={}", request.sequence), fmt::format("train.batch={}", request.batch),
          fmt::format("train.micro_batch={}", request.batch), "data.cache=" + (folder / "cache").string()};
      overrides.insert(overrides.end(), way.overrides.begin(), way.overrides.end());
      overrides.insert(overrides.end(), request.overrides.begin(), request.overrides.end());
      const std::filesystem::path run = folder / fmt::format("run-{}-{}", round, &way - ways.data());
      reset_memory_peaks();
      run::run_training({.recipe = recipe::load_text(kPosttrainRecipe, "bench posttrain", overrides),
                         .run_folder = run,
                         .quiet = true},
                        tasks);
      take_steps(way, observe::read_run(run));
      std::filesystem::remove_all(run);
      progress.advance(1);
    }
  }
  return {finished_line(ways[0], nullptr), finished_line(ways[1], &ways[0]), finished_line(ways[2], &ways[1]),
          finished_line(ways[3], nullptr)};
}

observe::Table table_of(const std::vector<PosttrainLine>& lines) {
  using observe::Align;
  observe::Table table("steps of what follows pre-training", {{"way"},
                                                              {"step", Align::kRight},
                                                              {"tokens/s", Align::kRight},
                                                              {"time a token", Align::kRight},
                                                              {"state", Align::kRight},
                                                              {"peak", Align::kRight},
                                                              {"of planned", Align::kRight},
                                                              {"a step's time"}});
  for (const PosttrainLine& line : lines) {
    const std::string beside = line.way == kLora ? "of chat" : "of pretrain";
    table.row(
        {line.way, fmt::format("{:.1f} ms", line.milliseconds), fmt::format("{:.0f}", line.tokens_per_second),
         line.against > 0 ? fmt::format("{:.2f} {}", line.against, beside) : "", bytes_text(line.state_bytes),
         bytes_text(line.peak_bytes),
         line.planned_bytes > 0 ? fmt::format("{:.0f} %", 100.0 * static_cast<double>(line.peak_bytes) /
                                                              static_cast<double>(line.planned_bytes))
                                : "",
         line.generation > 0
             ? fmt::format("answers {:.1f} %, judging {:.1f} %, rows {:.1f} %, passes and updates {:.1f} %",
                           100 * line.generation, 100 * line.judging, 100 * line.preparing, 100 * line.update)
             : ""});
  }
  return table;
}

nlohmann::ordered_json to_json(const PosttrainLine& line) {
  nlohmann::ordered_json json = {{"way", line.way},
                                 {"milliseconds", line.milliseconds},
                                 {"tokens_per_second", line.tokens_per_second},
                                 {"state_bytes", line.state_bytes},
                                 {"planned_bytes", line.planned_bytes},
                                 {"peak_bytes", line.peak_bytes}};
  if (line.against > 0) json[line.way == kLora ? "time_of_chat" : "time_of_pretrain"] = line.against;
  if (line.generation > 0) {
    json["generation"] = line.generation;
    json["judging"] = line.judging;
    json["preparing"] = line.preparing;
    json["update"] = line.update;
  }
  return json;
}

}  // namespace longhaul::bench

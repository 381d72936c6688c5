// `longhaul rewards CKPT --data FILE`: the scores that a reward model gives the answers of a file.
#include "base/files/file.h"
#include "base/text/path_text.h"
#include "base/text/text.h"
#include "checkpoint/open_model.h"
#include "cli/command.h"
#include "cli/models/model_options.h"
#include "cli/models/model_tokenizer.h"
#include "cli/output.h"
#include "posttrain/preference/reward.h"
#include "posttrain/preference/scored_answers.h"
#include "tensor/device.h"

namespace longhaul::cli {
namespace {

struct RewardsArguments {
  std::string checkpoint, data, out, chat_template, tokenizer, dtype, experts, weights, device = "auto";
};

void require_reward_model(const checkpoint::OpenModel& model) {
  const std::string& task = model.recipe.recipe.train.task;
  if (task == "reward") return;
  throw Error({.code = ExitCode::kUsage,
               .what = "the model was not trained to score answers",
               .expected = "a checkpoint of train.task = reward",
               .found = task,
               .where = model.folder.string(),
               .hint = "docs/guides/preferences.md says how one is trained"});
}

ExitCode write_rewards(const RewardsArguments& arguments) {
  const at::Device device = device_named(arguments.device, "--device");
  const DeviceScope scope(device);
  const auto model = checkpoint::open_model(arguments.checkpoint, arguments.dtype, device,
                                            {.experts = arguments.experts, .weights = arguments.weights});
  require_reward_model(model);
  const data::Tokenizer tokenizer = tokenizer_for(model, arguments.tokenizer);
  const recipe::Recipe& recipe = model.recipe.recipe;
  const int32_t token =
      posttrain::score_token(recipe.outside.text("reward.token"), tokenizer, recipe.model.vocabulary);
  posttrain::AnswerDataOptions options;
  if (!arguments.chat_template.empty()) options.chat_template = path_of_text(arguments.chat_template);
  recipe::DataOptions beside;  // the chat template lies where the tokenizer does
  beside.tokenizer = text_of_path(model.tokenizer);
  const auto encoder = posttrain::AnswerEncoder::of(tokenizer, beside, options);
  posttrain::RankingAgreement agreement;
  std::string lines;
  const posttrain::AnswerRows rows = posttrain::read_answer_rows(path_of_text(arguments.data), false);
  for (const posttrain::AnswerRow& row : rows.rows) {
    const std::vector<double> scores =
        posttrain::scores_of_answers(*model.decoder, token, encoder.encode(row), row.where);
    agreement.add(row, scores);
    nlohmann::ordered_json line = {{"where", row.where}, {"scores", scores}};
    if (!row.rewards.empty()) line["rewards"] = row.rewards;
    lines += line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
  }
  if (arguments.out.empty()) {
    print(lines);
  } else {
    write_text_atomically(path_of_text(arguments.out), lines);
    print(fmt::format("scores of {} in {}\n", counted(static_cast<int64_t>(rows.rows.size()), "row"),
                      arguments.out));
  }
  if (agreement.pairs() > 0 && !arguments.out.empty())
    print(fmt::format("{:.1f} % of {} are ranked as the file ranks them\n", 100 * agreement.share(),
                      counted(agreement.pairs(), "pair")));
  return ExitCode::kDone;
}

}  // namespace

void add_rewards(Command& program) {
  auto arguments = std::make_shared<RewardsArguments>();
  Command rewards = program.add("rewards", "the scores that a reward model gives answers",
                                {{"a JSON line for each row", "rewards runs/reward --data pairs.jsonl"},
                                 {"into a file, with how often they agree with it",
                                  "rewards runs/reward --data pairs.jsonl --out scores.jsonl"}});
  rewards.option("CKPT", arguments->checkpoint, "a checkpoint of train.task = reward, or its run directory")
      .required();
  rewards
      .option("--data", arguments->data,
              "answers in any form of preference.data: a file of JSON lines, or a folder of such files")
      .required();
  rewards.option("--out", arguments->out, "file of JSON lines to write; without it they are printed");
  rewards.option("--template", arguments->chat_template,
                 "file with the chat template; without it the one beside the tokenizer");
  rewards.option("--tokenizer", arguments->tokenizer,
                 "\"bytes\", or a tokenizer.json; without it the run's own");
  add_model_options(rewards, arguments->dtype, arguments->experts, arguments->weights, arguments->device);
  rewards.on_run([arguments] { return write_rewards(*arguments); });
}

}  // namespace longhaul::cli

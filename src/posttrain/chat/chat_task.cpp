#include "posttrain/chat/chat_task.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/memory/memory_purpose.h"
#include "data/chat/chat_format.h"
#include "data/tokenizer/continuation.h"
#include "generate/generate.h"
#include "language/decoder_plan.h"
#include "posttrain/chat/chat_data.h"
#include "posttrain/chat/chat_options.h"
#include "train/offload.h"

namespace longhaul::posttrain {
namespace {

constexpr int64_t kMostOfText = 32;  // tokens shown of a plain text, which has no question

// The tokens before the first one that is learnt.
std::vector<int64_t> question_of(const data::TokenDataset& dataset, int64_t document) {
  const int64_t labels = dataset.labels(document);
  std::vector<float> weights(static_cast<size_t>(labels));
  dataset.read_weights(document, 0, weights);
  const auto first = std::ranges::find_if(weights, [](float weight) { return weight > 0; });
  int64_t length = first - weights.begin() + 1;  // label 0 is token 1
  if (length == 1) length = std::clamp<int64_t>(labels / 2, 1, kMostOfText);
  std::vector<int64_t> ids(static_cast<size_t>(length));
  dataset.read(document, 0, ids);
  return ids;
}

std::unique_ptr<train::Task> make_chat_task(const train::TaskRequest& request) {
  auto task = std::make_unique<Chat>(request.recipe, request.data, request.cache / "packing", request.device,
                                     request.ranks, request.share);
  task->set_offload(train::make_offload(request.recipe.train, request.cache, task->parameters()));
  return task;
}

std::unique_ptr<train::ModelPlan> plan_chat(const recipe::Recipe& recipe) {
  return std::make_unique<language::DecoderPlan>(recipe);
}

void write_chat_files(const data::RunData& data, const std::filesystem::path& run) {
  data.tokenizer.save(run / "tokenizer.json");
  for (const auto& [name, text] : data.files) write_text_atomically(run / name, text);
}

std::string use_chat_model(const recipe::Recipe&, const std::string& run, const std::string&) {
  return fmt::format("chat {}", run);
}

}  // namespace

std::vector<int64_t> Chat::question() const {
  const std::string& prompt = recipe().sample.prompt;
  if (prompt.empty()) {
    const auto held_out = data().held_out();
    return question_of(held_out.empty() ? *data().train().front() : *held_out.front(), 0);
  }
  data::chat::ChatInput input{.variables = ChatOptions::of(recipe()).variables};
  const std::string& system = recipe().outside.text("chat.system");
  if (!system.empty()) input.messages.push_back({{"role", "system"}, {"content", system}});
  input.messages.push_back({{"role", "user"}, {"content", prompt}});
  const auto ids = data::chat::encode(data().chat_format->render(std::move(input)), data().tokenizer);
  return {ids.begin(), ids.end()};
}

std::optional<train::TaskSample> Chat::sample() {
  const MemoryPurposeScope scope(MemoryPurpose::kActivations);
  if (recipe().sample.tokens == 0 || !holds_whole_model()) return std::nullopt;
  const data::Tokenizer& tokenizer = data().tokenizer;
  const std::vector<int64_t> ids = question();
  const std::vector<int32_t> narrow(ids.begin(), ids.end());
  data::Continuation text(tokenizer, narrow);
  generate::GenerateSettings settings = sample_settings();
  if (const auto end = data().chat_format->end_of_turn(tokenizer)) settings.stop_ids.push_back(*end);
  generate::generate(decoder(), ids, settings, [&](int64_t id) { text.add(static_cast<int32_t>(id)); });
  return train::TaskSample{tokenizer.decode(narrow), text.text() + text.rest()};
}

train::TaskEntry chat_entry() {
  return {.name = "chat",
          .reads_text = true,
          .open_data = open_chat_data,
          .plan = plan_chat,
          .make = make_chat_task,
          .write_beside = write_chat_files,
          .next_command = use_chat_model,
          .declare_options = declare_chat};
}

}  // namespace longhaul::posttrain

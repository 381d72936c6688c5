// ChatOptions: [chat] of a recipe with train.task = "chat", and the chat template that it names or that comes
// with the model.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/chat/chat_format.h"
#include "posttrain/chat/answer_ranges.h"
#include "recipe/recipe.h"

namespace longhaul::posttrain {

struct ChatOptions {
  std::string format;  // a file, the name of a built-in template, or empty: that of the model
  LearntPart learnt = LearntPart::kAnswers;
  bool cut_too_long = false;  // cut samples that are longer than train.sequence; false: leave them out
  std::string system;
  nlohmann::ordered_json variables = nlohmann::ordered_json::object();
  std::vector<std::string> new_tokens;

  static ChatOptions of(const recipe::Recipe& recipe);  // kUsage where a value cannot be read
};

void declare_chat(recipe::OptionSet& set, recipe::OutsideOptions& outside);

// The text of the template with that name; empty: there is none.
std::string_view built_in_template(const std::string& name);

struct FoundFormat {
  data::chat::ChatFormat format;
  // The text to keep beside the run's checkpoints as chat_template.jinja; empty: it lies among the files of a
  // published model, which the run carries along.
  std::string own_source;
};

// The template of chat.template, else that of the run, which goes on, else that of the model from which the
// run starts. Both are run folders or folders of a published model; empty: there is none. kUsage: no
// template.
FoundFormat find_format(const ChatOptions& options, const std::filesystem::path& run,
                        const std::filesystem::path& from);

}  // namespace longhaul::posttrain

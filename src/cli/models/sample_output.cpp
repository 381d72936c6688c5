#include "cli/models/sample_output.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>

#include "base/text/text.h"
#include "cli/output.h"

namespace longhaul::cli {

std::string text_of_token(int64_t id, const data::Tokenizer& tokenizer) {
  const auto narrow = static_cast<int32_t>(id);
  return tokenizer.decode(std::span(&narrow, 1));
}

namespace {

// Several texts, each under a line that says which draws it has.
void print_each(const std::vector<SampledText>& texts, uint64_t seed) {
  for (size_t i = 0; i < texts.size(); ++i) {
    print(fmt::format("{}--- {} of {}, --seed {}\n", i == 0 ? "" : "\n", i + 1, texts.size(), seed + i));
    print(texts[i].prompt + texts[i].continuation.text() + texts[i].continuation.rest() + "\n");
  }
}

std::string shown_token(int64_t id, const data::Tokenizer& tokenizer) {
  return "'" + printable(text_of_token(id, tokenizer)) + "'";
}

nlohmann::ordered_json as_json(const std::vector<std::vector<generate::TokenProbability>>& top,
                               const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json tokens = nlohmann::ordered_json::array();
  for (const auto& of_token : top) {
    tokens.push_back(nlohmann::ordered_json::array());
    for (const auto& [id, log_probability] : of_token)
      tokens.back().push_back(
          {{"id", id}, {"text", text_of_token(id, tokenizer)}, {"log_probability", log_probability}});
  }
  return tokens;
}

// A line for each token: its own log probability, then the likeliest tokens in its place.
void print_log_probabilities(const generate::Generation& generation, const data::Tokenizer& tokenizer) {
  for (size_t t = 0; t < generation.ids.size(); ++t) {
    const auto of = [&](int64_t id, double log_probability) {
      return fmt::format("{:8.3f} {}", log_probability, shown_token(id, tokenizer));
    };
    print(of(generation.ids[t], generation.log_probabilities[t]));
    for (size_t k = 0; !generation.top.empty() && k < generation.top[t].size(); ++k)
      print((k == 0 ? "   of: " : "  ") + of(generation.top[t][k].id, generation.top[t][k].log_probability));
    print("\n");
  }
}

void print_as_json(const SampledText& text, uint64_t seed, double tokens_per_second,
                   const checkpoint::OpenModel& model, const data::Tokenizer& tokenizer) {
  nlohmann::ordered_json json = {{"prompt", text.prompt},
                                 {"text", text.continuation.text() + text.continuation.rest()},
                                 {"prompt_ids", text.read},
                                 {"ids", text.generation.ids},
                                 {"log_probabilities", text.generation.log_probabilities},
                                 {"finish", generate::name_of(text.generation.finish)},
                                 {"step", model.step},
                                 {"checkpoint", model.folder.string()},
                                 {"seed", seed},
                                 {"prompt_tokens", text.generation.prefill_tokens},
                                 {"continued_tokens", text.generation.continued_tokens},
                                 {"tokens_per_second", tokens_per_second}};
  if (!text.generation.top.empty()) json["top_log_probabilities"] = as_json(text.generation.top, tokenizer);
  print_json(json);
}

}  // namespace

void print_texts(const std::vector<SampledText>& texts, const SampleOutput& output) {
  const bool streamed = !output.json && texts.size() == 1;
  if (streamed) print(texts[0].continuation.rest() + "\n");
  if (!streamed && !output.json) print_each(texts, output.seed);
  int64_t tokens = 0;
  for (const SampledText& text : texts) tokens += static_cast<int64_t>(text.generation.ids.size());
  for (size_t i = 0; i < texts.size(); ++i) {
    if (output.json)
      print_as_json(texts[i], output.seed + i, static_cast<double>(tokens) / output.seconds, output.model,
                    output.tokenizer);
    else if (output.log_probabilities)
      print_log_probabilities(texts[i].generation, output.tokenizer);
  }
}

}  // namespace longhaul::cli

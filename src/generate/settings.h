// Settings of one request to generate text, and what comes of it.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/routes_file.h"
#include "generate/sampler.h"
#include "grammar/token_grammar.h"

namespace longhaul::generate {

struct GenerateSettings {
  int64_t tokens = 100;    // at most this many new ones
  int64_t min_tokens = 0;  // no stop token is drawn before this many; at most `tokens`
  double temperature = 0.8;
  int64_t top_k = 0;
  double top_p = 0.95;
  double min_p = 0;
  // Changes of the logits before the temperature divides them (token_history.h).
  // of every token of prompt and text: positive logits are divided by it, others multiplied
  double repetition_penalty = 1;
  double frequency_penalty = 0;  // subtracted for each time that the token stands in the text
  double presence_penalty = 0;   // subtracted once, if the token stands in the text
  std::vector<std::pair<int64_t, double>> logit_bias = {};  // token and what is added
  // The text ends after so many tokens in a row each of which had a probability above loop_probability under
  // the temperature (arXiv 2506.13585 §5.1: 3,000 above 0.99); 0: whatever it repeats.
  int64_t loop_tokens = 0;
  double loop_probability = 0.99;
  uint64_t seed = 0;  // sequence i of a call draws with seed + i
  int64_t count = 1;  // sequences for each prompt, which is read once
  // Only ids below this are drawn: a model may have more rows than its tokenizer has tokens. 0: all of the
  // model's rows.
  int64_t vocabulary = 0;
  // Records the experts of every token in Generation::routed; needs a generator without a prefix cache.
  bool records_routes = false;
  // Tells with each new token (Drawn) the experts of the pass that it was drawn after; the model must have
  // some, and this process the whole model.
  bool experts = false;
  bool log_probabilities = false;  // records those of the drawn tokens in Generation::log_probabilities
  // They are those that the model gives to all of its rows, whatever may be drawn: as training has them.
  bool of_whole_distribution = false;
  int64_t top_log_probabilities = 0;   // and those of so many of the likeliest tokens in each one's place
  std::vector<int64_t> never = {};     // ids that are never drawn, because they stand for nothing
  std::vector<int64_t> stop_ids = {};  // drawing one of them ends the text
  SamplerSettings sampler(uint64_t sequence) const {
    return {temperature, top_k, top_p, min_p, seed + sequence};
  }
  // The text is one of this grammar, and ends where nothing may follow: tokens that cannot go on with it have
  // no probability, and stop ids come only where it may end. null: any text.
  std::shared_ptr<grammar::TokenGrammar> grammar = nullptr;
  bool wants_log_probabilities() const {
    return log_probabilities || top_log_probabilities > 0 || loop_tokens > 0;
  }
};

// kUsage for settings that are out of range or contradict each other.
void check(const GenerateSettings& settings);

// All tokens drawn; a stop token drawn, or the caller had enough; learned positions used up; the text went
// round in a loop; the request was withdrawn; an error.
enum class Finish { kTokens, kStop, kPositions, kLoop, kCancelled, kError };
std::string_view name_of(Finish finish);  // "tokens", "stop", "positions", "loop", "cancelled", "error"

struct Generation {
  std::vector<int64_t> ids{};                        // new tokens, without a stop token that ended them
  std::vector<double> log_probabilities{};           // of ids, if requested (sampler.h)
  std::vector<std::vector<TokenProbability>> top{};  // in the place of each of ids, if requested
  Finish finish = Finish::kTokens;                   // why it ended
  int64_t stop_id = -1;                              // the stop token that was drawn
  int64_t prefill_tokens = 0;                        // of the prompt
  int64_t continued_tokens = 0;                      // those of them that were in the prefix cache
  // The routes of prompt and new tokens, except the last one drawn, which was never read.
  RoutedSequence routed{};
  std::exception_ptr error{};  // of kError
};

}  // namespace longhaul::generate

// What `sample` prints of its texts.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/open_model.h"
#include "data/tokenizer/continuation.h"
#include "generate/settings.h"

namespace longhaul::cli {

// One sequence as it is printed.
struct SampledText {
  std::string prompt;
  std::vector<int64_t> read;  // ids of the prompt, with what begins a text
  data::Continuation continuation;
  generate::Generation generation;
};

struct SampleOutput {
  const checkpoint::OpenModel& model;
  const data::Tokenizer& tokenizer;
  uint64_t seed = 0;   // of the first text; each further one has the next
  double seconds = 1;  // that all took
  bool json = false;
  bool log_probabilities = false;  // a line for each token
};
std::string text_of_token(int64_t id, const data::Tokenizer& tokenizer);

// Prints what is left to print once all texts are there: a single text was printed as it came, unless it
// is printed as JSON.
void print_texts(const std::vector<SampledText>& texts, const SampleOutput& output);

}  // namespace longhaul::cli

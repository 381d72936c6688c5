// RecallOptions: [recall] of a recipe: sequences of random tokens whose scored tokens can only be predicted
// by a model that remembers the sequence's beginning (data/order/recall.h). train.task = "recall" trains on
// them. Plain data; declared in recall_options.cpp.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace longhaul::recipe {

class OptionSet;

enum class RecallKind { kMqar, kCopy };
std::vector<std::string_view> names_of(RecallKind);

struct RecallOptions {
  RecallKind kind = RecallKind::kMqar;
  int64_t pairs = 8;       // mqar: keys, each with a value; copy: tokens that are repeated
  int64_t vocabulary = 0;  // tokens are below this; 0: model.vocabulary
  // mqar: exponent a of the power law a·x^(a−1) for the distance of questions from their pairs; 1: uniform.
  double nearness = 0.01;
  int64_t examples = 0;    // number of sequences, which are read repeatedly; 0: unlimited, every one is new
  int64_t seed = 0;        // of the sequences
  int64_t held_out = 512;  // sequences of an evaluation; none of them is trained on
  bool operator==(const RecallOptions&) const = default;
};

void declare(OptionSet& set, RecallOptions& recall);

}  // namespace longhaul::recipe

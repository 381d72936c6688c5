// RecallOptions: [recall] of a recipe: sequences made of random tokens, whose scored ones can be known only by who remembers the sequence's
// beginning (data/order/recall.h). What train.task = "recall" trains on. Plain data; declared in recall_options.cpp.
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
  int64_t pairs = 8;       // mqar: keys, each with a value; copy: tokens that are said again
  int64_t vocabulary = 0;  // tokens are below it; 0: model.vocabulary
  double nearness = 0.01;  // mqar: the exponent a of the power law a·x^(a−1) by which questions follow their pairs; 1: evenly
  int64_t examples = 0;    // sequences that there are, read again and again; 0: without end, every one new
  int64_t seed = 0;        // of the sequences
  int64_t held_out = 512;  // sequences of an evaluation; none of them is trained on
  bool operator==(const RecallOptions&) const = default;
};

void declare(OptionSet& set, RecallOptions& recall);

}  // namespace longhaul::recipe

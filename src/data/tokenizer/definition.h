// Writes tokenizer.json for the tokenizers that Longhaul itself makes (trained ones, the byte tokenizer). The
// text can be read by Hugging Face `tokenizers` and is a pure function of the arguments.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/splitting/scanner.h"

namespace longhaul::data {

class Tokenizer;

// kNone: the text is one word (bytes).
enum class PreTokenizerKind : uint8_t { kGpt2, kLlama3, kQwen, kNone };

struct TrainedModel {
  // by id, in the byte-level alphabet; special tokens literally
  std::vector<std::string> tokens;
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank
  std::vector<int32_t> special;                     // ids
};

std::string trained_definition(const TrainedModel& model, PreTokenizerKind kind);
std::string bytes_definition();

// The tokenizer's definition with a template that puts its end-of-document token before a text, as in
// training; unchanged if it already has a template, or no such token.
std::string definition_with_beginning(const Tokenizer& tokenizer);

}  // namespace longhaul::data

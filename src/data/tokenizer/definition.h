// Writing tokenizer.json: the definitions that Longhaul itself makes (trained tokenizers, the byte tokenizer). The text is
// what Hugging Face `tokenizers` reads and is a pure function of its arguments.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/tokenizer/splitting/scanner.h"

namespace longhaul::data {

class Tokenizer;

enum class PreTokenizerKind : uint8_t { kGpt2, kLlama3, kQwen, kNone };  // kNone: the text is one word (bytes)

struct TrainedModel {
  std::vector<std::string> tokens;                  // by id, in the byte-level alphabet; special tokens as they are
  std::vector<std::pair<int32_t, int32_t>> merges;  // by rank
  std::vector<int32_t> special;                     // ids
};

std::string trained_definition(const TrainedModel& model, PreTokenizerKind kind);
std::string bytes_definition();

// The tokenizer's definition with a template that puts its end-of-document token in front of a text, as training did; unchanged where it has a
// template or no such token.
std::string definition_with_beginning(const Tokenizer& tokenizer);

}  // namespace longhaul::data

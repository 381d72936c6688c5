// The byte-pair model of tokenizer.json: a vocabulary, ranked merges, and the handling of unknown characters.
// A word is split into symbols (bytes for byte-level tokenizers, characters otherwise) and the merge of
// lowest rank, leftmost first, is applied until none is left. Before that a word is divided wherever no token
// contains the two neighbouring symbols next to each other, so that even a text without any space is merged
// in short pieces; a piece longer than 48 symbols uses a heap, O(n log n). Const functions are thread-safe;
// each thread has a bounded cache of short words (1 MiB per tokenizer, four tokenizers).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/text/json.h"
#include "data/tokenizer/flat_map.h"

namespace longhaul::data {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
using TextIds = std::unordered_map<std::string, int32_t, TextHash, std::equal_to<>>;

class Bpe {
 public:
  Bpe() = default;
  Bpe(const JsonView& definition, bool byte_level);

  // Appends the ids of one word (never across words).
  void encode_word(std::string_view word, std::vector<int32_t>& ids) const;

  std::optional<int32_t> id_of(std::string_view token) const;
  const std::vector<std::string>& tokens() const { return tokens_; }  // by id; empty: no such token
  int64_t entries() const { return static_cast<int64_t>(ids_.size()); }
  bool byte_level() const { return byte_level_; }

  // True if the text may be cut between these two characters without changing any id (for tokenizers that do
  // not cut at spaces).
  bool never_joined(char32_t left, char32_t right) const;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t result = 0;
  };
  static constexpr int32_t kNone = -1;

  void read_vocabulary(const JsonView& vocabulary);
  void read_merges(const JsonView& merges);
  void add_merge(const std::string& left, const std::string& right, int32_t rank, const JsonView& at);
  void find_joined_symbols(const std::vector<int32_t>& results, bool special_parts);
  int32_t symbol_of(char32_t code) const { return code < symbols_.size() ? symbols_[code] : kNone; }
  bool joined(int32_t left, int32_t right) const;

  void merge_word(std::string_view word, std::vector<int32_t>& ids) const;
  void symbols_of_bytes(std::string_view word, std::vector<int32_t>& symbols) const;
  void symbols_of_characters(std::string_view word, std::vector<int32_t>& symbols) const;
  void merge_piece(int32_t* symbols, size_t count, std::vector<int32_t>& ids) const;
  void merge_long(const int32_t* symbols, size_t count, std::vector<int32_t>& ids) const;

  bool byte_level_ = false;
  bool ignore_merges_ = false;
  bool byte_fallback_ = false;
  bool fuse_unknown_ = false;
  int32_t unknown_ = kNone;
  size_t longest_token_ = 0;
  uint64_t serial_ = 0;  // distinguishes the thread caches of two models
  TextIds ids_;
  std::vector<std::string> tokens_;
  FlatMap<Merge> merges_;
  std::vector<int32_t> symbols_;            // id of a one-character token, by code (by byte for byte-level)
  std::array<int32_t, 256> byte_tokens_{};  // <0x00> …, for byte_fallback
  bool all_joined_ = false;                 // no division is possible: never cut a word
  std::vector<uint64_t> joined_bytes_;      // byte level: 256 × 256 bits
  FlatMap<uint8_t> joined_symbols_;         // otherwise: pairs of one-character tokens
};

}  // namespace longhaul::data

// Tokenizer: text to ids and back, as a Hugging Face tokenizer.json defines it, with exactly the ids of `tokenizers` 0.23.
// Any bytes are text: what is not UTF-8 is encoded byte by byte and comes back unchanged (docs/formats/tokenizer.md says how
// each family treats it). Immutable after loading and cheap to copy; all const functions are thread-safe.
//
//   Tokenizer tokenizer = Tokenizer::load("tokenizer.json");
//   std::vector<int32_t> ids = tokenizer.encode("def main():");
//   std::string text = tokenizer.decode(ids);
//
// Reading throws Error 65 with the place in the file. Definitions are at most 256 MiB and 64 levels deep.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace longhaul::data {

inline constexpr std::string_view kEndOfDocument = "<|end_of_document|>";

class Tokenizer {
 public:
  static Tokenizer load(const std::filesystem::path& path);
  static Tokenizer from_json(std::string text, const std::string& where);
  static Tokenizer bytes();  // id = byte, and kEndOfDocument = 256

  void save(const std::filesystem::path& path) const;  // the definition as it was read, atomically

  // add_special: with the post-processor's tokens (begin of sequence and the like).
  std::vector<int32_t> encode(std::string_view text, bool add_special = false) const;
  void encode_append(std::string_view text, std::vector<int32_t>& ids, bool add_special = false) const;

  // The bytes that the ids stand for. An id without a token is Error 65.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  int64_t vocabulary() const;                                  // highest id + 1: rows an embedding needs
  int64_t tokens() const;                                      // ids that have a token
  std::optional<int32_t> id_of(std::string_view token) const;  // as written in the file ("Ġthe") or an added token's text
  std::optional<std::string> token_of(int32_t id) const;
  bool is_special(int32_t id) const;
  std::optional<int32_t> end_of_document() const;  // kEndOfDocument, else a usual end-of-text token

  const std::string& sha256() const;      // of the definition
  const std::string& definition() const;  // the JSON text

  // For training and streaming.
  void for_each_word(std::string_view text, const std::function<void(std::string_view)>& word) const;
  struct StreamPart {
    bool first, last;
  };
  void encode_part(std::string_view text, StreamPart part, std::vector<int32_t>& ids, bool add_special) const;
  // The largest position in (0, text.size()) where a stream may be cut so that ids stay those of the whole text; 0: none in
  // this text; -1: no such rule exists for this definition.
  int64_t last_safe_cut(std::string_view text) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
};

}  // namespace longhaul::data

// Tokenizer: text to ids and back, as a Hugging Face tokenizer.json defines it, with exactly the ids of
// `tokenizers` 0.23. Any bytes are text: bytes that are not UTF-8 are encoded one by one and are returned
// unchanged (docs/formats/tokenizer.md says how each family treats them). Immutable after loading and cheap
// to copy; all const functions are thread-safe.
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

// TokenRoles: properties of tokens that a tokenizer.json does not give, by their texts (recipe:
// data.end_of_document and data.stop_tokens).
struct TokenRoles {
  std::string end_of_document;    // the token between documents; empty: the one with a usual name
  std::vector<std::string> stop;  // tokens that end a generated text too
};

class Tokenizer {
 public:
  static Tokenizer load(const std::filesystem::path& path);
  static Tokenizer from_json(std::string text, const std::string& where);
  static Tokenizer bytes();  // id = byte, and kEndOfDocument = 256

  void save(const std::filesystem::path& path) const;  // the definition as it was read, atomically

  // The same tokenizer with these roles; a text that is no token is Error 65, which names the option.
  Tokenizer with(const TokenRoles& roles) const;

  // add_special: add the post-processor's tokens (begin of sequence and similar ones).
  std::vector<int32_t> encode(std::string_view text, bool add_special = false) const;
  // The ids of a text in which special tokens (added tokens marked `special`) are recognised only where
  // `allowed` says so of their bytes; elsewhere the same characters are ordinary text. No word goes over one
  // of the cuts, which are places in the text in ascending order; an added token may.
  struct CutIds {
    std::vector<int32_t> ids;
    std::vector<size_t> before_cut;  // for each cut the ids that begin before it
  };
  CutIds encode_where(std::string_view text, const std::function<bool(size_t begin, size_t end)>& allowed,
                      std::span<const size_t> cuts = {}) const;
  void encode_append(std::string_view text, std::vector<int32_t>& ids, bool add_special = false) const;

  // The bytes of the ids. An id without a token is Error 65.
  std::string decode(std::span<const int32_t> ids, bool skip_special = false) const;

  bool decodes_locally() const;  // see Decoder::local

  int64_t vocabulary() const;  // highest id + 1: rows an embedding needs
  int64_t tokens() const;      // number of ids that have a token
  // As written in the file ("Ġthe") or an added token's text.
  std::optional<int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(int32_t id) const;
  bool is_special(int32_t id) const;
  // The token of that role, else kEndOfDocument, else a usual end-of-text token.
  std::optional<int32_t> end_of_document() const;

  // The tokens that the post-processor's template puts before and after a text ("<s> $A"); both are empty
  // without a template.
  const std::vector<int32_t>& before() const;
  const std::vector<int32_t>& after() const;
  // The tokens with which a text begins, as documents did in training: the template's tokens, else the
  // end-of-document token, else none.
  std::vector<int32_t> beginning() const;
  // The ids of a text to be continued: the beginning and the text; if the text itself spells the template's
  // tokens, they are not repeated.
  std::vector<int32_t> encode_prompt(std::string_view text) const;
  // Tokens that end a text: the end-of-document token and those of the role.
  std::vector<int32_t> stop_ids() const;
  std::vector<int32_t> without_token() const;  // ids below vocabulary() without a token: files may leave gaps

  // Parts of the definition that are ignored, because ids of a text do not depend on them here: "truncation",
  // "padding".
  const std::vector<std::string>& not_applied() const;

  const std::string& sha256() const;      // of the definition
  const std::string& definition() const;  // the JSON text

  // For training and streaming.
  void for_each_word(std::string_view text, const std::function<void(std::string_view)>& word) const;
  struct StreamPart {
    bool first, last;
  };
  void encode_part(std::string_view text, StreamPart part, std::vector<int32_t>& ids, bool add_special) const;
  // The largest position in (0, text.size()) where a stream may be cut so that the ids remain those of the
  // whole text; 0: there is none in this text; -1: there is no such rule for this definition.
  int64_t last_safe_cut(std::string_view text) const;

 private:
  struct Parts;
  explicit Tokenizer(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  std::shared_ptr<const Parts> parts_;
  std::optional<int32_t> end_of_document_;  // by role
  std::vector<int32_t> stop_;
};

}  // namespace longhaul::data

// The decoder of tokenizer.json: it turns the texts of tokens back into bytes. It supports ByteLevel,
// ByteFallback, Fuse, Strip, Replace, Metaspace and sequences of them. Unlike in Hugging Face `tokenizers`,
// bytes that are not UTF-8 are returned as they are, not as U+FFFD, so that decoding gives the encoded bytes.
// Const functions are thread-safe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/text/json.h"
#include "data/tokenizer/splitting/regex.h"

namespace longhaul::data {

class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(const JsonView& definition);

  std::string decode(std::vector<std::string> tokens) const;
  // True if a token that follows a non-empty text is decoded to the same bytes whatever that text is.
  bool local() const;
  bool only_byte_level() const { return steps_.size() == 1 && steps_[0].kind == Step::Kind::kByteLevel; }
  static std::string byte_level_text(const std::string& token);  // the token's bytes

 private:
  struct Step {
    enum class Kind { kByteLevel, kByteFallback, kFuse, kStrip, kReplace, kMetaspace } kind;
    std::string text;     // Strip, Metaspace: the character
    std::string content;  // Replace
    std::optional<Regex> pattern;
    int64_t start = 0, stop = 0;  // for Strip: how many at each end
    bool drop_first = false;      // for Metaspace
    // For Replace: the pattern is one character, so that no occurrence spans two tokens.
    bool one_character = false;
  };
  void read(const JsonView& definition, int depth);
  static std::vector<std::string> run(const Step& step, const std::vector<std::string>& tokens);
  static std::string strip(const Step& step, const std::string& token);
  static std::string replace(const Step& step, const std::string& token);
  static std::vector<std::string> join_fallback_bytes(const std::vector<std::string>& tokens);
  std::vector<Step> steps_;
  bool present_ = false;
};

}  // namespace longhaul::data

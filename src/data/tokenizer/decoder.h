// The decoder of tokenizer.json: turns the texts of tokens back into bytes. ByteLevel, ByteFallback, Fuse, Strip, Replace,
// Metaspace and sequences of them. Unlike the peer's, bytes that are not UTF-8 come back as they are, not as U+FFFD, so
// decoding gives the encoded bytes. Const functions are thread-safe.
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
  // Behind a text that is not empty a token is decoded to the same bytes whatever that text is.
  bool local() const;
  bool only_byte_level() const { return steps_.size() == 1 && steps_[0].kind == Step::Kind::kByteLevel; }
  static std::string byte_level_text(const std::string& token);  // the token's bytes

 private:
  struct Step {
    enum class Kind { kByteLevel, kByteFallback, kFuse, kStrip, kReplace, kMetaspace } kind;
    std::string text;     // Strip, Metaspace: the character
    std::string content;  // Replace
    std::optional<Regex> pattern;
    int64_t start = 0, stop = 0;  // Strip: how many at each end
    bool drop_first = false;      // Metaspace
    bool one_character = false;   // Replace: of the pattern, so that no occurrence reaches over two tokens
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

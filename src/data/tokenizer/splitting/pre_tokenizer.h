// The pre-tokenizer of tokenizer.json: it splits text into the words within which the model merges. It
// supports ByteLevel, Split, Digits, Metaspace and sequences of them; hand-written scanners (scanner.h) run
// the split patterns of the known families, and regex.h runs any other pattern. Reading any other type throws
// Error 65. Const functions are thread-safe.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/json.h"
#include "data/tokenizer/splitting/regex.h"
#include "data/tokenizer/splitting/scanner.h"

namespace longhaul::data {

struct Piece {
  std::string_view text;
  bool at_origin = false;  // begins where the whole text begins
  bool continued = false;  // continues an earlier part (streaming)
};

class PreTokenizer {
 public:
  PreTokenizer() = default;
  explicit PreTokenizer(const JsonView& definition);

  // Calls word(std::string_view) for every word, in order. Words are views into the piece or into `storage`.
  template <class Word>
  void words(const Piece& piece, std::deque<std::string>& storage, Word&& word) const {
    if (piece.text.empty()) return;
    if (only_scanner_) {
      scan(*only_scanner_, piece.text, word);
    } else if (steps_.empty()) {
      word(piece.text);
    } else {
      for (const Piece& part : run_steps(piece, storage)) word(part.text);
    }
  }

  bool byte_level() const { return byte_level_; }  // the model sees bytes, not characters

  // For streaming: the largest position at which `text` may be cut without changing any word, whatever
  // follows; -1: no rule is known for this pre-tokenizer. `text` ends at a character boundary.
  int64_t last_safe_cut(std::string_view text, bool nfc_before) const;
  bool whole_text_is_a_word() const;             // no step cuts
  char32_t space_becomes(char32_t space) const;  // the character that Metaspace writes for a space

 private:
  enum class Behavior { kIsolated, kRemoved, kMergedWithPrevious, kMergedWithNext, kContiguous };
  enum class Prepend { kAlways, kFirst, kNever };
  struct Step {
    enum class Kind { kScanner, kPattern, kDigits, kMetaspace, kPrefixSpace } kind;
    SplitFamily family = SplitFamily::kGpt2;
    std::optional<Regex> pattern;
    Behavior behavior = Behavior::kIsolated;
    bool invert = false;
    std::string replacement;  // Metaspace
    Prepend prepend = Prepend::kAlways;
    bool split = true;
  };

  template <class Word>
  static void scan(SplitFamily family, std::string_view text, Word&& word) {
    const char* at = text.data();
    const char* end = at + text.size();
    while (at < end) {
      const char* stop = next_piece(family, at, end);
      word(std::string_view(at, static_cast<size_t>(stop - at)));
      at = stop;
    }
  }
  void read(const JsonView& definition, int depth);
  void read_split(const JsonView& definition);
  void read_metaspace(const JsonView& definition);
  std::vector<Piece> run_steps(const Piece& piece, std::deque<std::string>& storage) const;
  void run_step(const Step& step, const Piece& piece, std::deque<std::string>& storage,
                std::vector<Piece>& to) const;
  static void split(const Piece& piece, const std::vector<Match>& matches, Behavior behavior, bool invert,
                    std::vector<Piece>& to);

  std::vector<Step> steps_;
  std::optional<SplitFamily> only_scanner_;
  bool byte_level_ = false;
};

}  // namespace longhaul::data

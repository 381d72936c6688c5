#include "data/tokenizer/splitting/pre_tokenizer.h"

#include <algorithm>

#include "data/tokenizer/definition_rules.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {

PreTokenizer::PreTokenizer(const JsonView& definition) {
  read(definition, 0);
  if (steps_.size() == 1 && steps_[0].kind == Step::Kind::kScanner) only_scanner_ = steps_[0].family;
}

void PreTokenizer::read(const JsonView& definition, int depth) {
  if (definition.is_null()) return;
  const std::string& type = definition.at("type").string();
  if (byte_level_)
    refuse_unsupported(definition, type + " after ByteLevel", "ByteLevel as the last pre-tokenizer");
  if (type == "Sequence") {
    if (depth > 8) definition.fail("at most 8 levels of sequences", "more");
    const JsonView list = definition.at("pretokenizers");
    for (size_t i = 0; i < list.array_size(); ++i) read(list.at(i), depth + 1);
  } else if (type == "ByteLevel") {
    if (definition.at("add_prefix_space").boolean()) steps_.push_back({.kind = Step::Kind::kPrefixSpace});
    if (definition.boolean_or("use_regex", true))
      steps_.push_back({.kind = Step::Kind::kScanner, .family = SplitFamily::kGpt2});
    byte_level_ = true;
  } else if (type == "Split") {
    read_split(definition);
  } else if (type == "Digits") {
    const bool single = definition.at("individual_digits").boolean();
    steps_.push_back(
        {.kind = Step::Kind::kDigits, .behavior = single ? Behavior::kIsolated : Behavior::kContiguous});
  } else if (type == "Metaspace") {
    read_metaspace(definition);
  } else {
    refuse_unsupported(definition, "pre-tokenizer " + type,
                       "ByteLevel, Split, Digits, Metaspace or Sequence");
  }
}

void PreTokenizer::read_split(const JsonView& definition) {
  Step step{.kind = Step::Kind::kPattern, .invert = definition.boolean_or("invert", false)};
  const JsonView behavior = definition.at("behavior");
  static constexpr std::string_view kNames[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                                "Contiguous"};
  size_t which = 0;
  while (which < std::size(kNames) && kNames[which] != behavior.string()) ++which;
  if (which == std::size(kNames)) {
    behavior.fail("Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous", behavior.string());
  }
  step.behavior = static_cast<Behavior>(which);
  const JsonView pattern = definition.at("pattern");
  if (pattern.has("String")) {
    const std::string& text = pattern.at("String").string();
    if (text.empty()) pattern.fail("a text to split at", "the empty text");
    step.pattern = Regex::literal(text, pattern.where());
  } else {
    const std::string& regex = pattern.at("Regex").string();
    // The known patterns match every character, so whether matches are kept or removed, matches and gaps are
    // the pieces of the scanner.
    if (step.behavior == Behavior::kIsolated || (step.behavior == Behavior::kRemoved && step.invert)) {
      for (const auto& [known, family] :
           {std::pair{kGpt2Pattern, SplitFamily::kGpt2}, std::pair{kLlama3Pattern, SplitFamily::kLlama3},
            std::pair{kQwenPattern, SplitFamily::kQwen}}) {
        if (regex != known) continue;
        steps_.push_back({.kind = Step::Kind::kScanner, .family = family});
        return;
      }
    }
    step.pattern.emplace(regex, pattern.where());
  }
  steps_.push_back(std::move(step));
}

void PreTokenizer::read_metaspace(const JsonView& definition) {
  Step step{.kind = Step::Kind::kMetaspace};
  const JsonView replacement = definition.at("replacement");
  step.replacement = replacement.string();
  const char* text = step.replacement.data();
  if (step.replacement.empty() ||
      decode_utf8(text, text + step.replacement.size()).length != static_cast<int>(step.replacement.size())) {
    replacement.fail("one character", step.replacement);
  }
  const std::string scheme =
      definition.has("prepend_scheme") ? definition.at("prepend_scheme").string() : "always";
  if (scheme == "first") {
    step.prepend = Prepend::kFirst;
  } else if (scheme == "never") {
    step.prepend = Prepend::kNever;
  } else if (scheme != "always") {
    definition.at("prepend_scheme").fail("always, first or never", scheme);
  }
  if (!definition.boolean_or("add_prefix_space", true)) {
    if (definition.has("prepend_scheme") && step.prepend != Prepend::kNever) {
      definition.fail("add_prefix_space and prepend_scheme that agree", "false and " + scheme);
    }
    if (!definition.has("prepend_scheme"))
      definition.fail("prepend_scheme = never beside add_prefix_space = false", "no prepend_scheme");
  }
  step.split = definition.boolean_or("split", true);
  steps_.push_back(std::move(step));
}

std::vector<Piece> PreTokenizer::run_steps(const Piece& piece, std::deque<std::string>& storage) const {
  std::vector<Piece> pieces{piece};
  std::vector<Piece> next;
  for (const Step& step : steps_) {
    next.clear();
    for (const Piece& part : pieces) run_step(step, part, storage, next);
    pieces.swap(next);
  }
  return pieces;
}

void PreTokenizer::run_step(const Step& step, const Piece& piece, std::deque<std::string>& storage,
                            std::vector<Piece>& to) const {
  switch (step.kind) {
    case Step::Kind::kScanner: {
      bool first = true;
      scan(step.family, piece.text, [&](std::string_view word) {
        to.push_back({word, first && piece.at_origin, first && piece.continued});
        first = false;
      });
      break;
    }
    case Step::Kind::kPattern:
      split(piece, step.pattern->matches(piece.text), step.behavior, step.invert, to);
      break;
    case Step::Kind::kDigits: {
      std::vector<Match> digits;
      const char* begin = piece.text.data();
      const char* end = begin + piece.text.size();
      for (const char* at = begin; at < end;) {
        const Decoded decoded = decode_utf8(at, end);
        if (properties_of(decoded.code) & kNumericProperty)
          digits.push_back({at - begin, at - begin + decoded.length});
        at += decoded.length;
      }
      split(piece, digits, step.behavior, false, to);
      break;
    }
    case Step::Kind::kPrefixSpace:
      if (piece.continued || piece.text.front() == ' ') {
        to.push_back(piece);
      } else {
        to.push_back({storage.emplace_back(" " + std::string(piece.text)), piece.at_origin, false});
      }
      break;
    case Step::Kind::kMetaspace: {
      std::string& text = storage.emplace_back();
      const bool wanted =
          step.prepend == Prepend::kAlways || (step.prepend == Prepend::kFirst && piece.at_origin);
      if (wanted && !piece.continued && piece.text.front() != ' ' &&
          !piece.text.starts_with(step.replacement))
        text = step.replacement;
      for (const char c : piece.text) {
        if (c == ' ') {
          text += step.replacement;
        } else {
          text.push_back(c);
        }
      }
      Piece whole{text, piece.at_origin, piece.continued};
      if (!step.split) {
        to.push_back(whole);
        break;
      }
      std::vector<Match> found;
      for (size_t at = text.find(step.replacement); at != std::string::npos;
           at = text.find(step.replacement, at + step.replacement.size())) {
        found.push_back({static_cast<int64_t>(at), static_cast<int64_t>(at + step.replacement.size())});
      }
      split(whole, found, Behavior::kMergedWithNext, false, to);
      break;
    }
  }
}

void PreTokenizer::split(const Piece& piece, const std::vector<Match>& matches, Behavior behavior,
                         bool invert, std::vector<Piece>& to) {
  struct Part {
    int64_t begin, end;
    bool match;
  };
  std::vector<Part> parts;
  const int64_t size = static_cast<int64_t>(piece.text.size());
  int64_t done = 0;
  for (const Match& match : matches) {
    if (match.begin > done) parts.push_back({done, match.begin, invert});
    parts.push_back({match.begin, match.end, !invert});
    done = match.end;
  }
  if (done < size) parts.push_back({done, size, invert});
  std::vector<Part> kept;
  bool previous = false;
  switch (behavior) {
    case Behavior::kIsolated:
      kept = parts;
      break;
    case Behavior::kRemoved:
      for (const Part& part : parts) {
        if (!part.match) kept.push_back(part);
      }
      break;
    case Behavior::kContiguous:
    case Behavior::kMergedWithPrevious:
      for (const Part& part : parts) {
        const bool join =
            behavior == Behavior::kContiguous ? part.match == previous : part.match && !previous;
        if (join && !kept.empty()) {
          kept.back().end = part.end;
        } else {
          kept.push_back(part);
        }
        previous = part.match;
      }
      break;
    case Behavior::kMergedWithNext:
      for (size_t i = parts.size(); i-- > 0;) {
        if (parts[i].match && !previous && !kept.empty()) {
          kept.back().begin = parts[i].begin;
        } else {
          kept.push_back(parts[i]);
        }
        previous = parts[i].match;
      }
      std::reverse(kept.begin(), kept.end());
      break;
  }
  for (const Part& part : kept) {
    if (part.end == part.begin) continue;
    to.push_back(
        {piece.text.substr(static_cast<size_t>(part.begin), static_cast<size_t>(part.end - part.begin)),
         piece.at_origin && part.begin == 0, piece.continued && part.begin == 0});
  }
}

bool PreTokenizer::whole_text_is_a_word() const {
  for (const Step& step : steps_) {
    if (step.kind != Step::Kind::kPrefixSpace && (step.kind != Step::Kind::kMetaspace || step.split))
      return false;
  }
  return true;
}

char32_t PreTokenizer::space_becomes(char32_t space) const {
  for (const Step& step : steps_) {
    const char* text = step.replacement.data();
    if (space == U' ' && step.kind == Step::Kind::kMetaspace)
      space = decode_utf8(text, text + step.replacement.size()).code;
  }
  return space;
}

int64_t PreTokenizer::last_safe_cut(std::string_view text, bool nfc_before) const {
  // Digits and the leading space change nothing at the cuts of the following scanner; a pattern that comes
  // first fixes the pieces for all later steps, but only if no normalizer is between the text and the
  // pattern.
  size_t first = 0;
  while (first < steps_.size() &&
         (steps_[first].kind == Step::Kind::kDigits || steps_[first].kind == Step::Kind::kPrefixSpace))
    ++first;
  if (first == steps_.size()) return -1;
  const Step& step = steps_[first];
  if (step.kind == Step::Kind::kScanner) {
    for (int64_t cut = data::last_safe_cut(step.family, text); cut > 0;
         cut = data::last_safe_cut(step.family, text.substr(0, static_cast<size_t>(cut)))) {
      const bool ascii = static_cast<uint8_t>(text[static_cast<size_t>(cut)]) < 0x80 &&
                         static_cast<uint8_t>(text[static_cast<size_t>(cut - 1)]) < 0x80;
      if (ascii || !nfc_before) return cut;
    }
    return 0;
  }
  const bool settles = step.behavior == Behavior::kIsolated || step.behavior == Behavior::kRemoved;
  if (first == 0 && step.kind == Step::Kind::kPattern && settles && !nfc_before)
    return step.pattern->last_settled_end(text);
  return -1;
}

}  // namespace longhaul::data

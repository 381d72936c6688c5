#include "data/tokenizer/tokenizer.h"

#include <algorithm>
#include <deque>

#include "base/checksum.h"
#include "base/files/file.h"
#include "data/tokenizer/added_tokens.h"
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/decoder.h"
#include "data/tokenizer/definition.h"
#include "data/tokenizer/definition_rules.h"
#include "data/tokenizer/splitting/normalizer.h"
#include "data/tokenizer/splitting/pre_tokenizer.h"
#include "data/tokenizer/splitting/unicode.h"

namespace longhaul::data {
namespace {

// Tokens that are known to end a document by their names only, the likeliest first.
constexpr std::string_view kUsualEnds[] = {
    kEndOfDocument,          "<|endoftext|>",     "<|end_of_text|>", "<end_of_document>", "</s>",
    "<｜end▁of▁sentence｜>", "<end_of_sentence>", "<eos>",           "<|eos|>",           "[EOS]"};

}  // namespace

struct Tokenizer::Parts {
  std::string definition, where, sha256;
  Normalizer normalizer;
  PreTokenizer pre_tokenizer;
  Bpe model;
  AddedTokens added;
  Decoder decoder;
  std::vector<int32_t> before, after;   // what the post-processor puts around the text
  std::vector<std::string> byte_texts;  // by id, when the decoder is ByteLevel alone
  std::vector<std::string> not_applied;
  int64_t vocabulary = 0, tokens = 0;
  char32_t space_becomes = U' ';

  void read(const JsonView& root);
  void read_post_processor(const JsonView& processor, int depth);
  void encode_normalized(const Piece& piece, std::deque<std::string>& storage, std::vector<int32_t>& ids,
                         const SpecialAllowed* allowed) const;
  void encode_ordinary(const Piece& raw, size_t offset, const SpecialAllowed& allowed,
                       std::vector<int32_t>& ids) const;
  const std::string* text_of(int32_t id) const;  // the token's text as decoders see it
};

void Tokenizer::Parts::read(const JsonView& root) {
  root.require(root.value().is_object(), "an object");
  if (root.has("version") && root.at("version").string() != "1.0")
    root.at("version").fail("1.0", root.at("version").string());
  for (const char* key : {"truncation", "padding"}) {
    if (!root.has(key)) continue;  // the trainer handles length
    root.at(key).require(root.at(key).value().is_object(), "an object, or null");
    not_applied.emplace_back(key);
  }
  if (root.has("normalizer")) normalizer = Normalizer(root.at("normalizer"));
  if (root.has("pre_tokenizer")) pre_tokenizer = PreTokenizer(root.at("pre_tokenizer"));
  model = Bpe(root.at("model"), pre_tokenizer.byte_level());
  if (root.has("added_tokens")) added = AddedTokens(root.at("added_tokens"), model, normalizer);
  if (root.has("decoder")) decoder = Decoder(root.at("decoder"));
  if (root.has("post_processor")) read_post_processor(root.at("post_processor"), 0);

  vocabulary = static_cast<int64_t>(model.tokens().size());
  tokens = model.entries();
  for (const AddedToken& token : added.tokens()) {
    vocabulary = std::max<int64_t>(vocabulary, token.id + 1);
    tokens += model.id_of(token.content) ? 0 : 1;
  }
  space_becomes = pre_tokenizer.space_becomes(normalizer.by_character() ? normalizer.space_becomes() : U' ');
  if (decoder.only_byte_level()) {
    byte_texts.resize(static_cast<size_t>(vocabulary));
    for (int32_t id = 0; id < vocabulary; ++id) {
      if (const std::string* text = text_of(id))
        byte_texts[static_cast<size_t>(id)] = Decoder::byte_level_text(*text);
    }
  }
}

void Tokenizer::Parts::read_post_processor(const JsonView& processor, int depth) {
  const std::string& type = processor.at("type").string();
  if (type == "ByteLevel") return;  // changes offsets only
  if (type == "Sequence") {
    if (depth > 8) processor.fail("at most 8 levels of sequences", "more");
    const JsonView list = processor.at("processors");
    for (size_t i = 0; i < list.array_size(); ++i) read_post_processor(list.at(i), depth + 1);
    return;
  }
  if (type != "TemplateProcessing")
    refuse_unsupported(processor, "post-processor " + type, "TemplateProcessing, ByteLevel or Sequence");
  const JsonView single = processor.at("single");
  std::vector<int32_t> left;
  std::vector<int32_t> right;
  bool seen = false;
  for (size_t i = 0; i < single.array_size(); ++i) {
    const JsonView piece = single.at(i);
    if (piece.has("Sequence")) {
      if (seen || piece.at("Sequence").at("id").string() != "A")
        piece.fail("the sequence A once", "something else");
      seen = true;
      continue;
    }
    const JsonView ids =
        processor.at("special_tokens").at(piece.at("SpecialToken").at("id").string()).at("ids");
    for (size_t k = 0; k < ids.array_size(); ++k) {
      const auto id = static_cast<int32_t>(ids.at(k).integer(0, (1 << 24) - 1));
      if (text_of(id) == nullptr) ids.at(k).fail("the id of a token", fmt::format("{}", id));
      (seen ? right : left).push_back(id);
    }
  }
  if (!seen) single.fail("a template with the sequence A", "none");
  before.insert(before.begin(), left.begin(), left.end());
  after.insert(after.end(), right.begin(), right.end());
}

const std::string* Tokenizer::Parts::text_of(int32_t id) const {
  if (const AddedToken* token = added.by_id(id)) return &token->normalized_content;
  if (id < 0 || static_cast<size_t>(id) >= model.tokens().size()) return nullptr;
  const std::string& text = model.tokens()[static_cast<size_t>(id)];
  return text.empty() ? nullptr : &text;
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  return from_json(read_text(path, ExitCode::kData, kMostDefinitionBytes), path.string());
}

Tokenizer Tokenizer::from_json(std::string text, const std::string& where) {
  if (static_cast<int64_t>(text.size()) > kMostDefinitionBytes) {
    throw Error({.code = ExitCode::kData,
                 .what = "malformed tokenizer definition",
                 .expected = fmt::format("at most {} bytes", kMostDefinitionBytes),
                 .found = fmt::format("{} bytes", text.size()),
                 .where = where});
  }
  auto parts = std::make_shared<Parts>();
  const nlohmann::json json = parse_json(text, where, kDefinitionRules);
  parts->read(JsonView(json, where + ":", kDefinitionRules));
  parts->sha256 = sha256_hex(text);
  parts->definition = std::move(text);
  parts->where = where;
  return Tokenizer(std::move(parts));
}

Tokenizer Tokenizer::bytes() { return from_json(bytes_definition(), "bytes"); }

void Tokenizer::save(const std::filesystem::path& path) const {
  write_text_atomically(path, parts_->definition);
}

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool add_special) const {
  std::vector<int32_t> ids;
  encode_append(text, ids, add_special);
  return ids;
}

void Tokenizer::encode_append(std::string_view text, std::vector<int32_t>& ids, bool add_special) const {
  encode_part(text, {.first = true, .last = true}, ids, add_special);
}

// The ids of a part of the text between two added tokens of the raw round, normalized already.
void Tokenizer::Parts::encode_normalized(const Piece& piece, std::deque<std::string>& storage,
                                         std::vector<int32_t>& ids, const SpecialAllowed* allowed) const {
  bool continued = piece.continued, at_origin = piece.at_origin;
  added.split(
      piece.text, true,
      [&](const AddedTokens::Part& inner) {
        if (inner.id >= 0) {
          ids.push_back(inner.id);
        } else {
          pre_tokenizer.words({inner.text, at_origin, continued}, storage,
                              [&](std::string_view word) { model.encode_word(word, ids); });
        }
        continued = at_origin = false;
      },
      allowed);
}

void Tokenizer::encode_part(std::string_view text, StreamPart part, std::vector<int32_t>& ids,
                            bool add_special) const {
  const Parts& parts = *parts_;
  if (add_special && part.first) ids.insert(ids.end(), parts.before.begin(), parts.before.end());
  std::deque<std::string> storage;
  bool continued = !part.first;
  bool at_origin = part.first;
  parts.added.split(text, false, [&](const AddedTokens::Part& raw) {
    if (raw.id >= 0) {
      ids.push_back(raw.id);
    } else {
      storage.clear();
      parts.encode_normalized({parts.normalizer.apply(raw.text, continued, storage), at_origin, continued},
                              storage, ids, nullptr);
    }
    continued = at_origin = false;
  });
  if (add_special && part.last) ids.insert(ids.end(), parts.after.begin(), parts.after.end());
}

// A piece of the text without added tokens of the raw round; `offset`: its place in the text.
void Tokenizer::Parts::encode_ordinary(const Piece& raw, size_t offset, const SpecialAllowed& allowed,
                                       std::vector<int32_t>& ids) const {
  std::deque<std::string> storage;
  const std::string_view normalized = normalizer.apply(raw.text, raw.continued, storage);
  if (normalized == raw.text) {  // places in it are places in the text
    const SpecialAllowed here = [&](size_t begin, size_t end) {
      return allowed(offset + begin, offset + end);
    };
    return encode_normalized({normalized, raw.at_origin, raw.continued}, storage, ids, &here);
  }
  // a special token that only the normalized text has, whose place in the text is not known
  bool spelled = false;
  added.split(normalized, true, [&](const AddedTokens::Part& inner) {
    const AddedToken* token = inner.id >= 0 ? added.by_id(inner.id) : nullptr;
    spelled = spelled || (token != nullptr && token->special);
  });
  if (!spelled) return encode_normalized({normalized, raw.at_origin, raw.continued}, storage, ids, nullptr);
  // Runs of bytes that may be special, and runs that may not, are then normalized each by itself.
  for (size_t at = 0; at < raw.text.size();) {
    const bool may = allowed(offset + at, offset + at + 1);
    size_t end = at + 1;
    while (end < raw.text.size() && allowed(offset + end, offset + end + 1) == may) ++end;
    const SpecialAllowed here = [may](size_t, size_t) { return may; };
    const bool continued = raw.continued || at > 0;
    const std::string_view run = normalizer.apply(raw.text.substr(at, end - at), continued, storage);
    encode_normalized({run, raw.at_origin && at == 0, continued}, storage, ids, &here);
    at = end;
  }
}

Tokenizer::CutIds Tokenizer::encode_where(std::string_view text,
                                          const std::function<bool(size_t, size_t)>& allowed,
                                          std::span<const size_t> cuts) const {
  CutIds made;
  size_t cut = 0;  // the next one
  bool at_origin = true;
  const auto pass_cuts = [&](size_t upto) {
    for (; cut < cuts.size() && cuts[cut] <= upto; ++cut) made.before_cut.push_back(made.ids.size());
  };
  const SpecialAllowed everywhere = allowed;
  const auto each = [&](const AddedTokens::Part& raw) {
    const auto begin = static_cast<size_t>(raw.text.data() - text.data());
    const size_t end = begin + raw.text.size();
    pass_cuts(begin);
    if (raw.id >= 0) made.ids.push_back(raw.id);
    for (size_t at = begin; raw.id < 0 && at < end;) {
      const size_t stop = cut < cuts.size() ? std::min(end, cuts[cut]) : end;
      parts_->encode_ordinary({text.substr(at, stop - at), at_origin && at == begin, at > begin}, at,
                              everywhere, made.ids);
      pass_cuts(stop);
      at = stop;
    }
    at_origin = false;
  };
  parts_->added.split(text, false, each, &everywhere);
  pass_cuts(text.size());
  return made;
}

void Tokenizer::for_each_word(std::string_view text,
                              const std::function<void(std::string_view)>& word) const {
  std::deque<std::string> storage;
  const std::string_view normalized = parts_->normalizer.apply(text, false, storage);
  parts_->pre_tokenizer.words({normalized, true, false}, storage, word);
}

int64_t Tokenizer::last_safe_cut(std::string_view text) const {
  const Parts& parts = *parts_;
  const bool by_character = parts.normalizer.by_character();
  const bool only_nfc = parts.normalizer.only_nfc();
  // Words that begin at every space, or a whole text in which no token spans the space of "x y".
  const auto before_space = [&](std::string_view within) -> int64_t {
    const bool spaces_split = !parts.pre_tokenizer.whole_text_is_a_word();
    const char32_t mark = parts.space_becomes;
    for (size_t at = within.size(); at-- > 1;) {
      if (within[at] != ' ' || within[at - 1] == ' ') continue;
      const char32_t left = decode_utf8_before(within.data(), within.data() + at).code;
      if (spaces_split || parts.model.never_joined(left, mark)) return static_cast<int64_t>(at);
    }
    return 0;
  };
  const bool metaspace =
      !parts.pre_tokenizer.byte_level() && by_character && parts.pre_tokenizer.last_safe_cut({}, false) < 0;
  size_t size = text.size();
  while (size > 0) {
    const std::string_view within = text.substr(0, size);
    int64_t cut = -1;
    if (only_nfc) cut = parts.pre_tokenizer.last_safe_cut(within, !parts.normalizer.empty());
    if (cut < 0 && metaspace) cut = before_space(within);
    if (cut <= 0) return cut;
    if (parts.added.cut_allowed(text, static_cast<size_t>(cut)) && cut < static_cast<int64_t>(text.size()))
      return cut;
    size = static_cast<size_t>(cut);
  }
  return 0;
}

std::string Tokenizer::decode(std::span<const int32_t> ids, bool skip_special) const {
  const Parts& parts = *parts_;
  const bool fast = !parts.byte_texts.empty();
  std::string text;
  std::vector<std::string> tokens;
  for (size_t i = 0; i < ids.size(); ++i) {
    const int32_t id = ids[i];
    const std::string* token = parts.text_of(id);
    if (token == nullptr) {
      throw Error({.code = ExitCode::kData,
                   .what = "cannot decode",
                   .expected = fmt::format("ids of tokens, below {}", parts.vocabulary),
                   .found = fmt::format("{} at position {}", id, i),
                   .where = parts.where});
    }
    if (skip_special && is_special(id)) continue;
    if (fast) {
      text += parts.byte_texts[static_cast<size_t>(id)];
    } else {
      tokens.push_back(*token);
    }
  }
  return fast ? text : parts.decoder.decode(std::move(tokens));
}

bool Tokenizer::decodes_locally() const { return parts_->decoder.local(); }
int64_t Tokenizer::vocabulary() const { return parts_->vocabulary; }
int64_t Tokenizer::tokens() const { return parts_->tokens; }
const std::string& Tokenizer::sha256() const { return parts_->sha256; }
const std::string& Tokenizer::definition() const { return parts_->definition; }

std::optional<int32_t> Tokenizer::id_of(std::string_view token) const {
  if (const auto id = parts_->added.id_of(token)) return id;
  return parts_->model.id_of(token);
}

std::optional<std::string> Tokenizer::token_of(int32_t id) const {
  const std::string* text = parts_->text_of(id);
  if (text == nullptr) return std::nullopt;
  return *text;
}

bool Tokenizer::is_special(int32_t id) const {
  const AddedToken* token = parts_->added.by_id(id);
  return token != nullptr && token->special;
}

Tokenizer Tokenizer::with(const TokenRoles& roles) const {
  const auto id_for = [&](const std::string& token, const char* option) {
    const auto id = id_of(token);
    if (id) return *id;
    throw Error({.code = ExitCode::kData,
                 .what = "the tokenizer has no such token",
                 .expected = fmt::format("a token of {}", parts_->where),
                 .found = token,
                 .where = option,
                 .hint = fmt::format("{}= leaves it to the tokens of usual names", option)});
  };
  Tokenizer tokenizer = *this;
  tokenizer.end_of_document_.reset();
  tokenizer.stop_.clear();
  if (!roles.end_of_document.empty())
    tokenizer.end_of_document_ = id_for(roles.end_of_document, "data.end_of_document");
  for (const std::string& token : roles.stop) tokenizer.stop_.push_back(id_for(token, "data.stop_tokens"));
  return tokenizer;
}

std::optional<int32_t> Tokenizer::end_of_document() const {
  if (end_of_document_) return end_of_document_;
  for (const std::string_view name : kUsualEnds) {
    if (const auto id = parts_->added.id_of(name)) return id;
  }
  return std::nullopt;
}

const std::vector<std::string>& Tokenizer::not_applied() const { return parts_->not_applied; }
const std::vector<int32_t>& Tokenizer::before() const { return parts_->before; }
const std::vector<int32_t>& Tokenizer::after() const { return parts_->after; }

std::vector<int32_t> Tokenizer::beginning() const {
  if (!parts_->before.empty()) return parts_->before;
  const auto end = end_of_document();
  return end ? std::vector<int32_t>{*end} : std::vector<int32_t>();
}

std::vector<int32_t> Tokenizer::encode_prompt(std::string_view text) const {
  const std::vector<int32_t> own = encode(text);
  const std::vector<int32_t>& before = parts_->before;
  const bool there =
      !before.empty() && own.size() >= before.size() && std::equal(before.begin(), before.end(), own.begin());
  std::vector<int32_t> ids = there ? std::vector<int32_t>() : beginning();
  ids.insert(ids.end(), own.begin(), own.end());
  return ids;
}

std::vector<int32_t> Tokenizer::stop_ids() const {
  std::vector<int32_t> ids = stop_;
  if (const auto end = end_of_document()) ids.push_back(*end);
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

std::vector<int32_t> Tokenizer::without_token() const {
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary(); ++id) {
    if (parts_->text_of(id) == nullptr) ids.push_back(id);
  }
  return ids;
}

}  // namespace longhaul::data

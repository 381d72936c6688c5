#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

#include "data/tokenizer/definition_rules.h"
#include "data/tokenizer/splitting/unicode.h"
#include "data/tokenizer/word_cache.h"

namespace longhaul::data {

namespace {

constexpr int64_t kMostTokens = 1 << 24;
constexpr size_t kShortPiece = 48;
constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

std::atomic<uint64_t> next_serial{1};

}  // namespace

Bpe::Bpe(const JsonView& definition, bool byte_level) : byte_level_(byte_level), serial_(next_serial++) {
  if (definition.has("type") && definition.at("type").string() != "BPE") {
    refuse_unsupported(definition, "model " + definition.at("type").string(), "BPE");
  }
  for (const char* option : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (definition.has(option) && !definition.at(option).string().empty())
      refuse_unsupported(definition.at(option), option, "null");
  }
  if (definition.has("dropout") && definition.at("dropout").value() != 0.0) {
    refuse_unsupported(definition.at("dropout"), "merge dropout", "null");
  }
  ignore_merges_ = definition.boolean_or("ignore_merges", false);
  byte_fallback_ = definition.boolean_or("byte_fallback", false);
  fuse_unknown_ = definition.boolean_or("fuse_unk", false);
  read_vocabulary(definition.at("vocab"));
  if (definition.has("unk_token")) {
    const auto unknown = id_of(definition.at("unk_token").string());
    if (!unknown)
      definition.at("unk_token").fail("a token of the vocabulary", definition.at("unk_token").string());
    unknown_ = *unknown;
  }
  read_merges(definition.at("merges"));
}

void Bpe::read_vocabulary(const JsonView& vocabulary) {
  vocabulary.require(vocabulary.value().is_object(), "an object of token: id");
  ids_.reserve(vocabulary.value().size());
  for (const auto& [token, id] : vocabulary.value().items()) {
    const JsonView entry = vocabulary.entry(token, id);
    const int64_t number = entry.integer(0, kMostTokens - 1);
    if (number >= static_cast<int64_t>(tokens_.size())) tokens_.resize(static_cast<size_t>(number) + 1);
    std::string& place = tokens_[static_cast<size_t>(number)];
    if (!place.empty())
      entry.fail("an id of its own for every token",
                 fmt::format("id {} also belongs to \"{}\"", number, place));
    place = token;
    ids_.emplace(token, static_cast<int32_t>(number));
    longest_token_ = std::max(longest_token_, token.size());
  }
  byte_tokens_.fill(kNone);
  for (int byte = 0; byte < 256; ++byte) {
    if (const auto id = id_of(fmt::format("<0x{:02X}>", byte))) byte_tokens_[static_cast<size_t>(byte)] = *id;
  }
  if (byte_level_) symbols_.assign(256, kNone);
  for (const auto& [token, id] : ids_) {
    if (token.empty()) continue;
    const Decoded first = decode_utf8(token.data(), token.data() + token.size());
    if (first.length != static_cast<int>(token.size()) || first.code == kBadByte) continue;
    const int byte = byte_level_ ? char_to_byte(first.code) : -1;
    if (byte_level_ && byte < 0) continue;
    const size_t index = byte_level_ ? static_cast<size_t>(byte) : first.code;
    if (index >= symbols_.size()) symbols_.resize(index + 1, kNone);
    symbols_[index] = id;
  }
}

void Bpe::read_merges(const JsonView& merges) {
  const size_t count = merges.array_size();
  if (count > static_cast<size_t>(kMostTokens))
    merges.fail("at most 16777216 merges", fmt::format("{}", count));
  merges_ = FlatMap<Merge>(count);
  std::vector<int32_t> results;
  bool special_parts = false;
  int32_t rank = 0;
  for (size_t i = 0; i < count; ++i) {
    const nlohmann::json& value = merges.value()[i];
    std::string left;
    std::string right;
    if (value.is_string()) {
      const std::string& line = value.get_ref<const std::string&>();
      if (line.starts_with("#version")) continue;
      const size_t space = line.find(' ');
      if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos) {
        merges.at(i).fail("two tokens with one space between", line);
      }
      left = line.substr(0, space);
      right = line.substr(space + 1);
    } else if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string()) {
      left = value[0].get<std::string>();
      right = value[1].get<std::string>();
    } else {
      merges.at(i).fail("two tokens: \"a b\" or [\"a\", \"b\"]", value.type_name());
    }
    const auto find = [&](const std::string& token) {
      const auto id = id_of(token);
      if (!id)
        merges.at(i).fail("tokens of the vocabulary", fmt::format("\"{}\", which is not in it", token));
      return *id;
    };
    const int32_t a = find(left);
    const int32_t b = find(right);
    const int32_t result = find(left + right);
    merges_[pair_key(a, b)] = {rank++, result};
    results.push_back(result);
    for (const int32_t part : {a, b}) {
      special_parts = special_parts || part == unknown_ ||
                      (byte_fallback_ && std::ranges::find(byte_tokens_, part) != byte_tokens_.end());
    }
  }
  find_joined_symbols(results, special_parts);
}

void Bpe::find_joined_symbols(const std::vector<int32_t>& results, bool special_parts) {
  // Merges of the unknown token or of fallback bytes make tokens that do not spell their text; then nothing
  // is known.
  all_joined_ = special_parts;
  if (all_joined_) return;
  joined_bytes_.assign(byte_level_ ? 1024 : 0, 0);
  for (const int32_t result : results) {
    const std::string& token = tokens_[static_cast<size_t>(result)];
    int32_t left = kNone;
    char32_t left_code = 0;
    const char* end = token.data() + token.size();
    for (const char* at = token.data(); at < end;) {
      const Decoded decoded = decode_utf8(at, end);
      const int byte = byte_level_ ? char_to_byte(decoded.code) : 0;
      const char32_t code = byte_level_ ? static_cast<char32_t>(byte) : decoded.code;
      const int32_t symbol = byte < 0 ? kNone : symbol_of(code);
      if (left != kNone && symbol != kNone) {
        if (byte_level_) {
          joined_bytes_[left_code * 4 + code / 64] |= uint64_t{1} << (code % 64);
        } else {
          joined_symbols_[pair_key(left, symbol)] = 1;
        }
      }
      left = symbol;
      left_code = code;
      at += decoded.length;
    }
  }
}

std::optional<int32_t> Bpe::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

bool Bpe::joined(int32_t left, int32_t right) const {
  return all_joined_ || joined_symbols_.find(pair_key(left, right)) != nullptr;
}

bool Bpe::never_joined(char32_t left, char32_t right) const {
  if (byte_level_ || ignore_merges_ || all_joined_) return false;
  const int32_t a = symbol_of(left);
  const int32_t b = symbol_of(right);
  return a != kNone && b != kNone && !joined(a, b);
}

void Bpe::encode_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (word.empty()) return;
  if (byte_level_ && word.size() == 1) {
    const int32_t symbol = symbols_[static_cast<uint8_t>(word[0])];
    if (symbol != kNone) {
      ids.push_back(symbol);
      return;
    }
  }
  if (word.size() > WordCache::kLongest) {
    merge_word(word, ids);
    return;
  }
  WordCache& cache = WordCache::of_thread(serial_);
  const WordCache::Key key = WordCache::key_of(word);
  if (cache.find(key, ids)) return;
  const size_t before = ids.size();
  merge_word(word, ids);
  cache.store(key, ids.data() + before, ids.size() - before);
}

void Bpe::merge_word(std::string_view word, std::vector<int32_t>& ids) const {
  if (ignore_merges_ && word.size() <= longest_token_) {
    const auto whole = byte_level_ ? id_of(bytes_to_chars(word)) : id_of(word);
    if (whole) {
      ids.push_back(*whole);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(word.size());
  if (byte_level_) {
    symbols_of_bytes(word, symbols);
  } else {
    symbols_of_characters(word, symbols);
  }
  // Divides where no merge can ever reach across. The unknown token and fallback bytes are not merged unless
  // all_joined_.
  size_t begin = 0;
  for (size_t i = 1; i <= symbols.size(); ++i) {
    if (i < symbols.size()) {
      bool together = all_joined_;
      if (!together && byte_level_ && symbols.size() == word.size()) {
        const size_t left = static_cast<uint8_t>(word[i - 1]);
        const size_t right = static_cast<uint8_t>(word[i]);
        together = joined_bytes_[left * 4 + right / 64] >> (right % 64) & 1;
      } else if (!together) {
        together = byte_level_ || joined(symbols[i - 1], symbols[i]);
      }
      if (together) continue;
    }
    merge_piece(symbols.data() + begin, i - begin, ids);
    begin = i;
  }
}

void Bpe::symbols_of_bytes(std::string_view word, std::vector<int32_t>& symbols) const {
  bool pending = false;  // an unknown symbol not yet written, for fuse_unk
  for (const char byte : word) {
    const int32_t symbol = symbols_[static_cast<uint8_t>(byte)];
    if (symbol != kNone) {
      symbols.push_back(symbol);
      pending = false;
    } else if (unknown_ != kNone) {
      if (!pending || !fuse_unknown_) symbols.push_back(unknown_);
      pending = true;
    }
  }
}

void Bpe::symbols_of_characters(std::string_view word, std::vector<int32_t>& symbols) const {
  // `tokenizers` delays an unknown symbol until a known one follows; fallback bytes do not release it. The
  // behaviour is copied.
  int held = 0;
  const auto release = [&] {
    if (held > 0) symbols.insert(symbols.end(), fuse_unknown_ ? 1 : static_cast<size_t>(held), unknown_);
    held = 0;
  };
  const char* at = word.data();
  const char* end = at + word.size();
  while (at < end) {
    const Decoded decoded = decode_utf8(at, end);
    const char* bytes = at;
    at += decoded.length;
    const int32_t symbol = decoded.code == kBadByte ? kNone : symbol_of(decoded.code);
    if (symbol != kNone) {
      release();
      symbols.push_back(symbol);
      continue;
    }
    const auto known = [&](char byte) { return byte_tokens_[static_cast<uint8_t>(byte)] != kNone; };
    if (byte_fallback_ && std::all_of(bytes, at, known)) {
      for (; bytes < at; ++bytes) symbols.push_back(byte_tokens_[static_cast<uint8_t>(*bytes)]);
    } else if (unknown_ != kNone) {
      if (!fuse_unknown_) release();
      held = 1;
    }
  }
  release();
}

void Bpe::merge_piece(int32_t* symbols, size_t count, std::vector<int32_t>& ids) const {
  if (count == 1) {
    ids.push_back(symbols[0]);
    return;
  }
  if (count > kShortPiece) {
    merge_long(symbols, count, ids);
    return;
  }
  std::array<Merge, kShortPiece> merges;  // merges[i] joins symbols i and i + 1
  const auto look_up = [&](size_t i) {
    const Merge* merge = merges_.find(pair_key(symbols[i], symbols[i + 1]));
    merges[i] = merge != nullptr ? *merge : Merge{kNoRank, 0};
  };
  for (size_t i = 0; i + 1 < count; ++i) look_up(i);
  while (count > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < count; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    symbols[best] = merges[best].result;
    --count;
    for (size_t i = best + 1; i < count; ++i) {  // close the gap; merges[best] is looked up again below
      symbols[i] = symbols[i + 1];
      merges[i - 1] = merges[i];
    }
    if (best > 0) look_up(best - 1);
    if (best + 1 < count) look_up(best);
  }
  ids.insert(ids.end(), symbols, symbols + count);
}

void Bpe::merge_long(const int32_t* symbols, size_t count, std::vector<int32_t>& ids) const {
  // A doubly linked list in arrays and a heap of (rank, position). An entry is stale if the pair at its
  // position now has another rank; ranks are unique, so an equal rank means an equal pair.
  LONGHAUL_ASSERT(count < static_cast<size_t>(std::numeric_limits<int32_t>::max()), "a word of {} symbols",
                  count);
  struct Node {
    int32_t symbol, before, after, rank;
  };
  std::vector<Node> nodes(count);
  std::vector<uint64_t> heap;
  const auto later = std::greater<>{};
  const auto look_up = [&](int32_t i) -> bool {
    Node& node = nodes[static_cast<size_t>(i)];
    node.rank = kNoRank;
    if (node.after < 0) return false;
    const Merge* merge = merges_.find(pair_key(node.symbol, nodes[static_cast<size_t>(node.after)].symbol));
    if (merge == nullptr) return false;
    node.rank = merge->rank;
    heap.push_back(static_cast<uint64_t>(merge->rank) << 32 | static_cast<uint32_t>(i));
    return true;
  };
  for (size_t i = 0; i < count; ++i) {
    nodes[i] = {symbols[i], static_cast<int32_t>(i) - 1, i + 1 < count ? static_cast<int32_t>(i) + 1 : -1,
                kNoRank};
  }
  for (size_t i = 0; i < count; ++i) look_up(static_cast<int32_t>(i));
  std::make_heap(heap.begin(), heap.end(), later);
  while (!heap.empty()) {
    std::pop_heap(heap.begin(), heap.end(), later);
    const uint64_t top = heap.back();
    heap.pop_back();
    const int32_t at = static_cast<int32_t>(top & 0xFFFFFFFF);
    Node& node = nodes[static_cast<size_t>(at)];
    if (node.rank != static_cast<int32_t>(top >> 32)) continue;
    Node& right = nodes[static_cast<size_t>(node.after)];
    node.symbol = merges_.find(pair_key(node.symbol, right.symbol))->result;
    right.rank = kNoRank;
    node.after = right.after;
    if (right.after >= 0) nodes[static_cast<size_t>(right.after)].before = at;
    if (look_up(at)) std::push_heap(heap.begin(), heap.end(), later);
    if (node.before >= 0 && look_up(node.before)) std::push_heap(heap.begin(), heap.end(), later);
  }
  for (int32_t at = 0; at >= 0; at = nodes[static_cast<size_t>(at)].after)
    ids.push_back(nodes[static_cast<size_t>(at)].symbol);
}

}  // namespace longhaul::data

#include "data/tokenizer/bpe_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>

#include "base/error.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/threads/parallel.h"
#include "data/tokenizer/flat_map.h"
#include "data/tokenizer/splitting/unicode.h"
#include "data/tokenizer/word_counts.h"

namespace longhaul::data {

namespace {

constexpr size_t kSliceBytes = 512 << 10;
constexpr size_t kSlicesPerThread = 8;  // read together: so many that no thread waits long for another

// Cuts a text into slices of about kSliceBytes at places where words end anyway.
void slice(const Tokenizer& cutter, std::string_view text, std::vector<std::string_view>& slices) {
  while (text.size() > kSliceBytes) {
    const int64_t cut = cutter.last_safe_cut(text.substr(0, kSliceBytes));
    if (cut <= 0) break;
    slices.push_back(text.substr(0, static_cast<size_t>(cut)));
    text.remove_prefix(static_cast<size_t>(cut));
  }
  slices.push_back(text);
}

std::vector<WordCounts::Counted> count_words(const TextSource& next_text, const Tokenizer& cutter) {
  std::vector<WordCounts> counts(static_cast<size_t>(threads()));
  Progress progress("counting words", 0, Progress::Unit::kBytes);
  const size_t batch_bytes = kSlicesPerThread * kSliceBytes * counts.size();
  bool more = true;
  while (more) {
    std::vector<std::string> texts;
    size_t bytes = 0;
    while (bytes < batch_bytes) {
      std::string text;
      more = next_text(text);
      if (!more) break;
      bytes += text.size();
      texts.push_back(std::move(text));
    }
    std::vector<std::string_view> slices;
    for (const std::string& text : texts) slice(cutter, text, slices);
    const int64_t workers = static_cast<int64_t>(counts.size());
    parallel_for(0, workers, 1, [&](int64_t begin, int64_t end) {
      for (int64_t worker = begin; worker < end; ++worker) {
        WordCounts& own = counts[static_cast<size_t>(worker)];
        for (size_t i = static_cast<size_t>(worker); i < slices.size(); i += static_cast<size_t>(workers)) {
          cutter.for_each_word(slices[i], [&own](std::string_view word) { own.add(word); });
        }
      }
    });
    progress.advance(static_cast<int64_t>(bytes));
  }
  for (size_t i = 1; i < counts.size(); ++i) counts[0].add(counts[i]);
  return counts[0].sorted();
}

// The words as symbols, the counts of neighbouring pairs, and a heap of candidates, as in `tokenizers`: the
// count of a merged pair itself is not reduced, and a pair that occurs again gets a new candidate with only
// its new words. Both matter only for tokens that can be spelled in two ways, and there they decide the
// result.
class PairMerger {
 public:
  PairMerger(const std::vector<WordCounts::Counted>& counted, const std::array<int32_t, 256>& byte_ids) {
    for (const auto& [word, count] : counted) {
      words_.push_back({static_cast<int64_t>(symbols_.size()), static_cast<int32_t>(word.size()), count});
      for (const char byte : word) symbols_.push_back(byte_ids[static_cast<uint8_t>(byte)]);
    }
    for (size_t index = 0; index < words_.size(); ++index) {
      const Word& word = words_[index];
      for (int32_t i = 0; i + 1 < word.length; ++i) {
        change(pair_key(symbols_[static_cast<size_t>(word.begin + i)],
                        symbols_[static_cast<size_t>(word.begin + i + 1)]),
               word.count, static_cast<uint32_t>(index));
      }
    }
    push_candidates();
  }

  struct Best {
    uint64_t pair;
    int64_t count;
    size_t places;  // index of the words to merge in
  };
  // Returns the next pair to merge, or count 0.
  Best pop() {
    while (!heap_.empty()) {
      std::pop_heap(heap_.begin(), heap_.end(), later);
      Best best = heap_.back();
      heap_.pop_back();
      const int64_t now = states_[static_cast<size_t>(*index_.find(best.pair))].count;
      if (best.count == now) return best;
      if (now <= 0) {
        release(best.places);
        continue;
      }
      best.count = now;
      heap_.push_back(best);
      std::push_heap(heap_.begin(), heap_.end(), later);
    }
    return {0, 0, 0};
  }

  void merge(const Best& best, int32_t result) {
    const auto left = static_cast<int32_t>(best.pair >> 32);
    const auto right = static_cast<int32_t>(best.pair & 0xFFFFFFFF);
    for (const uint32_t index : places_[best.places])
      merge_in_word(words_[index], index, left, right, result);
    release(best.places);
    push_candidates();
  }

 private:
  struct Word {
    int64_t begin;
    int32_t length;
    int64_t count;
  };
  struct State {
    int64_t count = 0;
    std::vector<uint32_t> fresh;  // words in which the pair occurred since the last candidates were pushed
  };
  static bool later(const Best& a, const Best& b) {
    if (a.count != b.count) return a.count < b.count;
    if (a.pair != b.pair) return a.pair > b.pair;
    return a.places > b.places;
  }

  void change(uint64_t pair, int64_t amount, uint32_t word) {
    int32_t& slot = index_[pair];  // 0: new; states_[0] is not used
    if (slot == 0) {
      slot = static_cast<int32_t>(states_.size());
      states_.emplace_back();
    }
    State& state = states_[static_cast<size_t>(slot)];
    state.count += amount;
    if (amount <= 0) return;
    if (state.fresh.empty()) touched_.push_back(pair);
    if (state.fresh.empty() || state.fresh.back() != word) state.fresh.push_back(word);
  }

  void push_candidates() {
    for (const uint64_t pair : touched_) {
      State& state = states_[static_cast<size_t>(*index_.find(pair))];
      if (state.count > 0) {
        places_.push_back(std::move(state.fresh));
        heap_.push_back({pair, state.count, places_.size() - 1});
        std::push_heap(heap_.begin(), heap_.end(), later);
      }
      state.fresh = {};
    }
    touched_.clear();
  }

  void merge_in_word(Word& word, uint32_t index, int32_t left, int32_t right, int32_t result) {
    int32_t* symbols = symbols_.data() + word.begin;
    int32_t kept = 0;
    for (int32_t i = 0; i < word.length; ++i) {
      if (symbols[i] != left || i + 1 >= word.length || symbols[i + 1] != right) {
        symbols[kept++] = symbols[i];
        continue;
      }
      if (kept > 0) {
        change(pair_key(symbols[kept - 1], left), -word.count, index);
        change(pair_key(symbols[kept - 1], result), word.count, index);
      }
      if (i + 2 < word.length) {
        change(pair_key(right, symbols[i + 2]), -word.count, index);
        change(pair_key(result, symbols[i + 2]), word.count, index);
      }
      symbols[kept++] = result;
      ++i;
    }
    word.length = kept;
  }

  void release(size_t places) { places_[places] = {}; }

  std::vector<int32_t> symbols_;
  std::vector<Word> words_;
  FlatMap<int32_t> index_;
  std::deque<State> states_{1};
  std::vector<uint64_t> touched_;
  std::deque<std::vector<uint32_t>> places_;
  std::vector<Best> heap_;
};

void check(const TrainOptions& options) {
  const int64_t least = 256 + static_cast<int64_t>(options.special_tokens.size());
  if (options.vocabulary < least || options.vocabulary > (1 << 24)) {
    throw Error(
        {.code = ExitCode::kUsage,
         .what = "cannot train a tokenizer of this size",
         .expected = fmt::format("a vocabulary from {} (bytes and special tokens) to 16777216", least),
         .found = fmt::format("{}", options.vocabulary),
         .hint = "--vocabulary 8192"});
  }
  for (size_t i = 0; i < options.special_tokens.size(); ++i) {
    const std::string& token = options.special_tokens[i];
    const bool again = std::find(options.special_tokens.begin(),
                                 options.special_tokens.begin() + static_cast<std::ptrdiff_t>(i),
                                 token) != options.special_tokens.begin() + static_cast<std::ptrdiff_t>(i);
    if (token.empty() || again || !valid_utf8(token) ||
        decode_utf8(token.data(), token.data() + token.size()).length == static_cast<int>(token.size())) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "cannot use a special token",
                   .expected = "different texts of two or more characters in UTF-8",
                   .found = fmt::format("\"{}\"", token)});
    }
  }
}

}  // namespace

Tokenizer train_bpe(const TextSource& next_text, const TrainOptions& options) {
  check(options);
  TrainedModel model;
  TextIds ids;
  for (const std::string& token : options.special_tokens) {
    model.special.push_back(static_cast<int32_t>(model.tokens.size()));
    ids.emplace(token, static_cast<int32_t>(model.tokens.size()));
    model.tokens.push_back(token);
  }
  // The alphabet in the order of its characters' codes.
  std::array<int32_t, 256> byte_ids{};
  std::array<int, 256> order{};
  for (int byte = 0; byte < 256; ++byte) order[static_cast<size_t>(byte)] = byte;
  std::ranges::sort(order, {}, [](int byte) { return byte_to_char(static_cast<uint8_t>(byte)); });
  TrainedModel alphabet = model;
  for (const int byte : order) {
    byte_ids[static_cast<size_t>(byte)] = static_cast<int32_t>(model.tokens.size());
    model.tokens.push_back(bytes_to_chars(std::string(1, static_cast<char>(byte))));
    ids.emplace(model.tokens.back(), static_cast<int32_t>(model.tokens.size()) - 1);
  }
  alphabet.tokens = model.tokens;
  const Tokenizer cutter =
      Tokenizer::from_json(trained_definition(alphabet, options.pre_tokenizer), "alphabet");

  PairMerger merger(count_words(next_text, cutter), byte_ids);
  Progress progress("merging pairs", options.vocabulary - static_cast<int64_t>(model.tokens.size()));
  while (static_cast<int64_t>(model.tokens.size()) < options.vocabulary) {
    const PairMerger::Best best = merger.pop();
    if (best.count < std::max<int64_t>(1, options.minimum_count)) break;
    const auto left = static_cast<int32_t>(best.pair >> 32);
    const auto right = static_cast<int32_t>(best.pair & 0xFFFFFFFF);
    const std::string joined =
        model.tokens[static_cast<size_t>(left)] + model.tokens[static_cast<size_t>(right)];
    const auto [place, fresh] = ids.emplace(joined, static_cast<int32_t>(model.tokens.size()));
    if (fresh) model.tokens.push_back(joined);
    model.merges.emplace_back(left, right);
    merger.merge(best, place->second);
    progress.advance(fresh);
    throw_if_stop_requested("training the tokenizer");
  }
  return Tokenizer::from_json(trained_definition(model, options.pre_tokenizer), "trained tokenizer");
}

}  // namespace longhaul::data

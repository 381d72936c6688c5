#include "data/corpus/survey.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"
#include "base/text/path_text.h"

namespace longhaul::data {
namespace {

constexpr int64_t kLeastHeldOutBytes = 8 << 10, kShortestCutBytes = 1000;
constexpr int64_t kNamedLines = 10;  // bad lines that the log names

// 128 bits of XXH3: two of 10^9 different documents are equal with a probability of 10^-21, and nobody gains
// by making two.
struct Digest {
  uint64_t low = 0, high = 0;
  auto operator<=>(const Digest&) const = default;
};

struct SurveyedDocument {  // a document that is not empty
  Digest digest;
  int64_t bytes = 0;
  int64_t line = 0;
  uint32_t source = 0, file = 0;
};

// The place to cut a document: the last line end at or before `target` and after `least`; if there is none,
// before the character there.
class CutFinder final : public DocumentSink {
 public:
  CutFinder(int64_t line, int64_t least, int64_t target) : line_(line), least_(least), target_(target) {}
  bool begin(const DocumentInfo& document) override { return document.line == line_; }
  void text(std::string_view chunk) override {
    for (size_t i = 0; i < chunk.size() && at_ <= target_; ++i, ++at_) {
      if (after_newline_ && at_ > least_) newline_ = at_;
      if ((static_cast<unsigned char>(chunk[i]) & 0xc0) != 0x80) character_ = at_;
      after_newline_ = chunk[i] == '\n';
    }
  }
  void end() override {}
  int64_t cut() const {
    if (newline_ > 0) return newline_;
    return target_ - character_ < 4 ? character_ : target_;  // longer: not UTF-8
  }

 private:
  int64_t line_, least_, target_;
  int64_t at_ = 0, newline_ = 0, character_ = 0;
  bool after_newline_ = false;
};

int64_t cut_of(const Source& source, const SurveyedDocument& entry, int64_t percent) {
  const int64_t held_out =
      std::max(entry.bytes / 100 * percent, std::min(kLeastHeldOutBytes, entry.bytes / 10));
  const int64_t target = entry.bytes - held_out;
  CutFinder finder(entry.line, std::max<int64_t>(0, target - held_out), target);
  source.read(entry.file, finder, std::max<int64_t>(0, entry.line - 1));
  return finder.cut();
}

}  // namespace

// Takes the documents of the pass, then decides about them all.
class Surveyor final : public DocumentSink {
 public:
  Surveyor(const std::vector<Source>& sources, const CorpusOptions& options)
      : sources_(sources), options_(options), hash_(XXH3_createState(), &XXH3_freeState) {
    LONGHAUL_ASSERT(hash_ != nullptr, "XXH3_createState");
    survey_.sources_.resize(sources.size());
    for (size_t s = 0; s < sources.size(); ++s) {
      if (is_validation(s) || options.held_out_percent >= 100)
        survey_.sources_[s].otherwise = Split::kHeldOut;
    }
  }

  Survey run() {
    read_all();
    leave_out_copies();
    choose();
    fill();
    return std::move(survey_);
  }

  bool begin(const DocumentInfo& document) override {
    entry_ = {.line = document.line,
              .source = static_cast<uint32_t>(source_),
              .file = static_cast<uint32_t>(document.file)};
    XXH3_128bits_reset(hash_.get());
    return needs_texts_;
  }
  void text(std::string_view chunk) override {
    entry_.bytes += static_cast<int64_t>(chunk.size());
    XXH3_128bits_update(hash_.get(), chunk.data(), chunk.size());
  }
  // The same text with other weights is another document.
  void weight(float weight) override { XXH3_128bits_update(hash_.get(), &weight, sizeof weight); }
  void end() override {
    if (entry_.bytes == 0) return;
    const XXH128_hash_t digest = XXH3_128bits_digest(hash_.get());
    entry_.digest = {digest.low64, digest.high64};
    entries_.push_back(entry_);
  }
  void bad_line(const DocumentInfo& document, const std::string& where, const std::string& reason) override {
    survey_.sources_[source_].bad.emplace_back(document.file, document.line);
    if (++bad_lines_ <= kNamedLines) log_warning("{}: bad line left out: {}", where, reason);
    if (bad_lines_ == kNamedLines + 1) log_warning("more bad lines are left out and counted");
  }
  void not_text(size_t file, const std::string& reason) override {
    const SourceFile& left_out = sources_[source_].files()[file];
    survey_.sources_[source_].not_text.push_back({text_of_path(left_out.name), left_out.bytes, reason});
  }

 private:
  bool is_validation(size_t source) const { return source >= options_.sources.size(); }
  bool shares() const { return options_.held_out_percent > 0 && options_.held_out_percent < 100; }

  // Validation first: among equal documents the first counts.
  void read_all() {
    needs_texts_ =
        options_.remove_copies || shares() || !options_.validation.empty() || options_.source.skip_bad_lines;
    int64_t total = 0;
    for (const Source& source : sources_) total += source.bytes();
    Progress progress("looking through the texts", total, Progress::Unit::kBytes);
    for (size_t i = 0; i < sources_.size(); ++i) {
      source_ = (i + options_.sources.size()) % sources_.size();
      const Source& source = sources_[source_];
      for (size_t f = 0; f < source.files().size(); ++f) {
        if (needs_texts_ || !source.files()[f].many())
          source.read(f, *this, 0, [&](int64_t n) { progress.advance(n); });
      }
    }
  }

  // Entries become sorted by digest, equal ones in the order of reading.
  void leave_out_copies() {
    order_.resize(entries_.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::sort(order_.begin(), order_.end(), [&](size_t a, size_t b) {
      return std::pair(entries_[a].digest, a) < std::pair(entries_[b].digest, b);
    });
    is_copy_.assign(entries_.size(), false);
    for (size_t first = 0, i = 1; i < order_.size(); ++i) {
      const SurveyedDocument &original = entries_[order_[first]], &entry = entries_[order_[i]];
      if (entry.digest != original.digest) {
        first = i;
      } else {
        is_copy_[order_[i]] =
            options_.remove_copies || (is_validation(original.source) && !is_validation(entry.source));
      }
    }
  }

  // By the half of the digest that does not determine the order.
  bool held_out_by_hash(const Digest& digest) const {
    return digest.high % 100 < static_cast<uint64_t>(options_.held_out_percent);
  }

  // For sources in which the hash holds out nothing: whole documents or cuts.
  void choose() {
    if (!shares()) return;
    struct Kept {
      int64_t documents = 0, bytes = 0, held_out = 0;  // different ones
      const SurveyedDocument* last = nullptr;
    };
    std::vector<Kept> kept(sources_.size());
    const auto each_kept = [&](const auto& body) {
      for (Kept& of : kept) of.last = nullptr;
      for (const size_t i : order_) {
        Kept& of = kept[entries_[i].source];
        if (is_copy_[i] || is_validation(entries_[i].source) ||
            (of.last != nullptr && of.last->digest == entries_[i].digest))
          continue;
        of.last = &entries_[i];
        body(of, entries_[i]);
      }
    };
    each_kept([&](Kept& of, const SurveyedDocument& entry) {
      ++of.documents;
      of.bytes += entry.bytes;
      of.held_out += held_out_by_hash(entry.digest) ? 1 : 0;
    });
    // Ascending digests: the first that fits has the smallest hash.
    each_kept([&](Kept& of, const SurveyedDocument& entry) {
      if (of.documents == 1) {
        const bool divisible = entry.bytes >= kShortestCutBytes;
        cuts_[entry.digest] =
            divisible ? cut_of(sources_[entry.source], entry, options_.held_out_percent) : entry.bytes;
      } else if (of.held_out == 0 && entry.bytes <= of.bytes / of.documents) {
        also_held_out_.insert(entry.digest);
        of.held_out = 1;
      }
    });
  }

  void fill() {
    for (size_t i = 0; i < entries_.size(); ++i) {
      const SurveyedDocument& entry = entries_[i];
      Survey::OfSource& into = survey_.sources_[entry.source];
      const Survey::Place place{entry.file, entry.line};
      if (is_copy_[i]) {
        into.copies.push_back(place);
      } else if (into.otherwise == Split::kHeldOut || !shares()) {
        continue;
      } else if (const auto cut = cuts_.find(entry.digest); cut != cuts_.end()) {
        if (cut->second < entry.bytes) into.cuts.emplace_back(place, cut->second);
      } else if (held_out_by_hash(entry.digest) || also_held_out_.contains(entry.digest)) {
        into.held_out.push_back(place);
      }
    }
  }

  const std::vector<Source>& sources_;
  const CorpusOptions& options_;
  Survey survey_;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
  bool needs_texts_ = false;
  size_t source_ = 0;
  SurveyedDocument entry_;
  int64_t bad_lines_ = 0;
  std::vector<SurveyedDocument> entries_;  // in the order of reading
  std::vector<size_t> order_;
  std::vector<bool> is_copy_;
  std::set<Digest> also_held_out_;
  // Training text before the held-out part: all of it when the document is too short.
  std::map<Digest, int64_t> cuts_;
};

Survey Survey::of(const std::vector<Source>& sources, const CorpusOptions& options) {
  return Surveyor(sources, options).run();
}

Survey::Decision Survey::decision(size_t source, size_t file, int64_t line) const {
  const OfSource& of = sources_[source];
  const Place place{file, line};
  const auto listed = [&](const std::vector<Place>& places) {
    return std::binary_search(places.begin(), places.end(), place);
  };
  if (listed(of.bad)) return {.what = Decision::What::kBad};
  if (listed(of.copies)) return {.what = Decision::What::kCopy};
  for (const auto& [cut, bytes] : of.cuts) {  // a source has one at most, unless copies are kept
    if (cut == place) return {.what = Decision::What::kCut, .cut_bytes = bytes};
  }
  return {.split = listed(of.held_out) ? Split::kHeldOut : of.otherwise};
}

}  // namespace longhaul::data

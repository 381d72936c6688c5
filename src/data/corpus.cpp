#include "data/corpus.h"

#include <simdjson.h>
#include <xxhash.h>

#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "base/checksum.h"
#include "base/error.h"
#include "base/log.h"
#include "base/progress.h"

namespace longhaul::data {

struct LazyCopies {
  std::mutex mutex;
  bool found = false;
  Corpus::Copies copies;
};

namespace {

// Says whether a text that comes in chunks is UTF-8: the tail of an unfinished character waits for the next chunk.
class Utf8Check {
 public:
  void reset() { tail_.clear(), valid_ = true; }
  void text(std::string_view chunk) {
    if (!valid_) return;
    if (!tail_.empty()) {
      const size_t more = std::min<size_t>(chunk.size(), 3);
      std::string joined = tail_ + std::string(chunk.substr(0, more));
      const size_t whole = joined.size() - unfinished(joined);
      if (whole < tail_.size()) {  // still unfinished: the chunk was shorter than the character
        tail_ = std::move(joined);
        if (tail_.size() > 3) valid_ = false;
        return;
      }
      valid_ = simdjson::validate_utf8(joined.data(), whole);
      chunk.remove_prefix(whole - tail_.size());
      tail_.clear();
    }
    const size_t cut = unfinished(chunk);
    valid_ = valid_ && simdjson::validate_utf8(chunk.data(), chunk.size() - cut);
    tail_.assign(chunk.substr(chunk.size() - cut));
  }
  bool valid() const { return valid_ && tail_.empty(); }

 private:
  // Bytes at the end that begin a character which needs more of them.
  static size_t unfinished(std::string_view s) {
    for (size_t back = 1; back <= std::min<size_t>(3, s.size()); ++back) {
      const auto byte = static_cast<unsigned char>(s[s.size() - back]);
      if (byte < 0x80) return 0;
      if (byte >= 0xc0) return back < (byte >= 0xf0 ? 4u : byte >= 0xe0 ? 3u : 2u) ? back : 0;
    }
    return 0;
  }
  std::string tail_;
  bool valid_ = true;
};

// 128 bits of XXH3: a false copy among 10^9 documents has a chance of 10^-21, and no one gains by making one.
struct DigestHash {
  size_t operator()(const XXH128_hash_t& digest) const { return digest.low64; }
};
struct DigestEqual {
  bool operator()(const XXH128_hash_t& a, const XXH128_hash_t& b) const { return a.low64 == b.low64 && a.high64 == b.high64; }
};
using Digests = std::unordered_set<XXH128_hash_t, DigestHash, DigestEqual>;

class CopyFinder final : public DocumentSink {
 public:
  explicit CopyFinder(std::set<std::pair<size_t, int64_t>>& copies, Digests& seen)
      : copies_(copies), seen_(seen), hash_(XXH3_createState(), &XXH3_freeState) {
    LONGHAUL_ASSERT(hash_ != nullptr, "XXH3_createState");
  }
  bool begin(const DocumentInfo& document) override {
    place_ = {document.file, document.line};
    XXH3_128bits_reset(hash_.get());
    empty_ = true;
    return true;
  }
  void text(std::string_view chunk) override {
    empty_ = empty_ && chunk.empty();
    XXH3_128bits_update(hash_.get(), chunk.data(), chunk.size());
  }
  void end() override {
    if (!empty_ && !seen_.insert(XXH3_128bits_digest(hash_.get())).second) copies_.insert(place_);
  }

 private:
  std::set<std::pair<size_t, int64_t>>& copies_;
  Digests& seen_;
  std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> hash_;
  std::pair<size_t, int64_t> place_;
  bool empty_ = true;
};

// Turns a source's documents into the corpus's: leaves out copies and empty ones, tells the split, counts.
class Filter final : public DocumentSink {
 public:
  Filter(const Corpus& corpus, size_t source, std::optional<Split> only, const std::set<std::pair<size_t, int64_t>>* copies,
         CorpusSink& sink, CorpusCounts counts)
      : corpus_(corpus), source_(source), only_(only), copies_(copies), sink_(sink), counts_(counts) {}

  bool begin(const DocumentInfo& document) override {
    split_ = corpus_.split_of(source_, document.identity);
    if (only_ && *only_ != split_) return false;
    if (copies_ != nullptr && copies_->contains({document.file, document.line})) {
      ++counts_.copies;
      return false;
    }
    document_ = document;
    begun_ = false;
    utf8_.reset();
    return true;
  }
  void text(std::string_view chunk) override {
    if (chunk.empty()) return;
    if (!begun_) sink_.begin(document_, split_);
    begun_ = true;
    counts_.bytes += static_cast<int64_t>(chunk.size());
    utf8_.text(chunk);
    sink_.text(chunk);
  }
  void end() override {
    if (!begun_) {
      ++counts_.empty;
      return;
    }
    ++counts_.documents;
    if (!utf8_.valid()) ++counts_.bad_utf8;
    const bool whole_file = document_.line == 0;
    sink_.end(counts_, whole_file ? CorpusPosition{document_.file + 1, 0} : CorpusPosition{document_.file, document_.line});
  }
  void bad_line(const std::string& where, const std::string& reason) override {
    if (++counts_.bad_lines <= 10) log_warning("{}: bad line left out: {}", where, reason);
  }
  const CorpusCounts& counts() const { return counts_; }

 private:
  const Corpus& corpus_;
  size_t source_;
  std::optional<Split> only_;
  const std::set<std::pair<size_t, int64_t>>* copies_;
  CorpusSink& sink_;
  CorpusCounts counts_;
  DocumentInfo document_;
  Split split_ = Split::kTrain;
  bool begun_ = false;
  Utf8Check utf8_;
};

std::string file_held_out_for_want_of_another(const Source& source, int64_t percent) {
  std::string smallest;
  uint64_t smallest_hash = ~uint64_t{0};
  int64_t text_files = 0;
  for (const SourceFile& file : source.files()) {
    if (file.json_lines) return "";
    if (file.bytes == 0) continue;
    ++text_files;
    const uint64_t hash = xxh3(file.name);
    if (hash % 100 < static_cast<uint64_t>(percent)) return "";
    if (hash < smallest_hash) smallest = file.name, smallest_hash = hash;
  }
  return text_files >= 2 ? smallest : "";
}

}  // namespace

CorpusOptions corpus_options(const recipe::DataOptions& options, const std::filesystem::path& libtorch_folder) {
  CorpusOptions result;
  result.sources = options.source;
  result.source.endings = options.include;
  result.source.jsonl_field = options.jsonl_field;
  result.source.libtorch_folder = libtorch_folder;
  result.held_out_percent = options.held_out_percent;
  result.remove_copies = options.remove_copies;
  return result;
}

Corpus Corpus::open(CorpusOptions options) {
  Corpus corpus;
  corpus.options_ = std::move(options);
  corpus.lazy_ = std::make_shared<LazyCopies>();
  for (const std::string& name : corpus.options_.sources) {
    corpus.sources_.push_back(Source::open(name, corpus.options_.source));
    const int64_t percent = corpus.options_.held_out_percent;
    corpus.also_held_out_.push_back(percent > 0 ? file_held_out_for_want_of_another(corpus.sources_.back(), percent) : "");
  }
  if (corpus.sources_.empty()) {
    throw Error({.code = ExitCode::kData, .what = "the corpus is empty", .expected = "at least one source", .hint = "set data.source"});
  }
  return corpus;
}

Split Corpus::split_of(size_t source, std::string_view identity) const {
  const bool held_out = xxh3(identity) % 100 < static_cast<uint64_t>(options_.held_out_percent) ||
                        (!also_held_out_[source].empty() && identity == also_held_out_[source]);
  return held_out ? Split::kHeldOut : Split::kTrain;
}

std::string Corpus::key(size_t source) const {
  Sha256 hash;
  const auto add = [&](std::string_view text) {
    const uint64_t length = text.size();  // lengths keep "ab","c" apart from "a","bc"
    hash.update(std::as_bytes(std::span(&length, 1)));
    hash.update(std::as_bytes(std::span(text)));
  };
  const auto add_listing = [&](const Source& from) {
    for (const SourceFile& file : from.files()) {
      add(file.name);
      add(fmt::format("{} {} {}", file.bytes, file.modified_ns, file.json_lines));
    }
    add("end of source");
  };
  add("longhaul corpus 1");
  add(options_.source.jsonl_field);
  add(fmt::format("{} {} {}", options_.source.skip_bad_lines, options_.held_out_percent, options_.remove_copies));
  // Which documents of a source are copies depends on the sources before it.
  for (size_t s = options_.remove_copies ? 0 : source; s <= source; ++s) add_listing(sources_[s]);
  return hash.hex();
}

const Corpus::Copies& Corpus::copies() const {
  std::lock_guard lock(lazy_->mutex);
  if (lazy_->found) return lazy_->copies;
  lazy_->copies.of_source.assign(sources_.size(), {});
  Digests seen;
  int64_t total = 0;
  for (const Source& source : sources_) total += source.bytes();
  Progress progress("looking for copies", total, Progress::Unit::kBytes);
  for (size_t s = 0; s < sources_.size(); ++s) {
    CopyFinder finder(lazy_->copies.of_source[s], seen);
    for (size_t f = 0; f < sources_[s].files().size(); ++f) sources_[s].read(f, finder, 0, [&](int64_t n) { progress.advance(n); });
  }
  lazy_->found = true;
  return lazy_->copies;
}

CorpusCounts Corpus::read(size_t source, std::optional<Split> only, CorpusSink& sink, CorpusPosition from, CorpusCounts counts,
                          const std::function<void(int64_t)>& progress) const {
  LONGHAUL_ASSERT(source < sources_.size(), "source {} of {}", source, sources_.size());
  const Source& input = sources_[source];
  Filter filter(*this, source, only, options_.remove_copies ? &copies().of_source[source] : nullptr, sink, counts);
  for (size_t f = 0; f < input.files().size(); ++f) {
    if (f < from.file) {
      if (progress) progress(input.files()[f].bytes);
      continue;
    }
    const SourceFile& file = input.files()[f];
    if (only && !file.json_lines && split_of(source, file.name) != *only) {  // not even opened
      if (progress) progress(file.bytes);
      continue;
    }
    input.read(f, filter, f == from.file ? from.line : 0, progress);
  }
  return filter.counts();
}

void for_each_text(const Corpus& corpus, Split split, const std::function<void(std::string_view)>& text,
                   const std::function<void()>& end_document, const std::function<void(int64_t)>& progress) {
  class Sink final : public CorpusSink {
   public:
    Sink(const std::function<void(std::string_view)>& text, const std::function<void()>& end_document)
        : text_(text), end_document_(end_document) {}
    void begin(const DocumentInfo&, Split) override {}
    void text(std::string_view chunk) override { text_(chunk); }
    void end(const CorpusCounts&, const CorpusPosition&) override {
      if (end_document_) end_document_();
    }

   private:
    const std::function<void(std::string_view)>& text_;
    const std::function<void()>& end_document_;
  };
  Sink sink(text, end_document);
  for (size_t s = 0; s < corpus.sources().size(); ++s) corpus.read(s, split, sink, {}, {}, progress);
}

}  // namespace longhaul::data

#include "data/corpus/corpus.h"

#include <simdjson.h>

#include <algorithm>
#include <mutex>

#include "base/checksum.h"
#include "base/error.h"

namespace longhaul::data {

struct LazySurvey {
  std::mutex mutex;
  std::optional<Survey> survey;
};

namespace {

// Checks whether a text that comes in chunks is UTF-8: the start of an unfinished character waits for the
// next chunk.
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

// Converts a source's documents to the corpus's: it leaves out those that the survey names and empty ones,
// gives the split, cuts and counts.
class Filter final : public DocumentSink {
 public:
  Filter(const Corpus& corpus, size_t source, std::optional<Split> only, CorpusSink& sink,
         CorpusPosition from, CorpusCounts counts)
      : corpus_(corpus),
        source_(source),
        only_(only),
        sink_(sink),
        second_part_only_(from.part == 1),
        counts_(counts) {}

  bool begin(const DocumentInfo& document) override {
    const Survey::Decision decision = corpus_.survey().decision(source_, document.file, document.line);
    using What = Survey::Decision::What;
    if (decision.what == What::kBad) return false;  // bad_line() follows
    if (decision.what == What::kCopy) {
      ++counts_.copies;
      return false;
    }
    document_ = document;
    weight_.reset();
    cut_bytes_ = decision.what == What::kCut ? decision.cut_bytes : 0;
    begin_part(decision.split);
    return cut_bytes_ > 0 || wanted_;
  }
  void text(std::string_view chunk) override {
    if (cut_bytes_ > 0) {
      const std::string_view first =
          chunk.substr(0, static_cast<size_t>(std::min(cut_bytes_, static_cast<int64_t>(chunk.size()))));
      give(first);
      cut_bytes_ -= static_cast<int64_t>(first.size());
      if (cut_bytes_ > 0) return;
      chunk.remove_prefix(first.size());
      end_part({document_.file, std::max<int64_t>(0, document_.line - 1), 1});
      begin_part(Split::kHeldOut);
    }
    give(chunk);
  }
  void weight(float weight) override {
    weight_ = weight;
    if (begun_) sink_.weight(weight);
  }
  void end() override {
    if (!begun_ && wanted_) ++counts_.empty;
    const bool whole_file = document_.line == 0;
    end_part(whole_file ? CorpusPosition{document_.file + 1}
                        : CorpusPosition{document_.file, document_.line});
  }
  void bad_line(const DocumentInfo&, const std::string& where, const std::string&) override {
    if (begun_) {
      throw Error({.code = ExitCode::kData,
                   .what = "a file of the corpus changed while it was read",
                   .where = where,
                   .hint = "start again when nothing writes to it"});
    }
    ++counts_.bad_lines;
  }
  void not_text(size_t file, const std::string&) override {
    ++counts_.not_text;
    counts_.not_text_bytes += corpus_.sources()[source_].files()[file].bytes;
  }
  const CorpusCounts& counts() const { return counts_; }

 private:
  void begin_part(Split split) {
    split_ = split;
    begun_ = false;
    const bool done_before = split == Split::kTrain && second_part_only_;
    wanted_ = (!only_ || *only_ == split) && !done_before;
    if (split == Split::kHeldOut) second_part_only_ = false;
    utf8_.reset();
  }
  void give(std::string_view chunk) {
    if (chunk.empty() || !wanted_) return;
    if (!begun_) {
      sink_.begin(document_, split_);
      if (weight_) sink_.weight(*weight_);
    }
    begun_ = true;
    counts_.bytes += static_cast<int64_t>(chunk.size());
    utf8_.text(chunk);
    sink_.text(chunk);
  }
  void end_part(const CorpusPosition& after) {
    if (!begun_) return;
    begun_ = false;
    ++counts_.documents;
    counts_.cut += after.part;
    if (!utf8_.valid()) ++counts_.bad_utf8;
    sink_.end(counts_, after);
  }

  const Corpus& corpus_;
  size_t source_;
  std::optional<Split> only_;
  CorpusSink& sink_;
  bool second_part_only_;  // for the next document: its first part was read before an interruption
  CorpusCounts counts_;
  DocumentInfo document_;
  Split split_ = Split::kTrain;
  int64_t cut_bytes_ = 0;  // left before the cut; 0: none, or passed
  bool begun_ = false, wanted_ = false;
  std::optional<float> weight_;  // none: the document does not say
  Utf8Check utf8_;
};

}  // namespace

CorpusOptions corpus_options(const recipe::DataOptions& options,
                             const std::filesystem::path& libtorch_folder) {
  CorpusOptions result;
  result.sources = options.source;
  result.validation = options.validation;
  result.source.endings = options.include;
  result.source.jsonl_field = options.jsonl_field;
  result.source.loss_on = options.loss_on;
  result.source.skip_bad_lines = options.skip_bad_lines;
  result.source.keep_binary = options.keep_binary;
  result.source.libtorch_folder = libtorch_folder;
  result.held_out_percent = options.percent_held_out();
  result.remove_copies = options.remove_copies;
  return result;
}

Corpus Corpus::open(CorpusOptions options) {
  Corpus corpus;
  corpus.options_ = std::move(options);
  corpus.lazy_ = std::make_shared<LazySurvey>();
  for (const auto* names : {&corpus.options_.sources, &corpus.options_.validation}) {
    for (const std::string& name : *names)
      corpus.sources_.push_back(Source::open(name, corpus.options_.source));
  }
  if (corpus.sources_.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "the corpus is empty",
                 .expected = "at least one source",
                 .hint = "set data.source"});
  }
  return corpus;
}

const Survey& Corpus::survey() const {
  std::lock_guard lock(lazy_->mutex);
  if (!lazy_->survey) lazy_->survey = Survey::of(sources_, options_);
  return *lazy_->survey;
}

// A document may be a copy of one in an earlier source; without removal of copies, the document that is held
// out because there is no other is chosen in every source.
std::vector<size_t> Corpus::sources_that_decide_about(size_t source) const {
  const size_t trained = options_.sources.size();
  const bool share = options_.held_out_percent > 0 && options_.held_out_percent < 100;
  std::vector<size_t> result;
  for (size_t s = 0; s < sources_.size(); ++s) {
    const bool before = s <= source && options_.remove_copies;
    const bool decides = is_validation(source) ? s >= trained && before
                                               : s >= trained || before || (share && !options_.remove_copies);
    if (s == source || decides) result.push_back(s);
  }
  return result;
}

std::string Corpus::key(size_t source) const {
  Sha256 hash;
  const auto add = [&](std::string_view text) {
    const uint64_t length = text.size();  // lengths keep "ab","c" apart from "a","bc"
    hash.update(std::as_bytes(std::span(&length, 1)));
    hash.update(std::as_bytes(std::span(text)));
  };
  add("longhaul corpus 4");
  add(options_.source.jsonl_field);
  if (const auto loss_on = options_.source.loss_on; loss_on != recipe::LossOn::kAll)
    add(loss_on == recipe::LossOn::kParts ? "loss on parts" : "loss on completion");
  add(fmt::format("{} {} {} {}", options_.source.skip_bad_lines, options_.source.keep_binary,
                  options_.held_out_percent, options_.remove_copies));
  for (const size_t s : sources_that_decide_about(source)) {
    add(fmt::format("{} {}", is_validation(s), s == source));
    add(sources_[s].sample());
    for (const SourceFile& file : sources_[s].files()) {
      add(file.name);
      const char* kind = file.table ? " table" : file.json_array ? " array" : "";
      add(fmt::format("{} {} {}{}", file.bytes, file.modified_ns, file.json_lines, kind));
    }
  }
  return hash.hex();
}

CorpusCounts Corpus::read(size_t source, std::optional<Split> only, CorpusSink& sink, CorpusPosition from,
                          CorpusCounts counts, const std::function<void(int64_t)>& progress) const {
  LONGHAUL_ASSERT(source < sources_.size(), "source {} of {}", source, sources_.size());
  const Source& input = sources_[source];
  Filter filter(*this, source, only, sink, from, counts);
  for (size_t f = 0; f < input.files().size(); ++f) {
    const SourceFile& file = input.files()[f];
    const Survey::Decision decision = survey().decision(source, f, 0);
    const bool other_side =
        only && !file.many() && decision.what == Survey::Decision::What::kGiven && decision.split != *only;
    if (f < from.file || other_side) {  // not even opened
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

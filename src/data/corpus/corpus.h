// Corpus: the sources of a run with the decisions about each document (data/corpus/survey.h): whether it is
// used or left out, and whether it is for training or held out. Everything that reads the corpus (tokenizer
// training, preparation of token shards, the compression baseline) uses it, so that all of them see the same
// split.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus/source.h"
#include "data/corpus/survey.h"
#include "recipe/sections/data_options.h"

namespace longhaul::data {

CorpusOptions corpus_options(const recipe::DataOptions& options,
                             const std::filesystem::path& libtorch_folder);

struct CorpusCounts {
  // used documents; each part of a cut one counts
  int64_t documents = 0;
  int64_t bytes = 0;                                           // bytes of their text
  int64_t cut = 0;                                             // documents used in two parts
  int64_t empty = 0, copies = 0, bad_lines = 0, not_text = 0;  // left out
  int64_t not_text_bytes = 0;                                  // bytes of those files on the disk
  // Used documents that are not valid UTF-8; their bytes are kept as they are.
  int64_t bad_utf8 = 0;
};

// CorpusPosition: the place just after a document, from which an interrupted reader continues.
struct CorpusPosition {
  size_t file = 0;
  int64_t line = 0;  // 0: before the file's first document
  int64_t part = 0;  // 1: the training part of the next document has been read too
};

class CorpusSink {
 public:
  virtual ~CorpusSink() = default;
  virtual void begin(const DocumentInfo& document, Split split) = 0;
  virtual void text(std::string_view chunk) = 0;  // at least once, never empty
  // of the text that follows, in the loss; a document begins with 1
  virtual void weight(float) {}
  // `counts` and `after` describe the pass up to and including this document.
  virtual void end(const CorpusCounts& counts, const CorpusPosition& after) = 0;
};

class Corpus {
 public:
  static Corpus open(CorpusOptions options);

  const std::vector<Source>& sources() const { return sources_; }
  const CorpusOptions& options() const { return options_; }
  bool is_validation(size_t source) const { return source >= options_.sources.size(); }
  // Made by one pass over everything when it is first needed.
  const Survey& survey() const;

  // SHA-256 over everything that determines which documents come in which order: names, sizes and
  // modification times of the files, a sample of their bytes, and the options. The location of the files is
  // not included.
  std::string key(size_t source) const;

  // Reads all documents of one source, or those of one side. Returns the counts; `counts` are those that an
  // interrupted pass had reached.
  CorpusCounts read(size_t source, std::optional<Split> only, CorpusSink& sink, CorpusPosition from = {},
                    CorpusCounts counts = {}, const std::function<void(int64_t)>& progress = {}) const;

 private:
  std::vector<size_t> sources_that_decide_about(size_t source) const;

  CorpusOptions options_;
  std::vector<Source> sources_;  // options.sources, then options.validation
  std::shared_ptr<struct LazySurvey> lazy_;
};

// The text of one side, chunk by chunk, document by document, for tokenizer training and compression.
void for_each_text(const Corpus& corpus, Split split, const std::function<void(std::string_view chunk)>& text,
                   const std::function<void()>& end_document = {},
                   const std::function<void(int64_t)>& progress = {});

}  // namespace longhaul::data

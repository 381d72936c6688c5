// Corpus: the sources of a run with three decisions made per document: is it a copy of an earlier one (left out when asked), is
// it empty (left out), is it trained on or held out. Everything that reads the corpus (tokenizer training, preparation of token
// shards, the compression baseline) goes through here, so all of them see the same split.
//
// Held out: xxh3(identity) % 100 < held_out_percent, where the identity is the file's path relative to the source's root, or
// "path:line" in JSON Lines. A document never changes sides when others are added. When no file of a source with several text
// files would be held out, the one with the smallest hash is, so that small folders can be evaluated too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/source.h"
#include "recipe/data_options.h"

namespace longhaul::data {

enum class Split { kTrain, kHeldOut };

struct CorpusOptions {
  std::vector<std::string> sources;
  SourceOptions source;
  int64_t held_out_percent = 1;
  bool remove_copies = true;  // keeps about 40 bytes per document in memory while it looks
};
CorpusOptions corpus_options(const recipe::DataOptions& options, const std::filesystem::path& libtorch_folder);

struct CorpusCounts {
  int64_t documents = 0;                         // given out
  int64_t bytes = 0;                             // of their text
  int64_t empty = 0, copies = 0, bad_lines = 0;  // left out
  int64_t bad_utf8 = 0;                          // documents given out that are not valid UTF-8; their bytes are kept as they are
};

// The place just after a document: where a reader that was interrupted goes on.
struct CorpusPosition {
  size_t file = 0;
  int64_t line = 0;  // 0: before the file's first document
};

class CorpusSink {
 public:
  virtual ~CorpusSink() = default;
  virtual void begin(const DocumentInfo& document, Split split) = 0;
  virtual void text(std::string_view chunk) = 0;  // at least once, never empty
  // `counts` and `after` describe the pass up to and including this document.
  virtual void end(const CorpusCounts& counts, const CorpusPosition& after) = 0;
};

class Corpus {
 public:
  static Corpus open(CorpusOptions options);

  const std::vector<Source>& sources() const { return sources_; }
  const CorpusOptions& options() const { return options_; }
  Split split_of(size_t source, std::string_view identity) const;

  // SHA-256 over all that decides which documents come out in which order: names, sizes and modification times of the files, and
  // the options. Does not read the files.
  std::string key(size_t source) const;

  // All documents of one source, or those of one side. Returns the counts; `counts` are what an interrupted pass had reached.
  CorpusCounts read(size_t source, std::optional<Split> only, CorpusSink& sink, CorpusPosition from = {}, CorpusCounts counts = {},
                    const std::function<void(int64_t)>& progress = {}) const;

 private:
  using DocumentPlace = std::pair<size_t, int64_t>;  // file, line
  struct Copies {
    std::vector<std::set<DocumentPlace>> of_source;
  };
  const Copies& copies() const;  // found by one pass over everything when first asked for

  CorpusOptions options_;
  std::vector<Source> sources_;
  std::vector<std::string> also_held_out_;  // per source: the file held out for want of another
  std::shared_ptr<struct LazyCopies> lazy_;
  friend struct LazyCopies;
};

// Text of one side, chunk by chunk, document after document: what tokenizer training and compression need.
void for_each_text(const Corpus& corpus, Split split, const std::function<void(std::string_view chunk)>& text,
                   const std::function<void()>& end_document = {}, const std::function<void(int64_t)>& progress = {});

}  // namespace longhaul::data

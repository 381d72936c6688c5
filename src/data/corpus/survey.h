// Survey: the decisions about every document of a corpus, made before any is used, in one pass that reads and
// hashes them all:
//
// - not text: the file is left out (data/corpus/text_check.h), unless it is to be kept;
// - bad: a line of JSON Lines that is left out, where the options say so;
// - copy: its bytes equal those of an earlier document of this source or an earlier one; also, a document
//   that is in a validation source is never trained on, whatever the options are;
// - held out: the high 64 bits of the text's XXH3-128, modulo 100, are below held_out_percent. Only the text
//   decides, not the file's name, place, line or compression, so documents do not change sides with these,
//   and equal texts are on the same side. If this holds out none of a source's documents, the one with the
//   smallest hash is held out, among those that are no longer than their mean;
// - cut: the source has one document. Its last held_out_percent are held out (at least 8 KiB, or a tenth of a
//   short one; under 1,000 bytes nothing), from a line end on if there is one nearby.
//
// It needs about 50 bytes of memory per document during the pass, and afterwards 16 for each that is held out
// or left out. If no such decision is possible (no share held out, copies kept), only the beginning of each
// text file is read. Immutable afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus/source.h"

namespace longhaul::data {

enum class Split { kTrain, kHeldOut };

struct CorpusOptions {
  std::vector<std::string> sources;
  std::vector<std::string> validation;  // sources that are held out completely, and not cut
  SourceOptions source;
  int64_t held_out_percent = 1;  // percentage of `sources`
  bool remove_copies = true;
};

struct LeftOutFile {
  std::string name;  // the text of a path
  int64_t bytes = 0;
  std::string reason;
};

class Survey {
 public:
  // `sources` are those of options.sources, followed by those of options.validation.
  static Survey of(const std::vector<Source>& sources, const CorpusOptions& options);

  struct Decision {
    enum class What { kGiven, kCopy, kBad, kCut } what = What::kGiven;
    Split split = Split::kTrain;
    int64_t cut_bytes = 0;  // for kCut: bytes of training text before the held-out part
  };
  Decision decision(size_t source, size_t file, int64_t line) const;
  const std::vector<LeftOutFile>& not_text(size_t source) const { return sources_[source].not_text; }

 private:
  using Place = std::pair<size_t, int64_t>;  // file, line
  struct OfSource {
    Split otherwise = Split::kTrain;  // side of documents that are not listed
    std::vector<LeftOutFile> not_text;
    std::vector<Place> bad, copies, held_out;  // ascending
    std::vector<std::pair<Place, int64_t>> cuts;
  };
  std::vector<OfSource> sources_;
  friend class Surveyor;
};

}  // namespace longhaul::data

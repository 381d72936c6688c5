// Survey: what is decided about every document of a corpus before any is given out, in one pass that reads and hashes them all:
//
// - not text: the file is left out (data/corpus/text_check.h), unless it is to be kept;
// - bad: a line of JSON Lines that is left out, where the options say so;
// - copy: its bytes equal an earlier document's, of this source or one before it; and a document that is in a validation source is
//   never trained on, whatever else is asked for;
// - held out: the high 64 bits of the text's XXH3-128, modulo 100, are below held_out_percent. The text decides and nothing else: not the
//   file's name, place, line or compression, so documents change sides with none of them, and equal texts lie on the same side.
//   When that holds out none of a source's documents, the one with the smallest hash is, of those no longer than their mean;
// - cut: the source has one document. Its last held_out_percent are held out (at least 8 KiB, or a tenth of a short one; under 1,000
//   bytes nothing), from a line end on where there is one about there.
//
// Memory: about 50 bytes per document during the pass, 16 for each that is held out or left out after it. Where nothing of this can
// be asked for (no share held out, copies kept), only the beginning of each text file is read. Immutable afterwards.
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
  std::vector<std::string> validation;  // sources of which all is held out and nothing is cut
  SourceOptions source;
  int64_t held_out_percent = 1;  // of `sources`
  bool remove_copies = true;
};

struct LeftOutFile {
  std::string name;  // text of a path
  int64_t bytes = 0;
  std::string reason;
};

class Survey {
 public:
  // `sources` are those of options.sources, then those of options.validation.
  static Survey of(const std::vector<Source>& sources, const CorpusOptions& options);

  struct Decision {
    enum class What { kGiven, kCopy, kBad, kCut } what = What::kGiven;
    Split split = Split::kTrain;
    int64_t cut_bytes = 0;  // kCut: training text before the held-out part
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

// CorpusTexts: one side of the corpus, from which texts are pulled one by one (tokenizer training does that).
// A background worker reads ahead; at most about 16 MiB wait. A text is a document; documents of more than 4
// MiB come in pieces cut at line ends. next() throws errors of reading. For one thread.
#pragma once

#include <memory>
#include <string>

#include "data/corpus/corpus.h"

namespace longhaul::data {

class CorpusTexts {
 public:
  CorpusTexts(const Corpus& corpus, Split split);  // the corpus must outlive it
  ~CorpusTexts();                                  // may be called before the end
  CorpusTexts(const CorpusTexts&) = delete;
  CorpusTexts& operator=(const CorpusTexts&) = delete;

  bool next(std::string& text);  // false: there are no more

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace longhaul::data

// GrammarCache: the grammars that requests to one model ask for, by a name of their own. What was found of a
// grammar's states stays for the next request with the same one. Thread-safe.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "grammar/token_grammar.h"

namespace longhaul::grammar {

class GrammarCache {
 public:
  static constexpr size_t kKept = 16;
  static constexpr size_t kMostStates = 20'000;  // a grammar with more is not kept: some hundred bytes each

  explicit GrammarCache(data::Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {}

  // `make` is called where the name is new; what it throws goes to the caller.
  std::shared_ptr<TokenGrammar> get(const std::string& name, const std::function<Grammar()>& make);

 private:
  std::mutex mutex_;
  data::Tokenizer tokenizer_;
  std::shared_ptr<const TokenBytes> tokens_;  // made for the first grammar: it takes a while
  std::list<std::pair<std::string, std::shared_ptr<TokenGrammar>>> kept_;  // the last one used first
};

}  // namespace longhaul::grammar

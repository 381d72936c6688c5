// ModelShelf: the models of a server by name. Each is opened when it is first asked for, by the thread that
// computes; others wait for it in text(). A run folder is opened at its newest checkpoint.
#pragma once

#include <condition_variable>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/open_model.h"
#include "data/tokenizer/tokenizer.h"
#include "generate/engine.h"
#include "grammar/grammar_cache.h"
#include "openai/tools/tool_form.h"

namespace longhaul::serve {

// The ids of a conversation, as the model's own template writes it.
using ChatEncoder = std::function<std::vector<int32_t>(
    const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools,
    const nlohmann::ordered_json& variables, bool add_generation_prompt, bool continue_final_message)>;

// What a model's texts need of it; constant and thread-safe.
struct ModelText {
  data::Tokenizer tokenizer;
  ChatEncoder chat;  // empty: the model has no chat template
  // The token with which the template ends the assistant's turn.
  std::optional<int32_t> end_of_turn = std::nullopt;
  openai::ToolForm tool_form = openai::ToolForm::kNone;  // of the template
  std::shared_ptr<grammar::GrammarCache> grammars;       // what texts were held to before
  int64_t limit_of_tokens = 0;                           // of prompt and text together
  int64_t step = 0;                                      // that it was trained for
  std::string fingerprint;                               // of the program and the checkpoint
  bool embeds = true;  // /v1/embeddings: where one process has the whole model
};

struct LoadedModel {
  checkpoint::OpenModel model;
  std::shared_ptr<const ModelText> text;
  std::unique_ptr<generate::Engine> engine;
};

class ModelShelf {
 public:
  struct Entry {
    std::string name;
    std::filesystem::path path;
    std::string base = "";  // the model beside which this adapter stands; empty: it is a model of its own
  };
  using Open = std::function<LoadedModel(const Entry&)>;
  ModelShelf(std::vector<Entry> entries, Open open);

  const std::vector<Entry>& entries() const { return entries_; }
  bool has(const std::string& name) const;
  // The adapters of a model, in their order, and the number that its engine has for a name: 0 for the model.
  std::vector<Entry> adapters_of(const std::string& base) const;
  int64_t adapter_number(const std::string& name) const;

  // Any other thread: waits until the model is open. Where it is not, `ask` must have the computing thread
  // call open(). Rethrows why it cannot be opened.
  std::shared_ptr<const ModelText> text(const std::string& name, const std::function<void()>& ask);
  // The computing thread: opens the model if it is not open; for an adapter its base, with all of its
  // adapters. An error stays with it: the next who asks tries again.
  LoadedModel* open(const std::string& name);
  // Closes the model and opens it again, at what is its newest checkpoint by now. Nobody may use its engine.
  LoadedModel* open_anew(const std::string& name);
  std::map<std::string, LoadedModel>& loaded() { return loaded_; }
  void give_up();  // text() throws from now on: the computing thread ends

 private:
  const Entry& entry_of(const std::string& name) const;

  std::vector<Entry> entries_;
  Open open_;
  std::map<std::string, LoadedModel> loaded_;  // of the computing thread
  std::mutex mutex_;                           // protects the rest
  std::condition_variable opened_;
  std::map<std::string, std::shared_ptr<const ModelText>> texts_;
  std::map<std::string, std::exception_ptr> errors_;
  std::map<std::string, int64_t> tries_;  // how often it was tried to open
  bool given_up_ = false;
};

}  // namespace longhaul::serve

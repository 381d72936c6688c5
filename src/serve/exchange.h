// Exchange: one request for texts, from its prompts to the last byte of its answer. All functions are called
// by the thread that computes. The answer goes out whole, or as server-sent events while the texts are
// written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/net/http_responder.h"
#include "generate/engine.h"
#include "openai/api_error.h"
#include "openai/request.h"
#include "serve/choice_writer.h"
#include "serve/model_shelf.h"
#include "serve/serve_metrics.h"

namespace longhaul::serve {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  struct Begun {
    openai::CompletionRequest request;
    std::vector<std::vector<int64_t>> prompts;  // ids
    std::string model;
    std::shared_ptr<const ModelText> text;
    std::shared_ptr<grammar::TokenGrammar> grammar;  // that the texts are held to; null: none
    std::shared_ptr<HttpResponder> responder;
    uint64_t seed = 0;
    std::string id;
    double created_s = 0, began_s = 0;  // Unix time; of the monotonic clock
    int64_t default_tokens = 0;         // for requests that do not say how many
  };
  Exchange(Begun begun, ServeMetrics& metrics);

  const std::string& model() const { return begun_.model; }
  const std::string& id() const { return begun_.id; }
  int64_t choices() const { return std::ssize(writers_); }
  // Hands the prompts to the engine; what it refuses is answered with an error.
  // adapter: of the engine's model, 0 for none.
  void submit(generate::Engine& engine, int64_t adapter);
  void leave(generate::Engine& engine);  // the client has left
  void cancel(generate::Engine& engine);
  // Ends it with an error, whatever was said so far.
  void fail(generate::Engine& engine, const openai::ApiError& error);
  bool ended() const { return left_ == 0; }
  // an error was answered, and other texts of it still go on
  bool failed() const { return closed_ && left_ > 0; }
  double age_s(double now_s) const { return now_s - begun_.began_s; }

 private:
  generate::GenerateSettings settings(size_t prompt) const;
  bool on_token(size_t choice, const generate::Drawn& drawn);
  void on_end(size_t choice, generate::Generation generation);
  std::string echoed(size_t choice) const;  // the text of its prompt
  void say(const std::string& event);
  void finish();
  void refuse(const openai::ApiError& error);

  Begun begun_;
  ServeMetrics& metrics_;
  openai::AnswerHead head_;
  std::vector<ChoiceWriter> writers_;
  std::vector<openai::Choice> whole_;  // where the answer goes out whole
  openai::Usage usage_;
  std::vector<int64_t> numbers_;  // of the engine
  int64_t left_;                  // choices that have not ended
  bool has_first_token_ = false, is_streaming_ = false, closed_ = false;
};

}  // namespace longhaul::serve

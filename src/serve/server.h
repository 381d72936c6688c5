// Server: trained models behind OpenAI's HTTP interface (docs/guides/serve.md): /v1/completions,
// /v1/chat/completions, /v1/embeddings, /v1/models, /tokenize, /detokenize, /health, /metrics.
//
//   Server server(options, open);
//   say(server.url());
//   server.run();                    // until a signal asks to stop; then what has begun is finished
//
// The thread that calls run() computes: it opens models, steps their engines and makes answers of their
// tokens. The HTTP server's threads read requests, render conversations and make ids of texts, and hand over
// what is left to do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/net/http_server.h"
#include "openai/request.h"
#include "serve/exchange.h"
#include "serve/model_shelf.h"
#include "serve/serve_metrics.h"

namespace longhaul::serve {

struct ServeOptions {
  HttpServerOptions http;
  int64_t most_waiting = 256;      // requests that wait for their first pass; others are refused (429)
  int64_t default_tokens = 4096;   // of a text whose request does not say how many
  double longest_request_s = 600;  // then it is ended with an error
  double drain_s = 60;             // after a signal to stop, for requests that have begun
  // Whether a model that is open has a newer checkpoint by now; asked every follow_s seconds. Then new
  // requests wait until those of that model have ended, and it is opened anew. Empty: models stay as they
  // were opened.
  std::function<bool(const ModelShelf::Entry&, const LoadedModel&)> has_newer = {};
  double follow_s = 10;
};

class Server {
 public:
  // kCommunication: it cannot listen.
  Server(ServeOptions options, std::vector<ModelShelf::Entry> models, ModelShelf::Open open);
  ~Server();
  std::string url() const;
  uint16_t port() const;
  // Opens the first model, and serves until stop_signal().
  void run();
  // Any thread: run() returns as after a signal.
  void stop();

 private:
  using Task = std::function<void()>;  // of the thread that computes
  using Responder = std::shared_ptr<HttpResponder>;

  void answer(const HttpRequest& request, const Responder& responder);
  void answer_text(const HttpRequest& request, const Responder& responder, bool chat);
  std::string name_of(const std::string& asked) const;
  std::shared_ptr<const ModelText> text_of(const std::string& name);
  std::vector<std::vector<int64_t>> prompts_of(const openai::CompletionRequest& request,
                                               const ModelText& text) const;
  HttpReply models() const;
  HttpReply health() const;
  HttpReply tokenize(const HttpRequest& request);
  HttpReply detokenize(const HttpRequest& request);
  void answer_embeddings(const HttpRequest& request, const Responder& responder);

  void post(Task task);
  bool run_tasks();
  void wait_for_work();
  void begin(const std::shared_ptr<Exchange>& exchange, const std::string& id, const Responder& responder);
  bool step_engines();
  void sweep();                                   // ends what has failed or takes too long
  void follow();                                  // opens models with newer checkpoints anew
  bool is_asked(const std::string& model) const;  // a request for it has not ended
  HttpReply metrics(bool open_metrics);
  void leave_all();

  ServeOptions options_;
  ModelShelf shelf_;
  ServeMetrics metrics_;
  double began_s_;
  std::map<std::string, std::shared_ptr<Exchange>> exchanges_;  // by id; of the thread that computes
  struct Held {
    std::shared_ptr<Exchange> exchange;
    std::string id;
    Responder responder;
  };
  std::map<std::string, std::vector<Held>> held_;  // by model: requests that wait until it is opened anew
  double looked_s_ = 0;                            // for newer checkpoints
  std::mutex mutex_;                               // protects the next two
  std::condition_variable has_tasks_;
  std::deque<Task> tasks_;
  std::atomic<bool> stopping_{false}, drains_{false};
  std::atomic<uint64_t> requests_{0};
  std::unique_ptr<HttpServer> http_;  // last: its threads use all above
};

}  // namespace longhaul::serve

#include "bench/models/serve.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/net/http.h"
#include "base/random.h"
#include "base/statistics.h"
#include "base/threads/worker.h"
#include "recipe/load.h"
#include "serve/server.h"

namespace longhaul::bench {
namespace {

Timing timing_of_runs(const std::vector<double>& milliseconds) {
  return {median(milliseconds), *std::ranges::min_element(milliseconds),
          *std::ranges::max_element(milliseconds), std::ssize(milliseconds)};
}

serve::LoadedModel random_model(const ServeRequest& request, const recipe::ModelConfig& config) {
  serve::LoadedModel loaded;
  loaded.model.decoder = std::make_unique<model::Decoder>(config, Precision::named(request.dtype),
                                                          request.device, model::Use::kInference);
  loaded.model.decoder->parameters().initialise(request.seed);
  const int64_t bytes = int64_t{1} << 30;
  loaded.engine = std::make_unique<generate::Engine>(*loaded.model.decoder,
                                                     generate::EngineOptions{.sequences = request.clients,
                                                                             .prompts_tokens = 512,
                                                                             .bytes = bytes,
                                                                             .prefix_bytes = bytes / 4,
                                                                             .keeps_prompts = true});
  loaded.text =
      std::make_shared<serve::ModelText>(serve::ModelText{.tokenizer = data::Tokenizer::bytes(),
                                                          .chat = {},
                                                          .limit_of_tokens = loaded.engine->limit_of_tokens(),
                                                          .step = 0,
                                                          .fingerprint = "bench"});
  return loaded;
}

// Asks the server as its clients do.
class Clients {
 public:
  Clients(const ServeRequest& request, const serve::Server& server)
      : request_(request), address_(http_address(server.url())) {
    address_.path = "/v1/completions";
    for (int64_t i = 0; i < request.clients; ++i)
      workers_.push_back(std::make_unique<Worker>("bench client"));
  }

  void run(Result& result) {
    std::vector<double> together, alone, first, again;
    for (int64_t run = 0; run <= request_.runs; ++run) {
      const double all_ms = ask_together(4 * run), one_ms = ask_alone(4 * run + 1);
      const Stopwatch watch;
      ask(4 * run + 2, 0, 1);
      const double first_ms = watch.milliseconds();
      ask(4 * run + 2, 0, 1);
      if (run == 0) continue;
      together.push_back(all_ms);
      alone.push_back(one_ms);
      first.push_back(first_ms);
      again.push_back(watch.milliseconds() - first_ms);
    }
    bool same = true;
    for (int64_t i = 0; i < request_.alone; ++i)
      same = same && ask(4 * request_.runs, i, request_.tokens) == texts_[static_cast<size_t>(i)];
    result.error = same ? -1 : 1;
    result.passes = {{.name = "together", .time = timing_of_runs(together)},
                     {.name = "one_client", .time = timing_of_runs(alone)}};
    const auto rate = [&](int64_t texts, double milliseconds) {
      return static_cast<double>(texts * request_.tokens) / (milliseconds * 1e-3);
    };
    const double of_all = rate(request_.clients, median(together)),
                 of_one = rate(request_.alone, median(alone));
    result.figures = {{"tokens_per_second_together", of_all},
                      {"tokens_per_second_one_client", of_one},
                      {"ratio", of_all / of_one},
                      {"first_token_ms", median(first)},
                      {"cached_first_token_ms", median(again)}};
  }

 private:
  // Text `number` of a run, whose prompts no other run has.
  std::string ask(int64_t run, int64_t number, int64_t tokens) const {
    const RandomStream random(request_.seed, "bench/serve/prompt");
    std::string prompt(static_cast<size_t>(request_.prompt), ' ');
    const auto place = static_cast<uint64_t>(run * request_.clients + number) * prompt.size();
    for (size_t i = 0; i < prompt.size(); ++i)
      prompt[i] = static_cast<char>('a' + random.below(place + i, 26));
    const nlohmann::json body = {
        {"prompt", prompt}, {"max_tokens", tokens}, {"seed", number}, {"ignore_eos", true}};
    const HttpAnswer answer = http_post(address_, body.dump(), "application/json", 600);
    if (answer.status == 200) return nlohmann::json::parse(answer.body)["choices"][0]["text"];
    throw Error({.code = ExitCode::kCommunication,
                 .what = "the server refused a request",
                 .expected = "status 200",
                 .found = answer.body});
  }

  double ask_together(int64_t run) {
    const Stopwatch watch;
    texts_.assign(workers_.size(), "");
    for (size_t i = 0; i < workers_.size(); ++i)
      workers_[i]->post([this, run, i] { texts_[i] = ask(run, static_cast<int64_t>(i), request_.tokens); });
    for (const auto& worker : workers_) worker->wait();
    return watch.milliseconds();
  }
  double ask_alone(int64_t run) const {
    const Stopwatch watch;
    for (int64_t i = 0; i < request_.alone; ++i) ask(run, i, request_.tokens);
    return watch.milliseconds();
  }

  const ServeRequest& request_;
  HttpAddress address_;
  std::vector<std::string> texts_;
  std::vector<std::unique_ptr<Worker>> workers_;
};

}  // namespace

Result bench_serve(const ServeRequest& request) {
  const DeviceScope scope(request.device);
  const recipe::ModelConfig config =
      recipe::load_defaults({"model.preset=" + request.preset, "train.dtype=" + request.dtype}).recipe.model;
  serve::Server server({.http = {.longest_body = 1 << 20}}, {{request.preset, request.preset}},
                       [&](const serve::ModelShelf::Entry&) { return random_model(request, config); });
  Result result{.name = "serve",
                .shape = fmt::format("{}, {} clients x {} after {}", request.preset, request.clients,
                                     request.tokens, request.prompt),
                .dtype = request.dtype};
  // The server has this thread and its compute threads; those who ask have another.
  Worker asking("bench clients");
  asking.post([&] {
    const auto stop = [&](void*) { server.stop(); };
    const std::unique_ptr<void, decltype(stop)> at_the_end(&server, stop);
    Clients(request, server).run(result);
  });
  server.run();
  asking.wait();
  return result;
}

}  // namespace longhaul::bench

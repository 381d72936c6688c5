#include "bench/serving/serve.h"

#include "base/clock.h"
#include "base/statistics.h"
#include "base/threads/worker.h"
#include "bench/serving/served_model.h"

namespace longhaul::bench {
namespace {

// Asks the server as its clients do.
class Clients {
 public:
  Clients(const ServeRequest& request, const serve::Server& server)
      : request_(request), address_(completions_of(server)) {
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
    return text_for(address_,
                    {{"prompt", random_letters(request_, run * request_.clients + number, request_.prompt)},
                     {"max_tokens", tokens},
                     {"seed", number},
                     {"ignore_eos", true}});
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
  Result result{.name = "serve",
                .shape = fmt::format("{}, {} clients x {} after {}", request.preset, request.clients,
                                     request.tokens, request.prompt),
                .dtype = request.dtype};
  with_server(request, [&](const serve::Server& server) { Clients(request, server).run(result); });
  return result;
}

}  // namespace longhaul::bench

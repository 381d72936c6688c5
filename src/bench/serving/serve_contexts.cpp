// Long prompts: what their reading costs the second time, and what their length costs each new token.
#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/statistics.h"
#include "bench/serving/served_model.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kShortContext = 1024, kQuestion = 64;

// Asks for so many tokens, and says how long it took.
std::string timed_text(const HttpAddress& address, const std::string& prompt, int64_t tokens,
                       double& milliseconds) {
  const Stopwatch watch;
  const std::string text =
      text_for(address, {{"prompt", prompt}, {"max_tokens", tokens}, {"seed", 1}, {"ignore_eos", true}});
  milliseconds = watch.milliseconds();
  return text;
}

// Time for the tokens behind the first one, of a prompt that the cache has: it is asked for once before,
// since another prompt may have driven it out. `text` is that of the first call, and "?" once a later one
// gave another. Error 1 (kCheckFailed) where the machine was too busy to tell.
double time_of_tokens(const HttpAddress& address, const std::string& prompt, int64_t tokens,
                      std::string& text) {
  double first_ms = 0, all_ms = 0;
  timed_text(address, prompt, 1, first_ms);
  timed_text(address, prompt, 1, first_ms);
  const std::string found = timed_text(address, prompt, tokens + 1, all_ms);
  if (text.empty()) text = found;
  if (text != found) text = "?";
  if (all_ms > first_ms) return all_ms - first_ms;
  throw Error({.code = ExitCode::kCheckFailed,
               .what = "the time of new tokens is lost in that of the prompt",
               .expected = fmt::format("more than {:.1f} ms, which one token takes", first_ms),
               .found = fmt::format("{:.1f} ms for {}", all_ms, tokens + 1),
               .where = "bench serve --context",
               .hint = fmt::format("--tokens {}, on a machine that does nothing else", 8 * tokens)});
}

}  // namespace

Result bench_serve_turns(const ServeRequest& request, int64_t turn_tokens) {
  const DeviceScope scope(request.device);
  Result result{.name = "serve_turns",
                .shape = fmt::format("{}, second turn after {}", request.preset, turn_tokens),
                .dtype = request.dtype};
  with_server(request, [&](const serve::Server& server) {
    const HttpAddress address = completions_of(server);
    std::vector<double> first, second;
    bool same = true;
    for (int64_t run = 0; run <= request.runs; ++run) {
      const std::string prompt = random_letters(request, run, turn_tokens);
      double first_ms = 0, answer_ms = 0, second_ms = 0, again_ms = 0;
      timed_text(address, prompt, 1, first_ms);
      const std::string answer = timed_text(address, prompt, request.tokens, answer_ms);
      const std::string both = prompt + answer + random_letters(request, run + 1000, kQuestion);
      const std::string token = timed_text(address, both, 1, second_ms);
      same = same && token == timed_text(address, both, 1, again_ms);
      if (run == 0) continue;
      first.push_back(first_ms);
      second.push_back(second_ms);
    }
    result.error = same ? -1 : 1;
    result.passes = {{.name = "first_turn", .time = timing_of_runs(first)},
                     {.name = "second_turn", .time = timing_of_runs(second)}};
    result.figures = {{"first_turn_ms", median(first)},
                      {"second_turn_ms", median(second)},
                      {"second_of_first", median(second) / median(first)}};
  });
  return result;
}

Result bench_serve_contexts(const ServeRequest& request, int64_t context) {
  const DeviceScope scope(request.device);
  Result result{.name = "serve_contexts",
                .shape = fmt::format("{}, {} tokens after {} and after {}", request.preset, request.tokens,
                                     kShortContext, context),
                .dtype = request.dtype};
  with_server(request, [&](const serve::Server& server) {
    const HttpAddress address = completions_of(server);
    const std::string shorter = random_letters(request, 1, kShortContext),
                      longer = random_letters(request, 2, context);
    std::string short_text, long_text;
    std::vector<double> after_short, after_long;
    for (int64_t run = 0; run <= request.runs; ++run) {
      const double short_ms = time_of_tokens(address, shorter, request.tokens, short_text),
                   long_ms = time_of_tokens(address, longer, request.tokens, long_text);
      if (run == 0) continue;
      after_short.push_back(short_ms);
      after_long.push_back(long_ms);
    }
    result.error = short_text != "?" && long_text != "?" ? -1 : 1;
    result.passes = {{.name = "short", .time = timing_of_runs(after_short)},
                     {.name = "long", .time = timing_of_runs(after_long)}};
    const auto rate = [&](const std::vector<double>& milliseconds) {
      return static_cast<double>(request.tokens) / (median(milliseconds) * 1e-3);
    };
    result.figures = {{"tokens_per_second_short", rate(after_short)},
                      {"tokens_per_second_long", rate(after_long)},
                      {"long_of_short", rate(after_long) / rate(after_short)}};
  });
  return result;
}

}  // namespace longhaul::bench

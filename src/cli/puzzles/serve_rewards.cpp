// `longhaul puzzles serve-rewards`: the verifiers over HTTP, for trainers that are not ours.
#include <fmt/format.h>

#include "base/log.h"
#include "base/net/http_server.h"
#include "base/process/signals.h"
#include "base/progress.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "cli/puzzles/verbs.h"
#include "cli/secret_file.h"
#include "puzzles/rewards/reward_service.h"

namespace longhaul::cli {
namespace {

constexpr size_t kLongestRequest = size_t{64} << 20;
constexpr double kFinish_s = 30;  // for what was asked before the end

struct ServeArguments {
  std::string listen = "127.0.0.1", token_file, score = "accuracy";
  std::vector<std::string> names;
  int64_t port = 8377, threads = 0;
  double every_s = 10;
  bool think_is_open = false;
};

HttpServerOptions server_options(const ServeArguments& arguments) {
  return {.host = arguments.listen,
          .port = static_cast<uint16_t>(arguments.port),
          .names = arguments.names,
          .token = token_in(arguments.token_file),
          .longest_body = kLongestRequest,
          .threads = static_cast<size_t>(arguments.threads > 0 ? arguments.threads : usable_cores()),
          .port_option = "--port"};
}

// "1,024 answers in 8 requests, 412 accepted, 900 in the strict format; kukurasu 200 of 512, sudoku 212 of
// 512"
std::string news_since(const puzzles::RewardCounts& before, const puzzles::RewardCounts& now) {
  std::vector<std::string> tasks;
  for (const auto& [key, tally] : now.of_task) {
    const auto found = before.of_task.find(key);
    const puzzles::RewardTally old = found == before.of_task.end() ? puzzles::RewardTally{} : found->second;
    if (tally.answers > old.answers)
      tasks.push_back(fmt::format("{} {} of {}", key, count_text(tally.accepted - old.accepted),
                                  count_text(tally.answers - old.answers)));
  }
  const int64_t refused = now.refused - before.refused;
  return fmt::format(
      "{} in {}, {} accepted, {} in the strict format{}{}{}",
      counted(now.all.answers - before.all.answers, "answer"),
      counted(now.requests - before.requests, "request"), count_text(now.all.accepted - before.all.accepted),
      count_text(now.all.strict_format - before.all.strict_format), tasks.empty() ? "" : "; ",
      fmt::join(tasks, ", "), refused > 0 ? fmt::format("; {} refused", counted(refused, "request")) : "");
}

ExitCode serve_rewards(const ServeArguments& arguments) {
  puzzles::RewardService service(
      {.needs_format = arguments.score == "format-and-accuracy", .think_is_open = arguments.think_is_open});
  HttpServer server(server_options(arguments),
                    [&](const HttpRequest& request) { return service.answer(request); });
  say(stdout, fmt::format("{0}verify   {0}tasks   {0}health   Ctrl-C ends it\n", server.url()));
  puzzles::RewardCounts told;
  while (pause_unless_stopped(arguments.every_s)) {
    const puzzles::RewardCounts now = service.counts();
    if (now.requests == told.requests) continue;
    log_info("{}", news_since(told, now));
    told = now;
  }
  server.finish(kFinish_s);
  say(stdout, fmt::format("ended: {}\n", news_since({}, service.counts())));
  return ExitCode::kDone;
}

}  // namespace

void add_puzzles_serve_rewards(Command& group) {
  auto arguments = std::make_shared<ServeArguments>();
  Command serve = group.add(
      "serve-rewards", "the verifiers over HTTP, for trainers such as verl and TRL (docs/puzzles.md)",
      {{"for this machine", "puzzles serve-rewards"},
       {"for a cluster, with the reward of SynLogic",
        "puzzles serve-rewards --listen 0.0.0.0 --score format-and-accuracy"},
       {"for who knows a token, at another port", "puzzles serve-rewards --port 9000 --token-file ~/token"}});
  serve.option("--port", arguments->port, "to listen at; 0: any that is free")
      .at_least(0)
      .at_most(65535)
      .default_shown();
  serve
      .option("--listen", arguments->listen,
              "address to listen at: 0.0.0.0 for every network of this machine")
      .default_shown();
  serve
      .option("--name", arguments->names,
              "another name by which it may be called (a proxy's, a service's); repeat for more")
      .one_each();
  serve.option("--token-file", arguments->token_file,
               "file with a token that whoever asks must send as a bearer token");
  serve
      .option("--score", arguments->score,
              "what is rewarded with 1: an accepted answer, or one in the strict format as well (the four "
              "tags, each once)")
      .one_of({"accuracy", "format-and-accuracy"})
      .default_shown();
  serve.flag("--think-is-open", arguments->think_is_open,
             "responses begin behind an opening think tag that the chat template has");
  serve.option("--threads", arguments->threads, "requests judged at the same time (default: one a core)")
      .at_least(1)
      .at_most(1024);
  serve.option("--every", arguments->every_s, "seconds between lines that tell what was judged")
      .above(0)
      .default_shown();
  serve.on_run([arguments] {
    install_signal_handlers(false);
    return serve_rewards(*arguments);
  });
}

}  // namespace longhaul::cli

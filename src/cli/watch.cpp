// `longhaul watch RUN… [--serve [HOST:]PORT]`
#include <fmt/format.h>

#include <cstdlib>
#include <memory>

#include "base/clock.h"
#include "base/files/file.h"
#include "base/net/http.h"
#include "base/net/http_server.h"
#include "base/process/signals.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/command.h"
#include "cli/output.h"
#include "cli/secret_file.h"
#include "observe/watch/alert_sender.h"
#include "observe/watch/live_site.h"
#include "observe/watch/watch_screen.h"

namespace longhaul::cli {
namespace {

constexpr double kStatusIsOld_s = 15, kSecondLook_s = 2.5;  // a driver writes each second

struct WatchArguments {
  std::vector<std::string> runs, names;
  std::string serve, token_file, webhook, webhook_file, command;
  double every_s = 1;
  bool once = false, json = false, metrics_by_rank = false;
};

// The address of a webhook is a password as a rule: whoever has it may post there. So it need not stand in a
// command line, which all users of a machine see, and one that is wrong is not said where it came from
// elsewhere.
std::string webhook_of(const WatchArguments& arguments) {
  if (!arguments.webhook.empty()) return arguments.webhook;
  const char* const variable = std::getenv("LONGHAUL_WEBHOOK");
  const std::string where = arguments.webhook_file.empty() ? "LONGHAUL_WEBHOOK" : arguments.webhook_file;
  const std::string hint = "chmod 600 " + shell_quoted(arguments.webhook_file);
  std::string address = !arguments.webhook_file.empty()
                            ? secret_in(arguments.webhook_file, "this webhook", hint)
                        : variable != nullptr ? variable
                                              : "";
  if (address.empty() && arguments.webhook_file.empty()) return "";
  try {
    http_address(address);
  } catch (const Error& error) {
    refuse_secret("this webhook", error.fields().expected,
                  fmt::format("{} characters that are none", address.size()), where, "");
  }
  return address;
}

class Watch {
 public:
  explicit Watch(const WatchArguments& arguments)
      : arguments_(arguments),
        site_({arguments.runs.begin(), arguments.runs.end()}, arguments.metrics_by_rank),
        sender_({.webhook = webhook_of(arguments), .command = arguments.command}) {}

  ExitCode run() {
    poll();
    if (!arguments_.serve.empty()) return serve();
    if (arguments_.once || arguments_.json || !is_terminal(stdout)) {
      look_again_where_clocks_may_differ();
      show(TerminalSize{.columns = is_terminal(stdout) ? terminal_size(stdout).columns : 160, .rows = 1000},
           false);
      return ExitCode::kDone;
    }
    return follow();
  }

 private:
  void poll() {
    for (const observe::AlertNews& news : site_.poll(wall_time_s())) sender_.send(*news.run, news.alert);
  }

  // A status that looks old may be new by another machine's clock: then it changes within a second or two.
  void look_again_where_clocks_may_differ() {
    for (size_t i = 0; i < arguments_.runs.size(); ++i) {
      const observe::RunView& run = site_.run(i);
      if (!run.history.end && run.status_age() > kStatusIsOld_s) {
        pause_unless_stopped(kSecondLook_s);
        return poll();
      }
    }
  }

  ExitCode serve() {
    HttpServerOptions options = http_server_address(arguments_.serve);
    options.names = arguments_.names;
    options.token = token_in(arguments_.token_file);
    const HttpServer server(options, [this](const HttpRequest& request) { return site_.answer(request); });
    say(stdout, fmt::format("{}   metrics: {}metrics   Ctrl-C ends it\n", server.url(), server.url()));
    while (pause_unless_stopped(arguments_.every_s)) poll();
    return ExitCode::kDone;
  }

  // In the terminal's other screen, so that what was there comes back; the last picture stays behind.
  ExitCode follow() {
    print("\x1b[?1049h\x1b[?25l");
    try {
      do {
        show(terminal_size(stdout), true);
        if (!pause_unless_stopped(arguments_.every_s)) break;
        poll();
      } while (true);
    } catch (...) {
      print("\x1b[?25h\x1b[?1049l");
      throw;
    }
    print("\x1b[?25h\x1b[?1049l");
    show(TerminalSize{.columns = terminal_size(stdout).columns, .rows = 1000}, false);
    return ExitCode::kDone;
  }

  void show(const TerminalSize& size, bool in_place) {
    std::string text;
    const int rows = std::max(6, size.rows / static_cast<int>(arguments_.runs.size()));
    for (size_t i = 0; i < arguments_.runs.size(); ++i) {
      if (arguments_.json)
        text += observe::summary_json(site_.run(i), site_.firing(i));
      else
        text +=
            (i > 0 ? "\n" : "") +
            observe::watch_screen(site_.run(i), site_.firing(i),
                                  {.columns = size.columns, .rows = rows, .colours = colours_wanted(stdout)});
    }
    print(in_place ? "\x1b[H\x1b[2J" + text : text);
  }

  const WatchArguments& arguments_;
  observe::LiveSite site_;
  observe::AlertSender sender_;
};

}  // namespace

void add_watch(Command& program) {
  auto arguments = std::make_shared<WatchArguments>();
  Command watch =
      program.add("watch", "a run as it goes: in the terminal, as a live page, as metrics; alerts",
                  {{"in the terminal", "watch runs/first-run"},
                   {"a page at http://127.0.0.1:8080/, metrics at /metrics",
                    "watch --serve 8080 runs/first-run runs/second"},
                   {"tell somebody when it stands still",
                    "watch --serve 8080 runs/big --webhook-file ~/webhook --alert-command 'mail -s "
                    "\"$LONGHAUL_ALERT\" me'"}});
  watch.option("RUN", arguments->runs, "run folders").required();
  watch.option("--serve", arguments->serve,
               "[HOST:]PORT to serve the page and the metrics at; without a host this machine alone can ask");
  watch.option("--name", arguments->names,
               "another name by which the page may be called (a proxy's); repeat for more");
  watch.option("--token-file", arguments->token_file,
               "file with a token that whoever asks must send (as password of the user longhaul, or as a "
               "bearer token)");
  watch.option("--webhook", arguments->webhook,
               "http:// or https:// address that alerts are posted to, in Alertmanager's form");
  watch.option("--webhook-file", arguments->webhook_file,
               "file with that address, which you alone may read; or the variable LONGHAUL_WEBHOOK: others "
               "see what stands in a command line");
  watch.option(
      "--alert-command", arguments->command,
      "command run for each alert, which stands in LONGHAUL_ALERT, LONGHAUL_ALERT_STATUS, …_SUMMARY, …_JSON");
  watch.option("--every", arguments->every_s, "seconds between looks").above(0).default_shown();
  watch.flag("--metrics-by-rank", arguments->metrics_by_rank,
             "metrics of each rank instead of the worst of each node");
  watch.flag("--once", arguments->once, "print how it stands and end");
  watch.json_flag(arguments->json);
  watch.on_run([arguments] {
    install_signal_handlers(false);
    return Watch(*arguments).run();
  });
}

}  // namespace longhaul::cli

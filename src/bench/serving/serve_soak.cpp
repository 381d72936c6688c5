// Many requests of every kind, and what they leave behind.
#include <atomic>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/error.h"
#include "base/machine/machine.h"
#include "base/net/socket.h"
#include "base/process/process.h"
#include "base/progress.h"
#include "base/threads/worker.h"
#include "bench/serving/served_model.h"

namespace longhaul::bench {
namespace {

constexpr int64_t kParts = 5;       // memory is looked at behind each
constexpr double kPatience_s = 60;  // for what has begun to end
constexpr int kQuiet = 50;          // looks at the metrics
constexpr int64_t kPrompts = 500, kSchemas = 40;

enum class Kind { kPlain, kStreamed, kHeld, kMeasured, kRefused, kAbandoned };
// The kinds of ten requests that follow each other.
constexpr Kind kKinds[] = {Kind::kPlain,    Kind::kStreamed,  Kind::kHeld,  Kind::kRefused,
                           Kind::kMeasured, Kind::kAbandoned, Kind::kPlain, Kind::kStreamed,
                           Kind::kPlain,    Kind::kHeld};

nlohmann::json schema_of(int64_t number) {
  const std::string name = fmt::format("a{}", number % kSchemas);
  return {{"type", "json_schema"},
          {"json_schema",
           {{"name", "answer"},
            {"schema",
             {{"type", "object"},
              {"properties", {{name, {{"type", "integer"}}}}},
              {"required", {name}},
              {"additionalProperties", false}}}}}};
}

class Soak {
 public:
  Soak(const ServeRequest& request, int64_t requests, const serve::Server& server)
      : request_(request), requests_(requests), server_(server), address_(completions_of(server)) {
    for (int64_t i = 0; i < request.clients; ++i)
      workers_.push_back(std::make_unique<Worker>("bench client"));
  }

  void run(Result& result) {
    const Stopwatch watch;
    Progress progress("asking", requests_);
    double first = 0;
    for (int64_t part = 0; part < kParts; ++part) {
      next_ = part * requests_ / kParts;
      end_ = (part + 1) * requests_ / kParts;
      for (const auto& worker : workers_) worker->post([this] { ask_until_end(); });
      for (const auto& worker : workers_) worker->wait();
      wait_until_idle();
      progress.advance(end_ - part * requests_ / kParts);
      if (part == 0) first = static_cast<double>(resident_bytes());
    }
    const auto last = static_cast<double>(resident_bytes());
    result.passes = {{.name = "all", .time = timing_of_runs({watch.milliseconds()})}};
    result.figures = {{"requests", static_cast<double>(requests_)},
                      {"resident_bytes_20_percent", first},
                      {"resident_bytes", last},
                      {"growth_percent", 100 * (last / first - 1)}};
    for (const auto& [status, count] : answered_)
      result.figures.emplace_back(fmt::format("answered_{}", status), static_cast<double>(count));
    result.figures.emplace_back("left", static_cast<double>(left_));
    result.figures.emplace_back("unexpected", static_cast<double>(unexpected_));
    double going_on = 0;
    for (const char* what : {"waiting", "reading", "writing", "parked"}) {
      result.figures.emplace_back(what, metric(what));
      going_on += metric(what);
    }
    for (const char* what : {"page_bytes", "prefix_bytes"}) result.figures.emplace_back(what, metric(what));
    result.error = unexpected_ == 0 && going_on == 0 ? -1 : 1;
  }

 private:
  void ask_until_end() {
    for (int64_t number = next_++; number < end_; number = next_++) ask(number);
  }

  nlohmann::json body_of(int64_t number, Kind kind) const {
    nlohmann::json body = {{"prompt", random_letters(request_, number % kPrompts, request_.prompt)},
                           {"max_tokens", 1 + number % request_.tokens},
                           {"seed", number},
                           {"n", 1 + number % 7 / 6}};
    if (kind == Kind::kStreamed) body["stream"] = true;
    if (kind == Kind::kHeld) body["response_format"] = schema_of(number);
    if (kind == Kind::kMeasured) body["logprobs"] = 2;
    if (kind == Kind::kRefused) body["temperature"] = number % 20 == 3 ? -1 : 9;
    return body;
  }

  void ask(int64_t number) {
    const Kind kind = kKinds[number % std::ssize(kKinds)];
    const std::string body = body_of(number, kind).dump();
    if (kind == Kind::kAbandoned) return abandon(body);
    const HttpAnswer answer = http_post(address_, body, "application/json", 600);
    const std::lock_guard hold(mutex_);
    ++answered_[answer.status];
    if (answer.status != (kind == Kind::kRefused ? 400 : 200)) ++unexpected_;
  }

  // Sends the request, and is gone.
  void abandon(const std::string& body) {
    const std::string text =
        fmt::format("POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n{}",
                    body.size(), body);
    Socket socket = Socket::connect({"127.0.0.1", server_.port()});
    for (size_t done = 0; done < text.size();) {
      size_t written = 0;
      if (socket.write(std::string_view(text).substr(done), written) == Socket::Result::kEnd) break;
      done += written;
      if (written == 0) pause_briefly();
    }
    ++left_;
  }

  // longhaul_serve_WHAT{model="…"} of /metrics.
  double metric(const std::string& what) const {
    const std::string text = http_get(http_address(server_.url()), "/metrics").body,
                      name = "\nlonghaul_serve_" + what + "{";
    const size_t at = text.find(name);
    LONGHAUL_ASSERT(at != std::string::npos, "no metric {}", what);
    const size_t value = text.find(' ', at + name.size());
    return std::stod(text.substr(value + 1, text.find('\n', value + 1) - value - 1));
  }
  // A request may still be on its way when its client has left, so the server must be quiet for a while.
  void wait_until_idle() const {
    const Stopwatch watch;
    for (int quiet = 0; quiet < kQuiet && watch.seconds() < kPatience_s; ++quiet) {
      for (const char* what : {"waiting", "reading", "writing", "parked"}) {
        if (metric(what) > 0) quiet = 0;
      }
      pause_briefly();
    }
  }

  const ServeRequest& request_;
  int64_t requests_;
  const serve::Server& server_;
  HttpAddress address_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::atomic<int64_t> next_{0}, left_{0};
  int64_t end_ = 0;
  std::mutex mutex_;  // protects the next two
  std::map<int, int64_t> answered_;
  int64_t unexpected_ = 0;
};

}  // namespace

Result bench_serve_soak(const ServeRequest& request, int64_t requests) {
  const DeviceScope scope(request.device);
  Result result{
      .name = "serve_soak",
      .shape = fmt::format("{}, {} requests of {} clients", request.preset, requests, request.clients),
      .dtype = request.dtype};
  const int64_t lost =
      with_server(request, [&](const serve::Server& server) { Soak(request, requests, server).run(result); });
  result.figures.emplace_back("lost_sequences", static_cast<double>(lost));
  if (lost != 0) result.error = 1;
  return result;
}

}  // namespace longhaul::bench

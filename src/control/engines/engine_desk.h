// EngineDesk: asks an engine for a loop that must not wait: commands of engines take seconds, or their whole minute (engine.h). Requests are carried out one
// after the other by a thread of its own; what came of them is fetched when the loop comes by. Nothing throws: an engine that says no is an answer.
//
//   EngineDesk desk(find_engine());
//   desk.request_node(exclude);                                     // DriverCore's RequestNode
//   for (const EngineAnswer& answer : desk.answers())               // each turn of the loop
//     if (answer.host) children.start({.argv = desk.words_to_start_on(*answer.host, {program, "node", …})}, …);
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/threads/worker.h"
#include "control/engines/engine.h"

namespace longhaul::control {

struct EngineAnswer {
  enum class To { kRequest, kRelease, kRequeue };
  To to = To::kRequest;
  bool good = true;                 // false: the engine said no, or nothing in time
  std::optional<std::string> host;  // of a request: where a daemon is to be started; nothing: there is none, or it starts by itself
  std::string text;                 // for people
};

class EngineDesk {
 public:
  explicit EngineDesk(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
  EngineDesk(const EngineDesk&) = delete;
  EngineDesk& operator=(const EngineDesk&) = delete;

  void request_node(std::vector<std::string> exclude);
  void release_node(std::string host, std::string reason);
  void requeue();
  std::vector<EngineAnswer> answers();  // those that have come since the last call
  // What to run here so that the program runs there; empty where the engine has no such way.
  std::vector<std::string> words_to_start_on(const std::string& host, std::vector<std::string> words) const;

 private:
  void ask(EngineAnswer::To to, std::function<EngineAnswer(Engine&)> request);

  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;
  std::vector<EngineAnswer> answers_;
  Worker worker_{"engine"};  // the last member: the first to go
};

}  // namespace longhaul::control

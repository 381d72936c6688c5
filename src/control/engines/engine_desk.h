// EngineDesk sends requests to an engine on behalf of a loop that must not wait, since the commands of
// engines take seconds or up to a minute (engine.h). A thread of its own carries out the requests in order;
// the loop fetches the results in its next turn. Nothing throws: a refusal of the engine is an answer like
// any other.
//
//   EngineDesk desk(find_engine());
//   desk.request_node(exclude);                                     // DriverCore's RequestNode
//   for (const EngineAnswer& answer : desk.answers())               // each turn of the loop
//     if (answer.host) children.start({.argv = desk.words_to_start_on(*answer.host, {program, "node", …})},
//         …);
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
  bool good = true;  // false: the engine refused, or did not answer in time
  // The host on which a daemon is to be started, for a request; nothing: there is none, or it starts by
  // itself.
  std::optional<std::string> host;
  std::string text;  // for people
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
  // The command line to run here so that `words` run on `host`; empty where the engine has no such way.
  std::vector<std::string> words_to_start_on(const std::string& host, std::vector<std::string> words) const;

 private:
  void ask(EngineAnswer::To to, std::function<EngineAnswer(Engine&)> request);

  std::unique_ptr<Engine> engine_;
  std::mutex mutex_;
  std::vector<EngineAnswer> answers_;
  Worker worker_{"engine"};  // the last member, so that its thread ends before the others are destroyed
};

}  // namespace longhaul::control

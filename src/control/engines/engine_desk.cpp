#include "control/engines/engine_desk.h"

#include <utility>

namespace longhaul::control {

void EngineDesk::ask(EngineAnswer::To to, std::function<EngineAnswer(Engine&)> request) {
  worker_.post([this, to, request = std::move(request)] {
    EngineAnswer answer;
    try {
      answer = request(*engine_);
    } catch (const std::exception& error) {
      answer.good = false;
      answer.text = error.what();
    }
    answer.to = to;
    const std::lock_guard lock(mutex_);
    answers_.push_back(std::move(answer));
  });
}

void EngineDesk::request_node(std::vector<std::string> exclude) {
  ask(EngineAnswer::To::kRequest, [exclude = std::move(exclude)](Engine& engine) -> EngineAnswer {
    auto host = engine.request_node(exclude);
    const std::string text = host ? *host + " is free" : engine.name() + " has no other machine now";
    return {.host = std::move(host), .text = text};
  });
}

void EngineDesk::release_node(std::string host, std::string reason) {
  ask(EngineAnswer::To::kRelease,
      [host = std::move(host), reason = std::move(reason)](Engine& engine) -> EngineAnswer {
        return {.text = engine.release_node(host, reason)};
      });
}

void EngineDesk::requeue() {
  ask(EngineAnswer::To::kRequeue, [](Engine& engine) -> EngineAnswer { return {.text = engine.requeue()}; });
}

std::vector<EngineAnswer> EngineDesk::answers() {
  const std::lock_guard lock(mutex_);
  return std::exchange(answers_, {});
}

std::vector<std::string> EngineDesk::words_to_start_on(const std::string& host,
                                                       std::vector<std::string> words) const {
  return engine_->words_to_start_on(host, std::move(words));
}

}  // namespace longhaul::control

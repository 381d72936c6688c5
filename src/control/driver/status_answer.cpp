#include "control/driver/status_answer.h"

#include <nlohmann/json.hpp>

#include "control/wire/messages.h"

namespace longhaul::control {

std::string status_answer(nlohmann::ordered_json status, size_t most_bytes) {
  while (true) {
    std::string text =
        to_text(Answer{.text = status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)});
    if (text.size() <= most_bytes) return text;
    nlohmann::ordered_json& incidents = status["incidents"];
    if (incidents.empty()) break;
    incidents.erase(incidents.begin());
  }
  return to_text(
      Answer{.good = false, .text = "its status is too long for an answer: read control/status.json"});
}

}  // namespace longhaul::control

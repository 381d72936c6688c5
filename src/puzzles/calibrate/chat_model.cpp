#include "puzzles/calibrate/chat_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "base/log.h"
#include "base/process/signals.h"
#include "base/text/text.h"

namespace longhaul::puzzles {
namespace {

constexpr double kLongestPause_s = 60;
constexpr int64_t kLongestAnswer = int64_t{64} << 20;

[[noreturn]] void chat_failed(const ChatModel& model, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kCommunication,
               .what = "the model did not answer",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = text_of(model.address),
               .hint = "see that the server runs and knows --model; the same command goes on"});
}

// One try; none, and why: to be asked again.
std::optional<std::string> try_once(const ChatModel& model, const std::string& body, std::string& why) {
  HttpAnswer answer;
  try {
    const std::vector<std::pair<std::string, std::string>> headers = {
        {"Authorization", "Bearer " + model.key}};
    answer = http_post(model.address, body, "application/json", model.timeout_s, kLongestAnswer,
                       model.key.empty() ? std::vector<std::pair<std::string, std::string>>{} : headers);
  } catch (const Error& error) {
    why = fmt::format("{} was expected: {}", error.fields().expected, error.fields().found);
    return std::nullopt;
  }
  why = fmt::format("{} {}", answer.status, brief(printable(answer.body), 300));
  if (answer.status == 408 || answer.status == 429 || answer.status >= 500) return std::nullopt;
  if (answer.status != 200) chat_failed(model, "200", why);
  const auto json = nlohmann::json::parse(answer.body, nullptr, false);
  const auto content = nlohmann::json::json_pointer("/choices/0/message/content");
  if (json.is_object() && json.contains(content)) {
    if (json[content].is_string()) return json[content].get<std::string>();
    if (json[content].is_null()) return "";  // all tokens went into thinking that the server keeps apart
  }
  chat_failed(model, "JSON with choices[0].message.content", why);
}

std::string chat_answer(const ChatModel& model, const std::string& body) {
  std::string why;
  double pause_s = model.first_pause_s;
  for (int64_t attempt = 0; attempt <= model.retries; ++attempt) {
    if (auto content = try_once(model, body, why)) return *content;
    if (attempt == model.retries) break;
    log_warning("the model did not answer ({}); it is asked again in {:g} s", why, pause_s);
    pause_unless_stopped(pause_s);
    throw_if_stop_requested("calibrating; the same command goes on");
    pause_s = std::min(2 * pause_s, kLongestPause_s);
  }
  chat_failed(model, fmt::format("an answer within {} tries", model.retries + 1), why);
}

}  // namespace

HttpAddress chat_address(const std::string& url) {
  HttpAddress address = http_address(url);
  if (address.path.ends_with("/chat/completions")) return address;
  if (!address.path.ends_with("/v1")) address.path += "/v1";
  address.path += "/chat/completions";
  return address;
}

std::vector<std::string> chat_answers(const ChatModel& model, const std::string& prompt, int64_t answers,
                                      uint64_t seed) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < answers; ++i) {
    const nlohmann::ordered_json body = {{"model", model.model},
                                         {"messages", {{{"role", "user"}, {"content", prompt}}}},
                                         {"temperature", model.temperature},
                                         {"top_p", model.top_p},
                                         {"max_tokens", model.tokens},
                                         {"seed", seed + static_cast<uint64_t>(i)}};
    all.push_back(chat_answer(model, body.dump()));
  }
  return all;
}

}  // namespace longhaul::puzzles

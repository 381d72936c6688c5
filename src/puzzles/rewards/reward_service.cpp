#include "puzzles/rewards/reward_service.h"

#include "base/error.h"
#include "base/version.h"
#include "puzzles/engine/answers/answer.h"
#include "puzzles/tasks.h"

namespace longhaul::puzzles {
namespace {

HttpReply json_reply(const nlohmann::ordered_json& json, int status = 200) {
  return {.status = status,
          .type = "application/json",
          .body = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"};
}

HttpReply no_such_path(const std::string& allowed) {
  HttpReply reply = json_reply({{"error",
                                 {{"what", "there is nothing at this path for this method"},
                                  {"expected", "POST /verify, GET /tasks or GET /health"}}}},
                               allowed.empty() ? 404 : 405);
  if (!allowed.empty()) reply.headers.emplace_back("Allow", allowed);
  return reply;
}

Verdict verdict_of(const RewardItem& item) {
  try {
    return verdict_on(item.puzzle, item.response);
  } catch (const Error& error) {  // of a puzzle that cannot be one of its task
    throw placed_error(error, item.where);
  }
}

}  // namespace

HttpReply RewardService::answer(const HttpRequest& request) {
  if (request.path == "/verify")
    return request.method == "POST" ? verify(request.body) : no_such_path("POST");
  if (request.path == "/tasks")
    return request.method == "GET" ? json_reply(tasks_json()) : no_such_path("GET, HEAD");
  if (request.path == "/health") return request.method == "GET" ? health() : no_such_path("GET, HEAD");
  return no_such_path("");
}

RewardCounts RewardService::counts() const {
  const std::lock_guard hold(mutex_);
  return counts_;
}

HttpReply RewardService::verify(const std::string& body) {
  nlohmann::json json;
  try {
    json = parse_reward_json(body);
  } catch (const Error& error) {
    return refused(400, error);
  }
  try {
    return judged(read_reward_request(json));
  } catch (const Error& error) {
    return refused(422, error);
  }
}

HttpReply RewardService::judged(const RewardRequest& request) {
  RewardCounts fresh{.requests = 1};
  nlohmann::ordered_json scores = nlohmann::ordered_json::array(), verdicts = nlohmann::ordered_json::array();
  for (const RewardItem& item : request.items) {
    const Verdict verdict = verdict_of(item);
    const bool strict = has_strict_format(rules_.think_is_open ? "<think>" + item.response : item.response);
    const double score = verdict.accepted() && (strict || !rules_.needs_format) ? 1 : 0;
    RewardTally& of_task = fresh.of_task[std::string(item.puzzle.task->key)];
    for (RewardTally* tally : {&of_task, &fresh.all}) {
      ++tally->answers;
      tally->accepted += verdict.accepted() ? 1 : 0;
      tally->strict_format += strict ? 1 : 0;
    }
    scores.push_back(score);
    verdicts.push_back({{"score", score},
                        {"accepted", verdict.accepted()},
                        {"strict_format", strict},
                        {"code", name_of(verdict.code)},
                        {"text", verdict.text},
                        {"task", item.puzzle.task->key}});
  }
  const std::lock_guard hold(mutex_);
  ++counts_.requests;
  const auto add = [](RewardTally& to, const RewardTally& more) {
    to.answers += more.answers;
    to.accepted += more.accepted;
    to.strict_format += more.strict_format;
  };
  add(counts_.all, fresh.all);
  for (const auto& [key, tally] : fresh.of_task) add(counts_.of_task[key], tally);
  if (request.is_one) return json_reply(verdicts.front());
  return json_reply({{"scores", scores}, {"verdicts", verdicts}});
}

HttpReply RewardService::refused(int status, const Error& error) {
  {
    const std::lock_guard hold(mutex_);
    ++counts_.requests;
    ++counts_.refused;
  }
  nlohmann::ordered_json told = {{"what", error.fields().what}};
  const std::pair<const char*, const std::string*> rest[] = {{"expected", &error.fields().expected},
                                                             {"found", &error.fields().found},
                                                             {"where", &error.fields().where},
                                                             {"try", &error.fields().hint}};
  for (const auto& [name, text] : rest) {
    if (!text->empty()) told[name] = *text;
  }
  return json_reply({{"error", told}}, status);
}

HttpReply RewardService::health() const {
  const RewardCounts now = counts();
  nlohmann::ordered_json of_task = nlohmann::ordered_json::object();
  for (const auto& [key, tally] : now.of_task)
    of_task[key] = {
        {"answers", tally.answers}, {"accepted", tally.accepted}, {"strict_format", tally.strict_format}};
  return json_reply({{"status", "ok"},
                     {"version", build_version().version},
                     {"running_s", running_.seconds()},
                     {"requests", now.requests},
                     {"refused", now.refused},
                     {"answers", now.all.answers},
                     {"accepted", now.all.accepted},
                     {"strict_format", now.all.strict_format},
                     {"of_task", of_task}});
}

}  // namespace longhaul::puzzles

// The verifiers over HTTP, for other people's trainers: what `puzzles serve-rewards` answers.
//
//   POST /verify   verdicts on answers (reward_request.h). One answer gives one object, many give {"scores":
//                  […], "verdicts": […]}. What cannot be judged, an unknown task among it, is refused with
//                    400 or 422 and an "error" that says why, never scored with 0.
//   GET  /tasks    the tasks that are known, with their knobs
//   GET  /health   that it is there, and what it has judged so far
//
// Thread-safe: it is asked from several threads at once.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>

#include "base/clock.h"
#include "base/net/http_server.h"
#include "puzzles/rewards/reward_request.h"

namespace longhaul::puzzles {

struct RewardRules {
  bool needs_format = false;  // the score is 1 only where the strict format is kept too (engine/answer.h)
  // the chat template has the opening think tag, so that it is no part of a response
  bool think_is_open = false;
};

struct RewardTally {
  int64_t answers = 0, accepted = 0, strict_format = 0;
};
struct RewardCounts {
  int64_t requests = 0, refused = 0;  // of POST /verify
  RewardTally all;
  std::map<std::string, RewardTally, std::less<>> of_task;
};

class RewardService {
 public:
  explicit RewardService(RewardRules rules) : rules_(rules) {}
  HttpReply answer(const HttpRequest& request);
  RewardCounts counts() const;

 private:
  HttpReply verify(const std::string& body);
  HttpReply judged(const RewardRequest& request);
  HttpReply refused(int status, const Error& error);
  HttpReply health() const;

  RewardRules rules_;
  Stopwatch running_;
  mutable std::mutex mutex_;  // of counts_
  RewardCounts counts_;
};

}  // namespace longhaul::puzzles

// What trainers ask of `puzzles serve-rewards`, in the fields that their reward functions have:
//
//   one answer             {"data_source": …, "solution_str": …, "ground_truth": …, "extra_info": …}
//                          verl's compute_score
//   many, by columns       {"data_sources": […], "solution_strs": […], "ground_truths": […], "extra_infos":
//                          […]}  verl's batches {"data_source": […], "completions": […], "ground_truth": […],
//                          "extra_info": […]}       TRL; a completion is a text or messages
//   many, one by one       [{…}, {…}]
//                          each as one answer
//
// The puzzle is in extra_info.game_data_str, else in ground_truth: a text of JSON, or an object, with
// "metadata". Other fields are passed over. Errors are kData, or kUsage for a task that there is not, and
// name the answer ("answer 3", from 0).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "puzzles/records.h"

namespace longhaul::puzzles {

struct RewardItem {
  ReadRecord puzzle;
  std::string response, where;
};
struct RewardRequest {
  bool is_one = false;  // and is answered as one
  std::vector<RewardItem> items;
};

// The error of a part that does not know where it stands, with its place.
Error placed_error(const Error& error, const std::string& where);

nlohmann::json parse_reward_json(std::string_view body);
RewardRequest read_reward_request(const nlohmann::json& body);

}  // namespace longhaul::puzzles

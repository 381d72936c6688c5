#include "checkpoint/disk/writers.h"

#include <cstring>
#include <numeric>

namespace longhaul::checkpoint {
namespace {

using nlohmann::json;

// For whoever is done waits for the slowest disk. A rank that is gone is noticed at once, by the fate the
// groups share.
constexpr comm::Timeout kForADisk = std::chrono::hours(1);

comm::CallOptions call(const std::string& name, comm::Timeout longer = {}) {
  return {.name = "checkpoint: " + name, .timeout = kForADisk + longer};
}

Tensor bytes_of(const std::string& text) {
  const Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
  return bytes;
}

std::string text_of(const Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

json outcome_of(const std::function<json()>& work) {
  try {
    return {{"result", work()}};
  } catch (const std::exception& thrown) {
    const ErrorFields fields = error_of(thrown).fields();
    return {{"code", static_cast<int>(fields.code)},
            {"what", fields.what},
            {"expected", fields.expected},
            {"found", fields.found},
            {"where", fields.where},
            {"hint", fields.hint}};
  }
}

bool failed(const json& outcome) { return outcome.contains("code"); }

[[noreturn]] void throw_failure(const json& outcome) {
  throw Error({.code = static_cast<ExitCode>(outcome.at("code").get<int>()),
               .what = outcome.at("what"),
               .expected = outcome.at("expected"),
               .found = outcome.at("found"),
               .where = outcome.at("where"),
               .hint = outcome.at("hint")});
}

// Paths in errors need not be UTF-8.
std::string text_of(const json& outcome) {
  return outcome.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Of a rank's error, where it happened.
json of_rank(json outcome, int64_t rank) {
  const std::string where = outcome.at("where");
  outcome["where"] = fmt::format("{}{}on rank {}", where, where.empty() ? "" : ", ", rank);
  return outcome;
}

}  // namespace

Error error_of(const std::exception& thrown) {
  if (const auto* error = dynamic_cast<const Error*>(&thrown)) return *error;
  return Error({.code = ExitCode::kInternal, .what = "saving a checkpoint failed", .found = thrown.what()});
}

std::vector<std::string> Writers::gather(const std::string& name, const std::string& text,
                                         comm::Timeout longer) const {
  const Tensor length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong),
               lengths = at::empty({size()}, at::kLong);
  group_->all_gather(length, lengths, call(name + ", lengths", longer)).wait();
  const std::span<const int64_t> all(lengths.const_data_ptr<int64_t>(), static_cast<size_t>(size()));
  std::vector<int64_t> sends(all.size(), 0), receives(all.size(), 0);
  sends[0] = static_cast<int64_t>(text.size());
  if (rank() == 0) receives.assign(all.begin(), all.end());
  const Tensor received =
      at::empty({std::accumulate(receives.begin(), receives.end(), int64_t{0})}, at::kByte);
  group_->all_to_all(bytes_of(text), received, sends, receives, call(name, longer)).wait();
  std::vector<std::string> texts;
  const std::string joined = text_of(received);
  for (size_t from = 0; const int64_t bytes : receives) {
    texts.push_back(joined.substr(from, static_cast<size_t>(bytes)));
    from += static_cast<size_t>(bytes);
  }
  return texts;
}

std::string Writers::tell(const std::string& name, const std::string& text, comm::Timeout longer) const {
  const Tensor length = at::full({1}, static_cast<int64_t>(text.size()), at::kLong);
  group_->broadcast(length, 0, call(name + ", length", longer)).wait();
  const Tensor bytes = rank() == 0 ? bytes_of(text) : at::empty({length.item<int64_t>()}, at::kByte);
  group_->broadcast(bytes, 0, call(name, longer)).wait();
  return text_of(bytes);
}

std::vector<json> Writers::each(const std::string& name, const std::function<json()>& work,
                                comm::Timeout longer) const {
  if (!group_) return {work()};
  const std::vector<std::string> texts = gather(name, text_of(outcome_of(work)), longer);
  json verdict = {{"result", nullptr}};
  std::vector<json> results;
  for (size_t from = 0; rank() == 0 && from < texts.size(); ++from) {
    json outcome = json::parse(texts[from]);
    if (failed(outcome) && !failed(verdict))
      verdict = of_rank(std::move(outcome), static_cast<int64_t>(from));
    else if (!failed(outcome))
      results.push_back(std::move(outcome.at("result")));
  }
  verdict = json::parse(tell(name + ", verdict", text_of(verdict), longer));
  if (failed(verdict)) throw_failure(verdict);
  return results;
}

json Writers::first(const std::string& name, const std::function<json()>& work) const {
  if (!group_) return work();
  json outcome = json::parse(tell(name, rank() == 0 ? text_of(outcome_of(work)) : ""));
  if (failed(outcome)) throw_failure(of_rank(std::move(outcome), 0));
  return std::move(outcome.at("result"));
}

json Writers::all(const std::string& name, const std::function<json()>& work, comm::Timeout longer) const {
  const std::vector<json> results = each(name, work, longer);
  return first(name + ", of all", [&] { return json(results); });
}

}  // namespace longhaul::checkpoint

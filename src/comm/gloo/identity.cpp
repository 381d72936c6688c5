#include "comm/gloo/identity.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/text.h"

namespace longhaul::comm {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// Values of any length, each cut to a line around the first character in which they differ.
std::string cut(const std::string& value, size_t differs_at) {
  constexpr size_t kMost = 60, kBefore = 20;
  if (value.size() <= kMost) return printable(value);
  const size_t begin = differs_at > kBefore ? std::min(differs_at - kBefore, value.size()) : 0;
  return (begin > 0 ? "…" : "") + printable(value.substr(begin, kMost)) +
         (begin + kMost < value.size() ? "…" : "");
}

// "rank 0: optim.lr = 0.25" and, below it, the next ones.
struct Lines {
  std::string first, other;
};

Lines differing_parts(const IdentityParts& first, const IdentityParts& other) {
  constexpr int64_t kMost = 4;
  constexpr const char* kNextLine = "\n            ";  // where a field of an error begins
  Lines lines;
  int64_t count = 0;
  for (const auto& [name, value] : first) {
    const auto found = std::ranges::find(other, name, &IdentityParts::value_type::first);
    const std::string theirs = found != other.end() ? found->second : "none";
    if (value == theirs || ++count > kMost) continue;
    const auto at = static_cast<size_t>(std::ranges::mismatch(value, theirs).in1 - value.begin());
    const char* const separator = count > 1 ? kNextLine : "";
    lines.first += fmt::format("{}{} = {}", separator, name, cut(value, at));
    lines.other += fmt::format("{}{} = {}", separator, name, cut(theirs, at));
  }
  if (count > kMost) lines.other += fmt::format("{}and {} more that differ", kNextLine, count - kMost);
  return lines;
}

}  // namespace

std::string hashes_text(const std::vector<Identity>& identities) {
  Json all = Json::array();
  for (const Identity& each : identities) all.push_back(Json::array({each.name, each.hash}));
  return text_of(all);
}

std::string parts_text(const std::vector<Identity>& identities) {
  Json all = Json::array();
  for (const Identity& each : identities) all.push_back(each.parts);
  return text_of(all);
}

std::optional<OddRank> odd_rank(const std::vector<std::string>& hashes) {
  const Json expected = Json::parse(hashes.front());
  std::optional<OddRank> odd;
  for (size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes.front()) continue;
    const Json found = Json::parse(hashes[rank]);
    for (size_t which = 0; which < expected.size(); ++which) {
      if (which < found.size() && found[which] == expected[which]) continue;
      if (!odd)
        odd = {.rank = rank, .which = which};
      else if (odd->which == which)
        ++odd->others;
      break;
    }
  }
  return odd;
}

Failure disagreement(const OddRank& odd, const TextsOfRank& first, const TextsOfRank& other) {
  const auto entry = [&](const std::string& text) {
    const Json all = Json::parse(text);
    return odd.which < all.size() ? all[odd.which] : Json::array();
  };
  const Json expected = entry(first.hashes), found = entry(other.hashes);
  const std::string name = expected.at(0);
  Lines lines =
      differing_parts(entry(first.parts).get<IdentityParts>(), entry(other.parts).get<IdentityParts>());
  if (lines.first.empty()) {
    lines.first = fmt::format("{} {}", name, expected.at(1).get<std::string>());
    lines.other = found.empty()
                      ? "none"
                      : fmt::format("{} {}", found.at(0).get<std::string>(), found.at(1).get<std::string>());
  }
  const std::string more =
      odd.others > 0 ? fmt::format("; so {} {} more", odd.others > 1 ? "have" : "has", odd.others) : "";
  return {.fields = {.code = ExitCode::kUsage,
                     .what = fmt::format("rank {} has another {} than rank 0{}", odd.rank, name, more),
                     .expected = "on rank 0: " + lines.first,
                     .found = fmt::format("on rank {}: {}", odd.rank, lines.other),
                     .hint = "start all ranks with the same program, recipe and data"}};
}

}  // namespace longhaul::comm

#include "data/corpus/skip_file.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/files/file.h"
#include "base/text/json.h"

namespace longhaul::data {
namespace {

constexpr JsonRules kSkipRules = {
    .what = "the list of samples to pass over cannot be read",
    .hint = "it is control/skip.json of the run folder; bring it back from a copy"};

SkipEntry entry_of(const JsonView& json) {
  SkipEntry entry;
  entry.range = {json.at("begin").integer(0), json.at("end").integer(0)};
  json.require(entry.range.begin <= entry.range.end, "a range that begins before it ends");
  if (json.value().contains("reason")) entry.reason = json.at("reason").string();
  if (json.value().contains("by")) entry.by = json.at("by").string();
  if (json.value().contains("rate_factor")) entry.rate_factor = json.at("rate_factor").number();
  json.require(entry.rate_factor > 0 && entry.rate_factor <= 1, "a rate_factor above 0 and at most 1");
  return entry;
}

void write_skips(const std::filesystem::path& file, const std::vector<SkipEntry>& entries) {
  nlohmann::ordered_json ranges = nlohmann::ordered_json::array();
  for (const SkipEntry& each : entries) {
    nlohmann::ordered_json json{
        {"begin", each.range.begin}, {"end", each.range.end}, {"reason", each.reason}, {"by", each.by}};
    if (each.rate_factor != 1) json["rate_factor"] = each.rate_factor;
    ranges.push_back(std::move(json));
  }
  make_folders(file.parent_path());
  write_text_atomically(file, nlohmann::ordered_json{{"version", 1}, {"ranges", ranges}}.dump(1) + "\n");
}

}  // namespace

std::string skips_text(const std::filesystem::path& file) {
  return std::filesystem::exists(file) ? read_text(file) : "";
}

std::vector<SkipEntry> read_skips(const std::filesystem::path& file) {
  return skips_of(skips_text(file), file.string());
}

std::vector<SkipEntry> skips_of(const std::string& text, const std::string& where) {
  if (text.empty()) return {};
  const nlohmann::json parsed = parse_json(text, where, kSkipRules);
  const JsonView skips(parsed, where, kSkipRules);
  const JsonView version = skips.at("version"), ranges = skips.at("ranges");
  version.require(version.integer() == 1, "version 1");
  std::vector<SkipEntry> entries;
  for (size_t i = 0; i < ranges.array_size(); ++i) entries.push_back(entry_of(ranges.at(i)));
  return entries;
}

void add_skip(const std::filesystem::path& file, const SkipEntry& entry) {
  std::vector<SkipEntry> entries = read_skips(file);
  entries.push_back(entry);
  write_skips(file, entries);
}

void set_skips(const std::filesystem::path& file, const std::string& by, std::vector<SkipEntry> entries) {
  std::vector<SkipEntry> all = read_skips(file);
  std::erase_if(all, [&](const SkipEntry& each) { return each.by == by; });
  for (SkipEntry& entry : entries) {
    entry.by = by;
    all.push_back(std::move(entry));
  }
  write_skips(file, all);
}

std::vector<SampleRange> ranges_of(const std::vector<SkipEntry>& entries) {
  std::vector<SampleRange> ranges;
  for (const SkipEntry& entry : entries) ranges.push_back(entry.range);
  return merged(std::move(ranges));
}

std::vector<SampleRange> skipped_in(const nlohmann::json& data_position) {
  std::vector<SampleRange> ranges;
  const auto list = data_position.find("skip");
  // The comparison of positions reports what is wrong with it.
  if (list == data_position.end() || !list->is_array()) return ranges;
  for (const nlohmann::json& range : *list) {
    if (range.is_array() && range.size() == 2 && range[0].is_number_integer() && range[1].is_number_integer())
      ranges.push_back({range[0], range[1]});
  }
  return ranges;
}

std::vector<SampleRange> merged(std::vector<SampleRange> ranges) {
  std::ranges::sort(ranges, {}, &SampleRange::begin);
  std::vector<SampleRange> result;
  for (const SampleRange& range : ranges) {
    if (range.begin >= range.end) continue;
    if (!result.empty() && range.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, range.end);
    } else {
      result.push_back(range);
    }
  }
  return result;
}

}  // namespace longhaul::data

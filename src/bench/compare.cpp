#include "bench/compare.h"

#include <fmt/format.h>

#include <map>
#include <sstream>

#include "base/error.h"
#include "base/file.h"

namespace longhaul::bench {
namespace {

using nlohmann::json;

bool lower_is_better(const std::string& figure) { return figure.starts_with("milliseconds"); }

bool is_compared(const std::string& figure) { return lower_is_better(figure) || figure.ends_with("_per_second"); }

std::vector<json> read_results(const std::filesystem::path& path) {
  std::vector<json> results;
  std::istringstream lines(read_text(path));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    json result = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!result.is_object() || !result.contains("name") || !result.contains("shape")) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "not an output of bench --json",
                   .expected = "one JSON object a line with name and shape",
                   .found = line.substr(0, 60),
                   .where = fmt::format("{}:{}", path.string(), number),
                   .hint = "longhaul bench --json > FILE"});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::string key_of(const json& result) {
  return fmt::format("{}|{}|{}", result["name"].get<std::string>(), result["shape"].dump(), result.value("dtype", ""));
}

}  // namespace

double Comparison::times_faster() const { return lower_is_better(figure) ? a / b : b / a; }

nlohmann::ordered_json Comparison::json() const {
  return {{"name", name}, {"shape", shape}, {"dtype", dtype}, {"figure", figure}, {"a", a}, {"b", b}, {"times_faster", times_faster()}};
}

std::string Comparison::text() const {
  return fmt::format("{:<24} {:<28} {:<5} {:<28} {:>12.4g} {:>12.4g}   {:.2f} times as fast\n", name, shape, dtype, figure, a, b,
                     times_faster());
}

std::vector<Comparison> compare_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::map<std::string, nlohmann::json> earlier;
  for (nlohmann::json& result : read_results(a)) earlier[key_of(result)] = std::move(result);
  std::vector<Comparison> comparisons;
  for (const nlohmann::json& later : read_results(b)) {
    const auto match = earlier.find(key_of(later));
    if (match == earlier.end()) continue;
    for (const auto& [figure, value] : later.items()) {
      if (!is_compared(figure) || !value.is_number() || !match->second.contains(figure)) continue;
      const nlohmann::json& shape = later["shape"];
      comparisons.push_back({later["name"], shape.is_string() ? shape.get<std::string>() : shape.dump(), later.value("dtype", ""), figure,
                             match->second[figure].get<double>(), value.get<double>()});
    }
  }
  if (comparisons.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the two files have no result in common",
                 .expected = "the same name, shape and dtype in both",
                 .found = fmt::format("{} results in the first", earlier.size()),
                 .where = fmt::format("{} and {}", a.string(), b.string())});
  }
  return comparisons;
}

}  // namespace longhaul::bench

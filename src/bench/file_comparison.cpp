#include "bench/file_comparison.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"

namespace longhaul::bench {
namespace {

using nlohmann::json;

bool lower_is_better(const std::string& figure) { return figure.starts_with("milliseconds"); }

bool is_compared(const std::string& figure) {
  return lower_is_better(figure) || figure.ends_with("_per_second");
}

std::vector<json> read_results(const std::filesystem::path& path) {
  std::vector<json> results;
  std::istringstream lines(read_text(path));
  int64_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.empty()) continue;
    json result = json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!result.is_object() || !result.contains("name") || !result["name"].is_string() ||
        !result.contains("shape")) {
      throw Error({.code = ExitCode::kUsage,
                   .what = "not an output of bench --json",
                   .expected = "one JSON object a line with name and shape",
                   .found = line.substr(0, 60),
                   .where = fmt::format("{}:{}", path.string(), number),
                   .hint = program_command("bench --json > FILE")});
    }
    results.push_back(std::move(result));
  }
  return results;
}

std::string shape_of(const json& result) {
  const json& shape = result["shape"];
  return shape.is_string() ? shape.get<std::string>() : shape.dump();
}

std::string key_of(const json& result) {
  const std::string dtype = result.value("dtype", "");
  return fmt::format("{}, {}{}{}", result["name"].get<std::string>(), shape_of(result),
                     dtype.empty() ? "" : ", ", dtype);
}

void add_once(std::vector<std::string>& list, const std::string& entry) {
  if (!entry.empty() && std::ranges::find(list, entry) == list.end()) list.push_back(entry);
}

}  // namespace

double ComparedFigure::times_faster() const { return lower_is_better(figure) ? a / b : b / a; }

nlohmann::ordered_json ComparedFigure::json() const {
  return {{"name", name},
          {"shape", shape},
          {"dtype", dtype},
          {"figure", figure},
          {"a", a},
          {"b", b},
          {"times_faster", times_faster()}};
}

observe::Table FileComparison::table() const {
  using observe::Align;
  observe::Table table("A and B", {{"name"},
                                   {"shape"},
                                   {"dtype"},
                                   {"figure"},
                                   {"A", Align::kRight},
                                   {"B", Align::kRight},
                                   {"B is times faster", Align::kRight}});
  for (const ComparedFigure& each : figures) {
    table.row({each.name, each.shape, each.dtype, each.figure, fmt::format("{:.4g}", each.a),
               fmt::format("{:.4g}", each.b), fmt::format("{:.2f}", each.times_faster())});
  }
  return table;
}

std::string FileComparison::remarks() const {
  std::string text;
  for (const std::string& each : only_in_a) text += "only in A: " + each + "\n";
  for (const std::string& each : only_in_b) text += "only in B: " + each + "\n";
  if (machines_a != machines_b) {
    text += fmt::format("measured on other machines:\n  A  {}\n  B  {}\n", fmt::join(machines_a, "\n     "),
                        fmt::join(machines_b, "\n     "));
  }
  return text;
}

FileComparison compare_files(const std::filesystem::path& a, const std::filesystem::path& b) {
  std::map<std::string, json> earlier, later;
  std::vector<std::string> order_a, order_b;
  for (const json& result : read_results(a)) {
    add_once(order_a, key_of(result));
    earlier.insert_or_assign(key_of(result), result);
  }
  for (const json& result : read_results(b)) {
    add_once(order_b, key_of(result));
    later.insert_or_assign(key_of(result), result);
  }
  FileComparison comparison;
  for (const std::string& key : order_a) {
    if (!later.contains(key)) comparison.only_in_a.push_back(key);
  }
  for (const std::string& key : order_b) {
    if (!earlier.contains(key)) {
      comparison.only_in_b.push_back(key);
      continue;
    }
    const json &before = earlier[key], &after = later[key];
    add_once(comparison.machines_a, before.value("machine", ""));
    add_once(comparison.machines_b, after.value("machine", ""));
    for (const auto& [figure, value] : after.items()) {
      if (!is_compared(figure) || !value.is_number() || !before.contains(figure) ||
          !before[figure].is_number())
        continue;
      comparison.figures.push_back({after["name"], shape_of(after), after.value("dtype", ""), figure,
                                    before[figure].get<double>(), value.get<double>()});
    }
  }
  if (comparison.figures.empty()) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "the two files have no result in common",
                 .expected = "the same name, shape and dtype in both",
                 .found = fmt::format("{} results in A, {} in B", earlier.size(), later.size()),
                 .where = fmt::format("{} and {}", a.string(), b.string())});
  }
  return comparison;
}

}  // namespace longhaul::bench

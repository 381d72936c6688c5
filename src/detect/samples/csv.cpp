#include "detect/samples/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/text.h"

namespace longhaul::detect {
namespace {

namespace fs = std::filesystem;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '"')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '"' || text.back() == '\r'))
    text.remove_suffix(1);
  return text;
}

// Removes lines and cells from the front.
struct Cursor {
  std::string_view rest;
  int64_t line = 0;

  bool next_line(std::string_view& into) {
    while (!rest.empty()) {
      const size_t end = std::min(rest.find('\n'), rest.size());
      into = rest.substr(0, end);
      rest.remove_prefix(std::min(end + 1, rest.size()));
      ++line;
      if (!trimmed(into).empty()) return true;
    }
    return false;
  }
};

bool next_cell(std::string_view& line, std::string_view& cell, bool& ended) {
  if (ended) return false;
  const size_t comma = line.find(',');
  ended = comma == std::string_view::npos;
  cell = trimmed(ended ? line : line.substr(0, comma));
  if (!ended) line.remove_prefix(comma + 1);
  return true;
}

[[noreturn]] void malformed(const fs::path& file, int64_t line, std::string expected, std::string found) {
  throw Error({.code = ExitCode::kData,
               .what = "cannot read the metrics",
               .expected = std::move(expected),
               .found = std::move(found),
               .where = fmt::format("{}:{}", file.string(), line)});
}

std::vector<std::string> headings(const fs::path& file, Cursor& cursor) {
  std::string_view line, cell;
  if (!cursor.next_line(line))
    malformed(file, 1, "a line of headings: time,machine,machine,…", "an empty file");
  if (line.starts_with("\xEF\xBB\xBF")) line.remove_prefix(3);
  bool ended = false;
  next_cell(line, cell, ended);
  if (cell != "time") malformed(file, 1, "time as the first heading: seconds", brief(printable(cell)));
  std::vector<std::string> machines;
  std::set<std::string_view> seen;
  while (next_cell(line, cell, ended)) {
    if (cell.empty()) malformed(file, 1, "a machine's name", "an empty heading");
    if (!seen.insert(cell).second) malformed(file, 1, "each machine once", brief(printable(cell)) + " twice");
    machines.emplace_back(cell);
  }
  if (machines.empty()) malformed(file, 1, "at least one machine's column", "the column time alone");
  return machines;
}

bool is_missing(std::string_view cell) {
  return cell.empty() || cell == "NaN" || cell == "nan" || cell == "null";
}

double number_in(std::string_view cell, const fs::path& file, int64_t line, std::string_view unit,
                 std::string_view column) {
  double value = 0;
  const auto [end, problem] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (problem != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value))
    malformed(file, line,
              fmt::format("a finite number ({}) in column {}, or nothing where there is no sample", unit,
                          printable(column)),
              brief(printable(cell)));
  return value;
}

}  // namespace

Series read_csv(const fs::path& file, size_t metric) {
  const std::string text = read_text(file, ExitCode::kData, int64_t{4} << 30);
  const std::string_view unit = metrics()[metric].unit;
  Cursor cursor{text};
  Series series{.metric = metric, .where = file.string(), .machines = headings(file, cursor)};
  std::string_view line, cell;
  while (cursor.next_line(line)) {
    bool ended = false;
    next_cell(line, cell, ended);
    series.times_s.push_back(number_in(cell, file, cursor.line, "seconds", "time"));
    size_t column = 0;
    for (; next_cell(line, cell, ended); ++column) {
      if (column >= series.machines.size())
        malformed(file, cursor.line, fmt::format("{} values", series.machines.size()), "more of them");
      series.values.push_back(is_missing(cell) ? std::numeric_limits<float>::quiet_NaN()
                                               : static_cast<float>(number_in(cell, file, cursor.line, unit,
                                                                              series.machines[column])));
    }
    if (column != series.machines.size())
      malformed(file, cursor.line, fmt::format("{} values, one a machine", series.machines.size()),
                fmt::format("{}", column));
  }
  if (series.times_s.empty()) malformed(file, cursor.line, "samples", "headings alone");
  return series;
}

void write_csv(const fs::path& file, const Series& series) {
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "time");
  for (const std::string& machine : series.machines) fmt::format_to(std::back_inserter(text), ",{}", machine);
  text.push_back('\n');
  File out = File::open(file, File::Mode::kCreate);
  const size_t n = series.machines.size();
  for (size_t t = 0; t < series.times_s.size(); ++t) {
    fmt::format_to(std::back_inserter(text), "{}", series.times_s[t]);
    for (size_t i = 0; i < n; ++i) {
      const float value = series.values[t * n + i];
      text.push_back(',');
      if (!std::isnan(value)) fmt::format_to(std::back_inserter(text), "{:.4g}", value);
    }
    text.push_back('\n');
    if (text.size() < 1 << 20 && t + 1 < series.times_s.size()) continue;
    out.write(std::string_view(text.data(), text.size()));
    text.clear();
  }
  out.close();
}

std::map<std::string, std::string> read_classes(const fs::path& file) {
  const std::string text = read_text(file);
  Cursor cursor{text};
  std::map<std::string, std::string> classes;
  std::string_view line, machine, name;
  if (!cursor.next_line(line) || trimmed(line) != "machine,class")
    malformed(file, 1, "the headings machine,class", brief(printable(line)));
  while (cursor.next_line(line)) {
    bool ended = false;
    next_cell(line, machine, ended);
    if (!next_cell(line, name, ended) || !ended || machine.empty() || name.empty())
      malformed(file, cursor.line, "a machine and its class", brief(printable(machine)));
    if (!classes.emplace(machine, name).second)
      malformed(file, cursor.line, "each machine once", brief(printable(machine)));
  }
  return classes;
}

void set_classes(Pull& pull, const std::map<std::string, std::string>& class_of_machine) {
  std::set<std::string> names;
  const auto class_named = [&](const std::string& machine) {
    const auto found = class_of_machine.find(machine);
    return found == class_of_machine.end() ? std::string("all") : found->second;
  };
  for (const std::string& machine : pull.machines) names.insert(class_named(machine));
  pull.classes.assign(names.begin(), names.end());
  for (size_t i = 0; i < pull.machines.size(); ++i) {
    const auto at = std::lower_bound(pull.classes.begin(), pull.classes.end(), class_named(pull.machines[i]));
    pull.class_of[i] = static_cast<int32_t>(at - pull.classes.begin());
  }
}

Pull read_folder(const fs::path& folder, const std::vector<size_t>& wanted, const AlignOptions& options) {
  std::vector<Series> series;
  for (const size_t metric : wanted) {
    const fs::path file = folder / (std::string(metrics()[metric].name) + ".csv");
    if (fs::exists(file)) series.push_back(read_csv(file, metric));
  }
  if (series.empty()) {
    throw Error(
        {.code = ExitCode::kData,
         .what = "no metrics are in the folder",
         .expected = fmt::format("a CSV file a metric, such as {}.csv, with the headings time,machine,…",
                                 metrics()[wanted.front()].name),
         .found = fs::exists(folder) ? "none of them" : "no such folder",
         .where = folder.string(),
         .hint = program_command("detect simulate --machines 16 --seed 1 --out " +
                                 shell_quoted(folder.string()))});
  }
  Pull pull = aligned(series, wanted, options);
  if (const fs::path classes = folder / "machines.csv"; fs::exists(classes))
    set_classes(pull, read_classes(classes));
  return pull;
}

bool has_metrics(const fs::path& folder) {
  const auto there = [&](const Metric& metric) {
    return fs::exists(folder / (std::string(metric.name) + ".csv"));
  };
  return std::any_of(metrics().begin(), metrics().end(), there);
}

}  // namespace longhaul::detect

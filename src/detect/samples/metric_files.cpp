#include "detect/samples/metric_files.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string_view>

#include "base/error.h"
#include "base/files/file.h"
#include "base/text/csv.h"
#include "base/text/number.h"
#include "base/text/text.h"

namespace longhaul::detect {
namespace {

namespace fs = std::filesystem;

CsvReader rows_of(std::string_view text, const fs::path& file) {
  return {text, {.what = "cannot read the metrics", .where = file.string()}};
}

std::vector<std::string> headings(CsvReader& rows) {
  std::vector<std::string_view> cells;
  if (!rows.next(cells)) rows.fail("a line of headings: time,machine,machine,…", "an empty file");
  if (cells[0] != "time") rows.fail("time as the first heading: seconds", brief(printable(cells[0])));
  std::vector<std::string> machines;
  std::set<std::string_view> seen;
  for (const std::string_view cell : std::span(cells).subspan(1)) {
    if (cell.empty()) rows.fail("a machine's name", "an empty heading");
    if (!seen.insert(cell).second) rows.fail("each machine once", brief(printable(cell)) + " twice");
    machines.emplace_back(cell);
  }
  if (machines.empty()) rows.fail("at least one machine's column", "the column time alone");
  return machines;
}

bool is_missing(std::string_view cell) {
  return cell.empty() || cell == "NaN" || cell == "nan" || cell == "null";
}

double number_in(std::string_view cell, const CsvReader& rows, std::string_view unit,
                 std::string_view column) {
  const std::optional<double> value = parse_number<double>(cell);
  if (value && std::isfinite(*value)) return *value;
  rows.fail(fmt::format("a finite number ({}) in column {}, or nothing where there is no sample", unit,
                        printable(column)),
            brief(printable(cell)));
}

}  // namespace

Series read_metric_file(const fs::path& file, size_t metric) {
  const std::string text = read_text(file, ExitCode::kData, int64_t{4} << 30);
  const std::string_view unit = metrics()[metric].unit;
  CsvReader rows = rows_of(text, file);
  Series series{.metric = metric, .where = file.string(), .machines = headings(rows)};
  const size_t machines = series.machines.size();
  for (std::vector<std::string_view> cells; rows.next(cells);) {
    series.times_s.push_back(number_in(cells[0], rows, "seconds", "time"));
    if (cells.size() != machines + 1)
      rows.fail(fmt::format("{} values, one a machine", machines), fmt::format("{}", cells.size() - 1));
    for (size_t i = 0; i < machines; ++i) {
      const std::string_view cell = cells[i + 1];
      series.values.push_back(is_missing(cell)
                                  ? std::numeric_limits<float>::quiet_NaN()
                                  : static_cast<float>(number_in(cell, rows, unit, series.machines[i])));
    }
  }
  if (series.times_s.empty()) rows.fail("samples", "headings alone");
  return series;
}

void write_metric_file(const fs::path& file, const Series& series) {
  fmt::memory_buffer text;
  fmt::format_to(std::back_inserter(text), "time");
  for (const std::string& machine : series.machines)
    fmt::format_to(std::back_inserter(text), ",{}", csv_cell(machine));
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
  CsvReader rows = rows_of(text, file);
  std::map<std::string, std::string> classes;
  std::vector<std::string_view> cells;
  if (!rows.next(cells) || cells != std::vector<std::string_view>{"machine", "class"})
    rows.fail("the headings machine,class", brief(printable(fmt::format("{}", fmt::join(cells, ",")))));
  while (rows.next(cells)) {
    if (cells.size() != 2 || cells[0].empty() || cells[1].empty())
      rows.fail("a machine and its class", brief(printable(cells[0])));
    if (!classes.emplace(cells[0], cells[1]).second)
      rows.fail("each machine once", brief(printable(cells[0])));
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
    if (fs::exists(file)) series.push_back(read_metric_file(file, metric));
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

#include "cli/models/evaluate_output.h"

#include <fmt/format.h>

#include <cmath>

#include "base/files/file.h"
#include "base/terminal.h"
#include "base/text/text.h"
#include "cli/output.h"
#include "observe/table.h"

namespace longhaul::cli {

void write_page(const EvaluateArguments& arguments, const checkpoint::OpenModel& model,
                observe::ResultPage page) {
  if (arguments.page.empty()) return;
  page.kicker = fmt::format("evaluation · step {}", count_text(model.step));
  page.facts.insert(page.facts.begin(),
                    {{"checkpoint", model.folder.string()}, {"seed", std::to_string(arguments.seed)}});
  write_text_atomically(arguments.page, page.html());
  if (!arguments.json) print(fmt::format("page: {}\n", arguments.page));
}

void print_grid(const std::string& title, const std::string& corner, const evaluate::Grid& grid) {
  std::vector<observe::Column> columns = {{corner}};
  for (const std::string& column : grid.columns) columns.push_back({column, observe::Align::kRight});
  observe::Table table(title, columns);
  for (size_t r = 0; r < grid.rows.size(); ++r) {
    std::vector<std::string> cells = {grid.rows[r]};
    for (const double value : grid.values[r])
      cells.push_back(std::isfinite(value) ? fmt::format("{:.1f} %", 100 * value) : "");
    table.row(cells);
  }
  print(table.text(colours_wanted(stdout)));
}

nlohmann::ordered_json result_of(const EvaluateArguments& arguments, const checkpoint::OpenModel& model) {
  return {{"task", arguments.task},
          {"step", model.step},
          {"checkpoint", model.folder.string()},
          {"seed", arguments.seed}};
}

}  // namespace longhaul::cli

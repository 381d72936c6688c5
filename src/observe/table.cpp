#include "observe/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/progress.h"
#include "observe/format.h"

namespace longhaul::observe {
namespace {

constexpr std::string_view kBold = "\x1b[1m", kDim = "\x1b[2m", kPlain = "\x1b[0m";

std::string styled(std::string_view text, std::string_view style, bool colours) {
  return colours && !text.empty() ? fmt::format("{}{}{}", style, text, kPlain) : std::string(text);
}

std::string share(int64_t part, int64_t whole) {
  return whole > 0 ? fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole))
                   : "";
}

}  // namespace

std::string plan_difference(const MeasuredMemory& memory) {
  if (!memory.planned_bytes || *memory.planned_bytes == 0) return "";
  const auto planned = static_cast<double>(*memory.planned_bytes);
  return fmt::format("{:+.1f} %", 100 * (static_cast<double>(memory.peak_bytes) - planned) / planned);
}

Table::Table(std::string title, std::vector<Column> columns)
    : title_(std::move(title)), columns_(std::move(columns)) {}

void Table::row(std::vector<std::string> cells) {
  LONGHAUL_ASSERT(cells.size() == columns_.size(), "{} cells in {} columns", cells.size(), columns_.size());
  rows_.push_back({std::move(cells)});
}

void Table::total(std::vector<std::string> cells) {
  row(std::move(cells));
  rows_.back().is_total = true;
}

std::string Table::text(bool colours) const {
  std::vector<int> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    int width = display_width(columns_[c].heading);
    for (const Row& row : rows_) width = std::max(width, display_width(row.cells[c]));
    widths.push_back(width);
  }
  auto line = [&](auto cell_of) {
    std::string text = " ";
    for (size_t c = 0; c < columns_.size(); ++c) {
      const std::string cell = cell_of(c);
      const std::string pad(static_cast<size_t>(widths[c] - display_width(cell)), ' ');
      text += columns_[c].align == Align::kRight ? " " + pad + cell : " " + cell + pad;
      if (c + 1 < columns_.size()) text += "  ";
    }
    return text.erase(text.find_last_not_of(' ') + 1);
  };
  std::string text = styled(title_, kBold, colours) + "\n";
  const std::string headings = line([&](size_t c) { return columns_[c].heading; });
  if (!headings.empty()) text += styled(headings, kDim, colours) + "\n";
  for (const Row& row : rows_) {
    const std::string cells = line([&](size_t c) { return row.cells[c]; });
    text += (row.is_total ? styled(cells, kBold, colours) : cells) + "\n";
  }
  return text;
}

std::string Table::markdown() const {
  const auto line = [&](auto cell_of) {
    std::string text = "|";
    for (size_t c = 0; c < columns_.size(); ++c) text += " " + cell_of(c) + " |";
    return text + "\n";
  };
  // A bar would end the cell, and a break the table.
  const auto escaped = [](const std::string& cell) {
    std::string text;
    for (const char c : cell) text += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
    return text;
  };
  std::string text = fmt::format("**{}**\n\n", escaped(title_));
  text += line([&](size_t c) { return escaped(columns_[c].heading); });
  text += line([&](size_t c) {
    return columns_[c].align == Align::kRight ? std::string("---:") : std::string("---");
  });
  for (const Row& row : rows_) {
    text += line([&](size_t c) {
      const std::string cell = escaped(row.cells[c]);
      return row.is_total && !cell.empty() ? "**" + cell + "**" : cell;
    });
  }
  return text;
}

Table parameter_table(std::span<const ParameterGroup> groups) {
  ParameterGroup all{.name = "total"};
  for (const auto& group : groups) {
    all.frozen += group.frozen;
    all.tensors += group.tensors;
    all.values += group.values;
    all.values_per_token += group.values_per_token;
  }
  std::vector<Column> columns = {
      {"group"}, {"tensors", Align::kRight}, {"values", Align::kRight}, {"per token", Align::kRight}};
  if (all.frozen > 0) columns.push_back({"trained", Align::kRight});
  columns.push_back({"share", Align::kRight});
  const auto cells = [&](const ParameterGroup& group, const std::string& share_of_all) {
    std::vector<std::string> row = {group.name, count_text(group.tensors), count_text(group.values),
                                    count_text(group.values_per_token)};
    if (all.frozen > 0) row.push_back(count_text(group.values - group.frozen));
    row.push_back(share_of_all);
    return row;
  };
  Table table(
      "parameters; those that a token passes through: without embedding and head, chosen experts alone",
      std::move(columns));
  for (const auto& group : groups) table.row(cells(group, share(group.values, all.values)));
  table.total(cells(all, ""));
  return table;
}

Table memory_table(std::span<const PlannedMemory> purposes, const std::string& moment,
                   int64_t available_bytes) {
  Table table("memory, planned (most: " + moment + ")",
              {{"purpose"}, {"size", Align::kRight}, {"share of what is free", Align::kRight}});
  int64_t all = 0;
  for (const auto& purpose : purposes) {
    all += purpose.bytes;
    table.row({purpose.name, bytes_text(purpose.bytes), share(purpose.bytes, available_bytes)});
  }
  table.row({"together", bytes_text(all), share(all, available_bytes)});
  table.total({"free", bytes_text(available_bytes), ""});
  return table;
}

Table measured_memory_table(std::span<const MeasuredMemory> purposes) {
  Table table("memory, planned and measured", {{"purpose"},
                                               {"planned", Align::kRight},
                                               {"peak", Align::kRight},
                                               {"difference", Align::kRight},
                                               {"at the end", Align::kRight}});
  for (size_t i = 0; i < purposes.size(); ++i) {
    const MeasuredMemory& memory = purposes[i];
    std::vector<std::string> cells{
        memory.purpose, memory.planned_bytes ? bytes_text(*memory.planned_bytes) : "",
        bytes_text(memory.peak_bytes), plan_difference(memory), bytes_text(memory.bytes)};
    i + 1 < purposes.size() ? table.row(std::move(cells)) : table.total(std::move(cells));
  }
  return table;
}

Table data_table(std::span<const DataPart> parts) {
  Table table("data", {{"part"},
                       {"documents", Align::kRight},
                       {"size", Align::kRight},
                       {"tokens", Align::kRight},
                       {"bytes per token", Align::kRight},
                       {"epochs", Align::kRight}});
  for (const auto& part : parts) {
    const std::string ratio =
        part.tokens > 0 ? fixed(static_cast<double>(part.bytes) / static_cast<double>(part.tokens), 2) : "";
    table.row({part.name, count_text(part.documents), part.bytes > 0 ? bytes_text(part.bytes) : "",
               part.tokens > 0 ? count_text(part.tokens) : "", ratio,
               part.epochs > 0 ? fixed(part.epochs, 2) : ""});
  }
  return table;
}

Table stage_table(std::span<const TrainingStage> stages) {
  Table table("stages (optim.stages)", {{"from step", Align::kRight},
                                        {"tokens before", Align::kRight},
                                        {"sequences a step", Align::kRight},
                                        {"tokens a sequence", Align::kRight},
                                        {"tokens a step", Align::kRight},
                                        {"peak learning rate", Align::kRight}});
  for (const TrainingStage& stage : stages) {
    table.row({count_text(stage.first_step), count_text(stage.first_token), count_text(stage.batch),
               count_text(stage.sequence), count_text(stage.batch * stage.sequence),
               fmt::format("{:.3g}", stage.peak_lr)});
  }
  return table;
}

Table work_table(const ExpectedWork& work) {
  Table table("expected work", {{""}, {"", Align::kRight}});
  const double step = work.flops_per_token * static_cast<double>(work.tokens_per_step);
  const double run = step * static_cast<double>(work.steps);
  table.row({"one token, causal attention (MFU)", compact(work.flops_per_token) + "FLOP"});
  table.row({"one token, full attention (MFU full)", compact(work.flops_per_token_full_attention) + "FLOP"});
  table.row({"one step", compact(step) + "FLOP"});
  if (work.steps > 0) table.row({"whole run", compact(run) + "FLOP"});
  const auto row_of_bytes = [&](const char* name, double bytes) {
    if (bytes > 0) table.row({name, bytes_text(static_cast<int64_t>(bytes))});
  };
  row_of_bytes("decoding keeps, a sequence", work.decoding_bytes);
  row_of_bytes("decoding keeps, a token", work.decoding_bytes_per_token);
  if (work.peak_flops_per_second > 0) {
    const std::string when = work.peak_measured_at > 0 ? ", " + wall_time_text(work.peak_measured_at) : "";
    table.row({"measured peak" + when, compact(work.peak_flops_per_second) + "FLOP/s"});
    const double rate = work.peak_flops_per_second * work.assumed_mfu;
    const std::string at = fmt::format(" at {:.0f} % of it", work.assumed_mfu * 100);
    table.row({"one step" + at, duration_text(step / rate)});
    if (work.steps > 0) table.row({"whole run" + at, duration_text(run / rate)});
  }
  return table;
}

}  // namespace longhaul::observe

#include "observe/watch/watch_screen.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/progress.h"
#include "base/text/text.h"
#include "observe/format.h"

namespace longhaul::observe {
namespace {

constexpr const char *kPlain = "\x1b[0m", *kDim = "\x1b[2m", *kGood = "\x1b[32m", *kWarn = "\x1b[33m",
                     *kBad = "\x1b[1;31m";
constexpr int kIncidentLines = 4;

// Cut to a width in cells; escape sequences of ours are not counted.
std::string cut_to(const std::string& line, int columns) {
  if (display_width(line) <= columns) return line;
  std::string out;
  int width = 0;
  for (size_t at = 0; at < line.size();) {
    size_t next = at + 1;
    while (next < line.size() && (static_cast<unsigned char>(line[next]) & 0xC0) == 0x80) ++next;
    const int cells = display_width(std::string_view(line).substr(at, next - at));
    if (width + cells > columns - 1) return out + "…";
    out += line.substr(at, next - at);
    width += cells;
    at = next;
  }
  return out;
}

class Screen {
 public:
  explicit Screen(const ScreenShape& shape) : shape_(shape) {}
  void line(const std::string& text, const char* style = nullptr) {
    if (static_cast<int>(lines_.size()) >= shape_.rows - 1) return;
    const std::string cut = cut_to(text, shape_.columns);
    lines_.push_back(shape_.colours && style != nullptr ? style + cut + kPlain : cut);
  }
  int left() const { return shape_.rows - 1 - static_cast<int>(lines_.size()); }
  int columns() const { return shape_.columns; }
  std::string text() const {
    std::string all;
    for (const std::string& each : lines_) all += each + "\n";
    return all;
  }

 private:
  const ScreenShape& shape_;
  std::vector<std::string> lines_;
};

const char* style_of(const StateText& state) {
  return state.kind == std::string_view("good")  ? kGood
         : state.kind == std::string_view("bad") ? kBad
                                                 : kWarn;
}

void add_head(Screen& screen, const RunView& run) {
  const StateText state = run.state();
  const int64_t step = run.step(), planned = run.planned_steps();
  std::string line =
      fmt::format("{}  {}  step {}", printable(run.name), printable(state.word), count_text(step));
  if (planned > 0) {
    const double share = std::clamp(static_cast<double>(step) / static_cast<double>(planned), 0.0, 1.0);
    std::string bar;
    for (int i = 0; i < 20; ++i) bar += i < static_cast<int>(std::lround(share * 20)) ? "█" : "░";
    line += fmt::format(" of {}  {} {:.1f} %", count_text(planned), bar, share * 100);
    const double left = static_cast<double>(planned - step) * run.seconds_a_step();
    if (left > 0 && !run.history.end) line += fmt::format("  {} to go", duration_text(left));
  }
  if (run.generation() > 1) line += fmt::format("  generation {}", run.generation());
  screen.line(line, style_of(state));
  if (!state.sentence.empty()) screen.line(state.sentence, kBad);
}

void add_numbers(Screen& screen, const RunView& run) {
  if (run.history.steps.empty()) return;
  const StepReport& last = run.history.steps.back();
  std::string line =
      fmt::format("loss {}   gradient {}   {} tokens/s   {} a step   effective {}", fixed(last.loss, 4),
                  fixed(last.grad_norm, 3), grouped(last.tokens_per_second),
                  milliseconds_text(run.seconds_a_step() * 1000), percent(run.effective_ratio()));
  if (last.mfu) line += "   MFU " + percent(*last.mfu);
  if (last.hfu && last.hfu != last.mfu) line += "   HFU " + percent(*last.hfu);
  if (const std::string others = others_text(run.taken_by_others()); !others.empty()) line += "   " + others;
  if (const auto skew = run.entry_skew_s())
    line += fmt::format("   ranks {} apart", milliseconds_text(*skew * 1000));
  if (!run.history.checkpoints.empty())
    line += fmt::format("   saved at step {}", count_text(run.history.checkpoints.back().step));
  screen.line(line);
  std::vector<double> losses;
  for (const StepReport& step : run.history.steps) losses.push_back(step.loss);
  screen.line(block_line(losses, screen.columns()), kDim);
}

void add_ranks(Screen& screen, const RunView& run) {
  if (run.status) {
    std::string nodes;
    for (const NodeStatus& node : run.status->nodes)
      nodes +=
          fmt::format("{}{} {}", nodes.empty() ? "" : "   ", printable(node.node), printable(node.state));
    if (!nodes.empty()) screen.line("nodes  " + nodes, kDim);
  }
  const bool known = run.status && !run.status->ranks.empty();
  if (!known && run.latencies.rows.empty()) return;
  screen.line(fmt::format("{:>5}  {:<14} {:<9} {:<14} {:>7}  {:>9}  {:>9}  {:>6}  {:>8}  {:>8}", "rank",
                          "node", "state", "phase", "step", "step time", "work", "z", "heard", "progress"),
              kDim);
  // If there are more ranks than lines, those with problems are shown.
  std::vector<std::pair<double, std::string>> lines;
  const auto work_of = [&](int64_t rank) {
    return std::ranges::find(run.latencies.rows, rank, &LatencyMap::Row::rank);
  };
  std::vector<std::pair<int64_t, const RankStatus*>> ranks;
  if (known) {
    for (const RankStatus& rank : run.status->ranks) ranks.emplace_back(rank.rank, &rank);
  } else {
    for (const auto& row : run.latencies.rows) ranks.emplace_back(row.rank, nullptr);
  }
  for (const auto& [number, rank] : ranks) {
    const auto row = work_of(number);
    const bool measured = row != run.latencies.rows.end();
    const std::string work = measured ? milliseconds_text(row->work * 1000) : "-",
                      z = measured && std::isfinite(row->work_z) ? fmt::format("{:+.1f}", row->work_z) : "-";
    double trouble = measured && row->straggler ? row->work_z : 0;
    if (rank == nullptr) {
      lines.emplace_back(trouble, fmt::format("{:>5}  {:<14} {:<9} {:<14} {:>7}  {:>9}  {:>9}  {:>6}", number,
                                              "", "", "", "", "", work, z));
      continue;
    }
    if (rank->state != "running") trouble += 1e6;
    if (rank->progress_age_s > 30) trouble += rank->progress_age_s;
    lines.emplace_back(
        trouble, fmt::format("{:>5}  {:<14} {:<9} {:<14} {:>7}  {:>9}  {:>9}  {:>6}  {:>6.1f} s  {:>6.1f} s",
                             rank->rank, printable(brief(rank->node, 14)), printable(rank->state),
                             printable(brief(rank->doing(), 20)), rank->step,
                             milliseconds_text(rank->step_seconds * 1000), work, z, rank->beat_age_s,
                             rank->progress_age_s));
  }
  const auto room = static_cast<size_t>(std::max(3, screen.left() - 2 - 2 * kIncidentLines));
  const size_t all = lines.size();
  if (all > room) {
    std::ranges::stable_sort(lines, std::greater<>(), &std::pair<double, std::string>::first);
    lines.resize(room);
  }
  for (const auto& [trouble, text] : lines) screen.line(text, trouble > 0 ? kBad : nullptr);
  if (all > room) screen.line(fmt::format("       and {} more", all - room), kDim);
}

void add_incidents(Screen& screen, const RunView& run) {
  int shown = 0;
  for (auto each = run.incidents.rbegin(); each != run.incidents.rend() && shown < kIncidentLines;
       ++each, ++shown) {
    if (shown == 0)
      screen.line(
          fmt::format("{}, the last:", counted(static_cast<int64_t>(run.incidents.size()), "incident")),
          kDim);
    std::string text =
        fmt::format("  {}  {}", each->wall_time > 0 ? wall_time_text(each->wall_time).substr(0, 19) : "",
                    printable(each->fault));
    if (each->rank >= 0) text += fmt::format(", rank {}", each->rank);
    if (!each->node.empty()) text += " on " + printable(each->node);
    text += ": " + printable(each->action);
    if (each->recovered_milliseconds)
      text += fmt::format(", training after {}", milliseconds_text(*each->recovered_milliseconds));
    screen.line(text);
  }
}

}  // namespace

std::string block_line(const std::vector<double>& values, int columns) {
  static constexpr const char* kBlocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
  const size_t count = std::min(values.size(), static_cast<size_t>(std::max(columns, 1)));
  std::vector<double> means;
  for (size_t c = 0; c < count; ++c) {
    double sum = 0;
    int64_t finite = 0;
    for (size_t i = c * values.size() / count; i < (c + 1) * values.size() / count; ++i) {
      if (std::isfinite(values[i])) sum += values[i], ++finite;
    }
    means.push_back(finite > 0 ? sum / static_cast<double>(finite) : std::nan(""));
  }
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double mean : means) {
    if (std::isfinite(mean)) low = std::min(low, mean), high = std::max(high, mean);
  }
  std::string line;
  for (const double mean : means) {
    const double place = high > low ? (mean - low) / (high - low) : 0;
    line += std::isfinite(mean) ? kBlocks[std::clamp(static_cast<int>(place * 8), 0, 7)] : " ";
  }
  return line;
}

std::string watch_screen(const RunView& run, const std::vector<Alert>& firing, const ScreenShape& shape) {
  Screen screen(shape);
  add_head(screen, run);
  for (const Alert& alert : firing)
    screen.line(fmt::format("{}: {}", alert.name, printable(alert.summary)),
                alert.severity == "critical" ? kBad : kWarn);
  add_numbers(screen, run);
  add_ranks(screen, run);
  add_incidents(screen, run);
  return screen.text();
}

}  // namespace longhaul::observe

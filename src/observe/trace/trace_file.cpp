#include "observe/trace/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/log.h"
#include "base/text/json.h"
#include "base/text/number.h"

namespace longhaul::observe {
namespace {

using nlohmann::json;

constexpr int64_t kSchema = 1;
constexpr JsonRules kTraceRules{.what = "cannot read the trace of a rank",
                                .hint = "move it away; the next start writes a new one"};

std::filesystem::path folder_of(const std::filesystem::path& run) { return run / "trace"; }

json json_of(const TraceRank& rank) {
  return {{"schema", kSchema},
          {"rank", rank.rank},
          {"generation", rank.generation},
          {"place", {rank.pp, rank.dp, rank.cp, rank.tp}},
          {"clock_offset_ns", rank.clock_offset_ns},
          {"clock_error_ns", rank.clock_error_ns}};
}

// Times within a step are counted from its begin; they are negative for a call that was started in the step
// before. Null: there was none.
json json_of(const StepTrace& step) {
  const auto at = [&](int64_t time) { return time == 0 ? json() : json(time - step.begin_ns); };
  json spans = json::array(), calls = json::array();
  for (const Span& span : step.spans) {
    spans.push_back(
        {static_cast<int>(span.kind), at(span.begin_ns), at(span.end_ns), span.chunk, span.micro_batch});
  }
  for (const CallSpan& call : step.calls) {
    calls.push_back({call.group, call.kind, call.name, call.sequence, call.sent, call.received, call.sends_to,
                     call.receives_from, at(call.begin_ns), at(call.end_ns), at(call.started_ns),
                     at(call.waited_from_ns), at(call.waited_until_ns)});
  }
  json line = {{"step", step.step},     {"begin_ns", step.begin_ns},
               {"end_ns", step.end_ns}, {"dropped", step.dropped},
               {"spans", spans},        {"calls", calls}};
  for (const BesideSpan& span : step.beside)
    line["beside"].push_back({span.name, at(span.begin_ns), at(span.end_ns)});
  return line;
}

TraceRank rank_of(const JsonView& line) {
  line.at("schema").integer(kSchema, kSchema);
  TraceRank rank{.rank = line.at("rank").integer(0),
                 .generation = line.at("generation").integer(0),
                 .clock_offset_ns = line.at("clock_offset_ns").integer(),
                 .clock_error_ns = line.at("clock_error_ns").integer(0)};
  const JsonView place = line.at("place");
  int64_t* const coordinates[] = {&rank.pp, &rank.dp, &rank.cp, &rank.tp};
  for (size_t i = 0; i < 4; ++i) *coordinates[i] = place.at(i).integer(0);
  return rank;
}

std::vector<int64_t> ranks_at(const JsonView& list) {
  std::vector<int64_t> ranks;
  for (size_t i = 0; i < list.array_size(); ++i) ranks.push_back(list.at(i).integer(0));
  return ranks;
}

StepTrace step_of(const JsonView& line, int64_t offset_ns) {
  StepTrace step{.step = line.at("step").integer(0),
                 .begin_ns = line.at("begin_ns").integer() + offset_ns,
                 .end_ns = line.at("end_ns").integer() + offset_ns,
                 .dropped = line.at("dropped").integer(0)};
  const auto time = [&](const JsonView& view) { return view.is_null() ? 0 : step.begin_ns + view.integer(); };
  const JsonView spans = line.at("spans"), calls = line.at("calls");
  for (size_t i = 0; i < spans.array_size(); ++i) {
    const JsonView each = spans.at(i);
    step.spans.push_back({.kind = static_cast<SpanKind>(each.at(size_t{0}).integer(0, kSpanKinds - 1)),
                          .begin_ns = time(each.at(1)),
                          .end_ns = time(each.at(2)),
                          .chunk = each.at(3).integer(-1),
                          .micro_batch = each.at(4).integer(-1)});
  }
  for (size_t i = 0; i < calls.array_size(); ++i) {
    const JsonView each = calls.at(i);
    step.calls.push_back({.group = each.at(size_t{0}).string(),
                          .kind = each.at(1).string(),
                          .name = each.at(2).string(),
                          .sequence = each.at(3).integer(0),
                          .sent = each.at(4).integer(0),
                          .received = each.at(5).integer(0),
                          .sends_to = ranks_at(each.at(6)),
                          .receives_from = ranks_at(each.at(7)),
                          .begin_ns = time(each.at(8)),
                          .end_ns = time(each.at(9)),
                          .started_ns = time(each.at(10)),
                          .waited_from_ns = time(each.at(11)),
                          .waited_until_ns = time(each.at(12))});
  }
  if (!line.has("beside")) return step;
  const JsonView beside = line.at("beside");
  for (size_t i = 0; i < beside.array_size(); ++i) {
    const JsonView each = beside.at(i);
    step.beside.push_back({each.at(size_t{0}).string(), time(each.at(1)), time(each.at(2))});
  }
  return step;
}

std::optional<int64_t> whole_number(std::string_view text) {
  const std::optional<int64_t> number = parse_number<int64_t>(text);
  return number && *number >= 0 ? number : std::nullopt;
}

// The complete lines.
std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::vector<std::filesystem::path> files_of(const std::filesystem::path& run) {
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder_of(run))) return files;
  for (const auto& file : list_files(folder_of(run))) {
    const std::string name = file.filename().string();
    if (name.starts_with("rank-") && name.ends_with(".jsonl")) files.push_back(file);
  }
  return files;
}

RankTrace read_file(const std::filesystem::path& path, const StepChoice& choice) {
  const std::string text = read_text(path);
  RankTrace trace;
  std::map<int64_t, StepTrace> steps;
  int64_t number = 0;
  for (const std::string_view line : lines_of(text)) {
    const std::string where = fmt::format("{}, line {}", path.string(), ++number);
    auto step = trace_line(line, where, trace.rank);
    if (step && step->step >= choice.first && step->step <= choice.last) steps[step->step] = std::move(*step);
  }
  for (auto& [step, record] : steps) trace.steps.push_back(std::move(record));
  return trace;
}

}  // namespace

std::optional<StepTrace> trace_line(std::string_view line, const std::string& where, TraceRank& rank) {
  const json parsed = parse_json(line, where, kTraceRules);
  const JsonView view(parsed, where, kTraceRules);
  if (!view.has("schema")) return step_of(view, rank.clock_offset_ns);
  rank = rank_of(view);
  return std::nullopt;
}

TraceWriter::TraceWriter(const std::filesystem::path& run_folder, const TraceRank& rank, int64_t most_bytes)
    : most_bytes_(most_bytes) {
  make_folders(folder_of(run_folder));
  const auto path = folder_of(run_folder) / fmt::format("rank-{}.jsonl", rank.rank);
  file_ = File::open(path, File::Mode::kAppend);
  const std::string earlier = read_text(path);
  bytes_ = static_cast<int64_t>(earlier.rfind('\n') + 1);  // npos + 1 is 0
  if (bytes_ < static_cast<int64_t>(earlier.size())) file_.truncate(bytes_);
  append(json_of(rank).dump() + "\n");
}

void TraceWriter::append(const std::string& line) {
  if (full_) return;
  if (bytes_ + static_cast<int64_t>(line.size()) > most_bytes_) {
    full_ = true;
    log_warning("{} has grown to {} MiB: no more steps are recorded", file_.path().string(), bytes_ >> 20);
    return;
  }
  try {
    file_.write(line);
    bytes_ += static_cast<int64_t>(line.size());
  } catch (const Error& error) {
    full_ = true;
    log_warning("no more steps are recorded: {}", error.what());
  }
}

void TraceWriter::write(const StepTrace& step) {
  append(json_of(step).dump(-1, ' ', false, json::error_handler_t::replace) + "\n");
}

StepChoice step_choice(const std::string& text) {
  if (text.empty()) return {};
  const size_t dash = text.find('-');
  const auto first = whole_number(text.substr(0, dash));
  const auto last = dash == std::string::npos ? first : whole_number(text.substr(dash + 1));
  if (first && last && *first <= *last) return {*first, *last};
  throw Error({.code = ExitCode::kUsage,
               .what = "these are no steps",
               .expected = "a step, or the first and the last of some",
               .found = text,
               .where = "--steps",
               .hint = "--steps 20-40"});
}

void require_steps(const std::vector<RankTrace>& ranks, const std::filesystem::path& run_folder,
                   const std::string& chosen) {
  if (std::ranges::any_of(ranks, [](const RankTrace& rank) { return !rank.steps.empty(); })) return;
  std::vector<int64_t> all;
  for (const RankTrace& rank : read_trace(run_folder)) {
    for (const StepTrace& step : rank.steps) all.push_back(step.step);
  }
  const auto [first, last] = std::ranges::minmax_element(all);
  throw Error(
      {.code = ExitCode::kData,
       .what =
           chosen.empty() ? "no step of this run has been recorded yet" : "none of these steps was recorded",
       .expected = all.empty() ? "at least one" : fmt::format("some of the steps {} to {}", *first, *last),
       .found = chosen.empty() ? "none" : chosen,
       .where = folder_of(run_folder).string(),
       .hint = all.empty() ? "let the run go on to a step that observe.trace_every names"
                           : "leave out --steps: all are shown"});
}

bool has_trace(const std::filesystem::path& run_folder) { return !files_of(run_folder).empty(); }

std::vector<RankTrace> read_trace(const std::filesystem::path& run_folder, const StepChoice& steps) {
  std::vector<RankTrace> ranks;
  for (const auto& file : files_of(run_folder)) ranks.push_back(read_file(file, steps));
  if (ranks.empty()) {
    throw Error({.code = ExitCode::kData,
                 .what = "this run has no trace",
                 .expected = "files rank-<n>.jsonl",
                 .found = std::filesystem::is_directory(run_folder) ? "none" : "no such folder",
                 .where = folder_of(run_folder).string(),
                 .hint = "train with observe.trace_every=10: every tenth step is recorded; a run can be gone "
                         "on with so"});
  }
  std::ranges::sort(ranks, {}, [](const RankTrace& trace) { return trace.rank.rank; });
  return ranks;
}

std::vector<RankTrace> read_last_step(const std::filesystem::path& run_folder) {
  if (!has_trace(run_folder)) return {};
  std::vector<RankTrace> ranks = read_trace(run_folder);
  int64_t generation = 0;
  for (const RankTrace& rank : ranks) generation = std::max(generation, rank.rank.generation);
  // The run may have fewer ranks now.
  std::erase_if(ranks, [&](const RankTrace& rank) { return rank.rank.generation < generation; });
  std::map<int64_t, size_t> seen;
  for (const RankTrace& rank : ranks) {
    for (const StepTrace& step : rank.steps) ++seen[step.step];
  }
  const auto last =
      std::find_if(seen.rbegin(), seen.rend(), [&](const auto& each) { return each.second == ranks.size(); });
  if (last == seen.rend()) return {};
  for (RankTrace& rank : ranks)
    std::erase_if(rank.steps, [&](const StepTrace& step) { return step.step != last->first; });
  return ranks;
}

}  // namespace longhaul::observe

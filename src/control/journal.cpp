#include "control/journal.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/text/text.h"
#include "control/wire/record.h"

namespace longhaul::control {
namespace {

constexpr JsonRules kJournalRules{.code = ExitCode::kDisk,
                                  .what = "the driver's journal is damaged",
                                  .hint =
                                      "move RUN/control/journal.jsonl away: the run goes on from its newest "
                                      "checkpoint, with its history forgotten"};
constexpr std::string_view kChecksumKey = ",\"crc32c\":\"";
constexpr size_t kChecksumDigits = 8;

template <class T>
constexpr std::string_view kEntry = "";
template <>
constexpr std::string_view kEntry<DriverBegan> = "driver_began";
template <>
constexpr std::string_view kEntry<StateChanged> = "state";
template <>
constexpr std::string_view kEntry<NodeChanged> = "node";
template <>
constexpr std::string_view kEntry<GenerationBegan> = "generation_began";
template <>
constexpr std::string_view kEntry<GenerationResumed> = "generation_resumed";
template <>
constexpr std::string_view kEntry<StepCommitted> = "committed";
template <>
constexpr std::string_view kEntry<IncidentOpened> = "incident_opened";
template <>
constexpr std::string_view kEntry<IncidentDiagnosed> = "incident_diagnosed";
template <>
constexpr std::string_view kEntry<IncidentClosed> = "incident_closed";
template <>
constexpr std::string_view kEntry<SearchChanged> = "search";
template <>
constexpr std::string_view kEntry<SamplesSkipped> = "samples_skipped";
template <>
constexpr std::string_view kEntry<GenerationEnded> = "generation_ended";
template <>
constexpr std::string_view kEntry<RunEnded> = "run_ended";

JournalEntry entry_from_line(std::string_view line, const std::string& where) {
  nlohmann::json json = parse_json(line, where, kJournalRules);
  const JsonView whole(json, where + ":", kJournalRules);
  whole.require(json.is_object(), "one JSON object a line");
  const size_t checked = line.rfind(kChecksumKey);
  whole.require(
      checked != std::string_view::npos && line.size() == checked + kChecksumKey.size() + kChecksumDigits + 2,
      "a checksum at its end");
  const std::string expected = fmt::format("{:08x}", crc32c(line.substr(0, checked)));
  whole.require(line.substr(checked + kChecksumKey.size(), kChecksumDigits) == expected,
                "checksum " + expected);

  JournalEntry entry;
  entry.sequence = whole.at("sequence").integer(1);
  entry.at_s = whole.at("at_s").number();
  const std::string kind = whole.at("entry").string();
  for (const char* key : {"sequence", "at_s", "entry", "crc32c"}) json.erase(key);
  const JsonView view(json, where + ":" + brief(printable(kind), 40), kJournalRules);
  bool found = false;
  const auto try_kind = [&]<class T>() {
    if (found || kEntry<T> != kind) return;
    found = true;
    read_record(view, entry.body.emplace<T>());
  };
  [&]<size_t... i>(std::index_sequence<i...>) {
    (try_kind.template operator()<std::variant_alternative_t<i, JournalBody>>(), ...);
  }
  (std::make_index_sequence<std::variant_size_v<JournalBody>>{});
  view.require(found, "an entry that this version knows");
  return entry;
}

}  // namespace

std::string to_line(const JournalEntry& entry) {
  nlohmann::ordered_json json;
  json["sequence"] = entry.sequence;
  json["at_s"] = entry.at_s;
  json["entry"] = std::string(
      std::visit([](const auto& body) { return kEntry<std::remove_cvref_t<decltype(body)>>; }, entry.body));
  const nlohmann::json body =
      std::visit([](const auto& fields) { return record_to_json(fields); }, entry.body);
  for (const auto& [key, value] : body.items()) json[key] = value;
  std::string text = json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.pop_back();
  return fmt::format("{}{}{:08x}\"}}\n", text, kChecksumKey, crc32c(text));
}

Journal journal_from_text(std::string_view text, const std::string& where) {
  Journal journal;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    if (end == std::string_view::npos) break;  // torn by a crash
    const std::string line_where = fmt::format("{}:{}", where, journal.entries.size() + 1);
    JournalEntry entry = entry_from_line(text.substr(begin, end - begin), line_where);
    const auto due = static_cast<int64_t>(journal.entries.size()) + 1;
    if (entry.sequence != due) {
      throw Error({.code = kJournalRules.code,
                   .what = std::string(kJournalRules.what),
                   .expected = fmt::format("entry {}", due),
                   .found = fmt::format("entry {}", entry.sequence),
                   .where = line_where,
                   .hint = std::string(kJournalRules.hint)});
    }
    journal.entries.push_back(std::move(entry));
    begin = end + 1;
    journal.whole_bytes = static_cast<int64_t>(begin);
  }
  return journal;
}

}  // namespace longhaul::control

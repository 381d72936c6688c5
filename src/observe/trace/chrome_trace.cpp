#include "observe/trace/chrome_trace.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "observe/trace/timeline.h"

namespace longhaul::observe {
namespace {

using nlohmann::ordered_json;

double microseconds(int64_t ns) { return static_cast<double>(ns) * 1e-3; }

class ChromeSink : public TimelineSink {
 public:
  explicit ChromeSink(const std::function<void(std::string_view)>& write) : write_(write) {
    write_("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[");
  }
  void finish() { write_("\n]}\n"); }

  void slices(const std::vector<TimelineSlice>& slices) override {
    for (const TimelineSlice& each : slices) {
      add({{"name", each.name},
           {"cat", each.category},
           {"ph", "X"},
           {"ts", microseconds(each.time.begin)},
           {"dur", microseconds(each.time.end - each.time.begin)},
           {"pid", each.rank},
           {"tid", each.row},
           {"args", each.arguments}});
      for (const int64_t message : each.sends) arrow("s", each, message, each.time.begin);
      for (const int64_t message : each.receives)
        arrow("f", each, message, std::max(each.time.begin, each.time.end - 1));
    }
  }
  void name_rank(const TraceRank& rank, const std::string& name) override {
    metadata("process_name", rank.rank, 0, {{"name", name}});
    metadata("process_sort_index", rank.rank, 0, {{"sort_index", rank.rank}});
  }
  void name_row(int64_t rank, int64_t row, const std::string& name) override {
    metadata("thread_name", rank, row, {{"name", name}});
    metadata("thread_sort_index", rank, row, {{"sort_index", row}});
  }

 private:
  void add(const ordered_json& event) {
    write_(first_ ? "\n" : ",\n");
    write_(event.dump(-1, ' ', false, ordered_json::error_handler_t::replace));
    first_ = false;
  }
  void metadata(const char* what, int64_t rank, int64_t row, ordered_json arguments) {
    add({{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", row}, {"args", std::move(arguments)}});
  }
  void arrow(const char* phase, const TimelineSlice& slice, int64_t message, int64_t ns) {
    ordered_json event{{"name", "message"},      {"cat", "message"},  {"ph", phase},     {"id", message},
                       {"ts", microseconds(ns)}, {"pid", slice.rank}, {"tid", slice.row}};
    if (phase[0] == 'f') event["bp"] = "e";
    add(event);
  }

  const std::function<void(std::string_view)>& write_;
  bool first_ = true;
};

}  // namespace

void write_chrome_trace(const std::vector<RankTrace>& ranks,
                        const std::function<void(std::string_view)>& write) {
  ChromeSink sink(write);
  walk_timeline(ranks, sink);
  sink.finish();
}

}  // namespace longhaul::observe

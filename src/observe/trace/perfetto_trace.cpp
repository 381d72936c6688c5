#include "observe/trace/perfetto_trace.h"

#include <algorithm>
#include <limits>
#include <map>

#include "observe/protobuf.h"
#include "observe/trace/timeline.h"

namespace longhaul::observe {
namespace {

using Message = ProtobufMessage;

// Field numbers.
constexpr int kPacket = 1;
// TracePacket
constexpr int kTimestamp = 8, kSequence = 10, kTrackEvent = 11, kSequenceFlags = 13, kTrackDescriptor = 60;
// TrackDescriptor
constexpr int kUuid = 1, kName = 2, kProcess = 3, kParent = 5, kChildOrdering = 11, kOrderRank = 12;
// ProcessDescriptor
constexpr int kPid = 1, kProcessName = 6;
// TrackEvent
constexpr int kAnnotation = 4, kType = 9, kTrack = 11, kCategory = 22, kEventName = 23, kFlow = 47,
              kTerminatingFlow = 48;
constexpr int kNoteInt = 4, kNoteDouble = 5, kNoteString = 6, kNoteName = 10;  // DebugAnnotation
constexpr uint64_t kBegin = 1, kEnd = 2, kInstant = 3;
constexpr uint64_t kExplicitOrder = 3, kStateCleared = 1;

uint64_t track_of(int64_t rank, int64_t row) {
  return static_cast<uint64_t>(rank + 1) << 20 | static_cast<uint64_t>(row);
}  // row 0: the rank

class PerfettoSink : public TimelineSink {
 public:
  explicit PerfettoSink(const std::function<void(std::string_view)>& write) : write_(write) {}

  void slices(const std::vector<TimelineSlice>& slices) override {
    std::map<int64_t, std::vector<const TimelineSlice*>> rows;
    for (const TimelineSlice& each : slices) rows[each.row].push_back(&each);
    for (auto& [row, of_row] : rows) {
      std::ranges::stable_sort(of_row, {},
                               [](const TimelineSlice* s) { return std::pair(s->time.begin, -s->time.end); });
      nested(of_row);
    }
  }
  void name_rank(const TraceRank& rank, const std::string& name) override {
    Message process, track;
    process.number(kPid, static_cast<uint64_t>(rank.rank + 1)).text(kProcessName, name);
    track.number(kUuid, track_of(rank.rank, 0))
        .message(kProcess, process)
        .number(kChildOrdering, kExplicitOrder);
    describe(track.number(kOrderRank, static_cast<uint64_t>(rank.rank)));
  }
  void name_row(int64_t rank, int64_t row, const std::string& name) override {
    Message track;
    track.number(kUuid, track_of(rank, row)).text(kName, name).number(kParent, track_of(rank, 0));
    describe(track.number(kOrderRank, static_cast<uint64_t>(row)));
  }

 private:
  void packet(Message& message) {
    message.number(kSequence, 1);
    if (first_) message.number(kSequenceFlags, kStateCleared);
    first_ = false;
    write_(Message().message(kPacket, message).bytes());
  }
  void describe(const Message& track) {
    Message message;
    packet(message.message(kTrackDescriptor, track));
  }
  void event(int64_t ns, const Message& track_event) {
    Message message;
    // Times begin above 0: a call may have begun in the step before the first.
    packet(message.number(kTimestamp, static_cast<uint64_t>(std::max<int64_t>(0, ns + kFirst_ns)))
               .message(kTrackEvent, track_event));
  }

  // Begins and ends in the order of time, each within those around it.
  void nested(const std::vector<const TimelineSlice*>& slices) {
    std::vector<int64_t> open;  // ends
    const auto close_until = [&](int64_t ns, uint64_t track) {
      while (!open.empty() && open.back() <= ns) {
        event(open.back(), Message().number(kType, kEnd).number(kTrack, track));
        open.pop_back();
      }
    };
    for (const TimelineSlice* each : slices) {
      const uint64_t track = track_of(each->rank, each->row);
      close_until(each->time.begin, track);
      event(each->time.begin, begin_of(*each, track));
      open.push_back(open.empty() ? each->time.end : std::min(open.back(), each->time.end));
      if (each->receives.empty()) continue;
      Message arrived;  // at its end, because it may have been requested before it was sent
      arrived.number(kType, kInstant)
          .number(kTrack, track)
          .text(kCategory, "message")
          .text(kEventName, "received");
      for (const int64_t message : each->receives)
        arrived.fixed(kTerminatingFlow, static_cast<uint64_t>(message));
      event(std::max(each->time.begin, open.back() - 1), arrived);
    }
    if (!slices.empty())
      close_until(std::numeric_limits<int64_t>::max(), track_of(slices.front()->rank, slices.front()->row));
  }

  static Message begin_of(const TimelineSlice& slice, uint64_t track) {
    Message begin;
    begin.number(kType, kBegin)
        .number(kTrack, track)
        .text(kCategory, slice.category)
        .text(kEventName, slice.name);
    for (const auto& [name, value] : slice.arguments.items()) {
      Message note;
      note.text(kNoteName, name);
      if (value.is_number_integer())
        note.number(kNoteInt, static_cast<uint64_t>(value.get<int64_t>()));
      else if (value.is_number())
        note.real(kNoteDouble, value.get<double>());
      else
        note.text(kNoteString, value.is_string() ? value.get<std::string>() : value.dump());
      begin.message(kAnnotation, note);
    }
    for (const int64_t message : slice.sends) begin.fixed(kFlow, static_cast<uint64_t>(message));
    return begin;
  }

  static constexpr int64_t kFirst_ns = 1'000'000'000;
  const std::function<void(std::string_view)>& write_;
  bool first_ = true;
};

}  // namespace

void write_perfetto_trace(const std::vector<RankTrace>& ranks,
                          const std::function<void(std::string_view)>& write) {
  PerfettoSink sink(write);
  walk_timeline(ranks, sink);
}

}  // namespace longhaul::observe

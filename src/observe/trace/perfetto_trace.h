// Writes a trace as Perfetto's protobuf, which has about a tenth of the size of Chrome's JSON and none of its
// limits: a process per rank, a track per row, flows from sends to their receives. It is written by hand,
// because it needs only a dozen fields of a format that only grows (google/perfetto,
// protos/perfetto/trace/trace_packet.proto, track_event.proto, track_descriptor.proto). The file is a series
// of packets, so one that was cut short still opens.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "observe/trace/trace_file.h"

namespace longhaul::observe {

void write_perfetto_trace(const std::vector<RankTrace>& ranks,
                          const std::function<void(std::string_view)>& write);

}  // namespace longhaul::observe

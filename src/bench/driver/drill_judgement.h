// The judgement of a supervised run that met drills (bench/driver/faults.h), from the events that it left.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/fault_point.h"
#include "bench/driver/faults.h"
#include "observe/events/event.h"

namespace longhaul::bench {

// Whether an alarm of a rank's says that the disk was full: saving failed, or older checkpoints made room.
bool tells_of_a_full_disk(std::string_view alarm_kind);
// When the driver told that this rank is slower than its peers: Unix seconds.
std::vector<double> straggler_alarms(const std::filesystem::path& run, int64_t rank);

struct RunJudgement {
  bool ended = false, same_bits = false;
  std::string problem, lost;
  std::map<int64_t, observe::IncidentReport> incidents;  // by the generation they ended
  // when it was told that a checkpoint was not saved: Unix seconds
  std::vector<double> disk_alarms;
  std::map<int64_t, std::vector<double>> straggler_alarms;  // by rank, likewise
};

// Returns those of the `missing` steps that no `events_lost` alarm among the events `told` names.
std::vector<int64_t> missing_in_silence(const std::vector<int64_t>& missing,
                                        const std::vector<observe::Event>& told);

// status: of `launch`, see run_drills. undisturbed: the same run without faults.
RunJudgement judge(const std::optional<int>& status, const std::filesystem::path& run,
                   const std::filesystem::path& undisturbed, int64_t ranks);

// mark: that the fault left when it came; nothing: it did not. explained: the incident of its generation
// names what a later drill of this generation did.
DrillOutcome outcome_of(const Drill& drill, int64_t ranks, const std::optional<FaultMark>& mark,
                        bool explained, const RunJudgement& judgement);

}  // namespace longhaul::bench

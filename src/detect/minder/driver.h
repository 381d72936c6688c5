// The reaction to an alert: the machine is blocked, so that nothing is placed on it again, and replaced, so
// that the run continues from its checkpoint. A MachineDriver does both for one cluster (Kubernetes, Slurm,
// or the user's own command). A Responder decides which alerts lead to it: each machine at most once, and
// only so many machines an hour that a wrong detector cannot empty the cluster.
#pragma once

#include <deque>
#include <optional>
#include <set>
#include <string>

#include "detect/minder/detector.h"

namespace longhaul::detect {

class MachineDriver {
 public:
  virtual ~MachineDriver() = default;
  virtual void block(const Alert& alert) = 0;  // throws when it fails
  // Returns the machine that takes its place; nothing: there is no spare. Throws when it fails.
  virtual std::optional<std::string> replace(const std::string& machine) = 0;
};

// Runs `COMMAND block MACHINE METRIC FIRST_SECOND` and `COMMAND replace MACHINE`, which prints the new
// machine's name, or nothing.
class CommandDriver final : public MachineDriver {
 public:
  explicit CommandDriver(std::string command) : command_(std::move(command)) {}
  void block(const Alert& alert) override;
  std::optional<std::string> replace(const std::string& machine) override;

 private:
  std::string run(const std::vector<std::string>& words) const;
  std::string command_;
};

struct Response {
  enum class Kind { kReplaced, kNoSpare, kBlockedBefore, kTooMany, kFailed };
  Kind kind = Kind::kReplaced;
  std::string machine, replacement, problem;
};
std::string text_of(const Response& response);

class Responder {
 public:
  Responder(MachineDriver& driver, int64_t most_an_hour) : driver_(driver), most_an_hour_(most_an_hour) {}
  Response act_on(const Alert& alert);  // Does not throw for errors of the driver: the response reports them.

 private:
  MachineDriver& driver_;
  int64_t most_an_hour_;
  std::set<std::string> blocked_;
  std::deque<double> times_s_;
};

}  // namespace longhaul::detect

// Engine: what started this job, and what can be asked of it: another machine for one that failed, to take a machine back, to queue the job again,
// and until when it lasts (docs/sources/reliability.md §6). Adapters speak the engines' own commands (scontrol, sinfo, kubectl), as whoever is logged in
// there; in a pod they need a service account with the rights that deploy/kubernetes-rights.yaml gives.
//
//   const std::unique_ptr<Engine> engine = find_engine();
//   if (const auto end = engine->deadline()) …                        // Unix seconds: save before
//   const std::string done = engine->release_node("n7", "Xid 79");    // what was done, for the record; Error 69 where the engine says no
//
// A command is given a minute. Not for several threads at once.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/process/process.h"
#include "control/wire/placement.h"

namespace longhaul::control {

struct Discovery {
  Placement place;
  std::string run_id;              // of the engine: a job's number or name; empty: it gives none
  int64_t restarts = 0;            // that the engine has made of this job so far
  std::vector<std::string> hosts;  // of the job, where the engine says them
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  virtual Discovery discover() const = 0;
  virtual std::optional<double> deadline() const = 0;  // when the job will be ended, Unix seconds
  // A host on which a node daemon may be started, none of `exclude`; nothing: there is none, or the engine starts one by itself.
  virtual std::optional<std::string> request_node(const std::vector<std::string>& exclude) = 0;
  // What to run here so that these words run there; empty: the engine has no such way. Asks nobody.
  virtual std::vector<std::string> words_to_start_on(const std::string& host, std::vector<std::string> words) const = 0;
  virtual std::string release_node(const std::string& host, const std::string& reason) = 0;
  // Seconds within which a machine comes in the place of one that is gone; 0: none does.
  virtual double replacement_s() const = 0;
  virtual std::string requeue() = 0;  // the job ends, and comes again from its beginning
  // Whether ranks may be started anew by us while the engine's job goes on. Not under a launcher that owns the processes itself.
  virtual bool restarts_in_place() const = 0;
};

// Runs a command of the engine; tests give their own.
using EngineCommand = std::function<ProcessResult(const std::vector<std::string>& words)>;
ProcessResult run_engine_command(const std::vector<std::string>& words);

// Who placed this process (control/wire/placement.h), else whose job this is: Slurm's, outside a step; a pod's; nobody's.
std::unique_ptr<Engine> find_engine(const Environment& environment = variable, EngineCommand command = run_engine_command);

}  // namespace longhaul::control

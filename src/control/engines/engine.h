// Engine: the system that started this job, and the requests that it understands: to give another machine for
// one that failed, to take a machine back, to queue the job again, and to say until when the job may run
// (docs/sources/reliability.md §6). Adapters use the engines' own commands (scontrol, sinfo, kubectl) with
// the rights of the user who is logged in; in a pod they need a service account with the rights in
// deploy/kubernetes-rights.yaml.
//
//   const std::unique_ptr<Engine> engine = find_engine();
//   if (const auto end = engine->deadline()) …                        // Unix seconds: save before then
//   // what was done; Error 69 if the engine refuses
//   const std::string done = engine->release_node("n7", "Xid 79");
//
// Each command may take a minute. The class is not thread-safe.
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
  std::string run_id;              // the engine's number or name of the job; empty: it gives none
  int64_t restarts = 0;            // restarts of this job by the engine so far
  std::vector<std::string> hosts;  // hosts of the job, where the engine lists them
};

class Engine {
 public:
  virtual ~Engine() = default;
  virtual std::string name() const = 0;
  virtual Discovery discover() const = 0;
  virtual std::optional<double> deadline() const = 0;  // when the engine will end the job, in Unix seconds
  // A host on which a node daemon may be started, none of `exclude`. Nothing: there is none, or the engine
  // starts the daemon by itself.
  virtual std::optional<std::string> request_node(const std::vector<std::string>& exclude) = 0;
  // The command line to run here so that `words` run on `host`; empty: the engine has no such way. No command
  // is run.
  virtual std::vector<std::string> words_to_start_on(const std::string& host,
                                                     std::vector<std::string> words) const = 0;
  virtual std::string release_node(const std::string& host, const std::string& reason) = 0;
  // Seconds within which a machine comes in the place of one that is gone; 0: none comes.
  virtual double replacement_s() const = 0;
  virtual std::string requeue() = 0;  // ends the job and starts it again from its beginning
  // Whether this program may restart ranks while the engine's job goes on. It may not under a launcher that
  // owns the processes itself.
  virtual bool restarts_in_place() const = 0;
};

// EngineCommand runs a command of the engine; tests give their own function.
using EngineCommand = std::function<ProcessResult(const std::vector<std::string>& words)>;
ProcessResult run_engine_command(const std::vector<std::string>& words);

// The engine that placed this process (control/wire/placement.h); else the engine whose job this is: Slurm
// outside a step, or Kubernetes in a pod; else the engine of a process that nobody started.
std::unique_ptr<Engine> find_engine(const Environment& environment = variable,
                                    EngineCommand command = run_engine_command);

}  // namespace longhaul::control

// Slurm. A job that must survive the loss of a node has more nodes than it needs and was submitted with
// --no-kill (deploy/slurm.sh): the replacement of a failed machine is another one of the same allocation, on
// which srun starts a new step. The forms of the commands are those of their man pages.
#include <algorithm>
#include <sstream>

#include "control/engines/engine_parts.h"

namespace longhaul::control {
namespace {

class Slurm final : public PlainEngine {
 public:
  Slurm(Environment environment, EngineCommand command)
      : PlainEngine("Slurm", std::move(environment)), command_(std::move(command)) {}

  Discovery discover() const override {
    Discovery found = PlainEngine::discover();
    found.run_id = job();
    found.restarts = std::strtoll(text("SLURM_RESTART_COUNT").c_str(), nullptr, 10);
    if (const std::string nodes = text("SLURM_JOB_NODELIST"); !nodes.empty()) found.hosts = hosts_in(nodes);
    return found;
  }

  // Slurm sets the end of the job in its environment; where it does not (before 22.05), squeue gives the
  // remaining seconds.
  std::optional<double> deadline() const override {
    if (const auto own = PlainEngine::deadline()) return own;
    return seconds("SLURM_JOB_END_TIME");
  }

  // A node of the allocation whose daemon answers. The caller knows which of them have ranks: they are in
  // `exclude`.
  std::optional<std::string> request_node(const std::vector<std::string>& exclude) override {
    const std::string nodes = text("SLURM_JOB_NODELIST");
    if (nodes.empty()) return std::nullopt;
    std::istringstream lines(
        output_of(command_, {"sinfo", "--noheader", "--Node", "--nodes=" + nodes, "--format=%N %t"},
                  "say how its nodes are"));
    std::string host, state;
    std::vector<std::string> usable;
    while (lines >> host >> state) {
      // "alloc", "mix", "idle", "comp" (its last step is ending); a * says that it does not answer.
      const bool answers = state == "alloc" || state == "mix" || state == "idle" || state == "comp";
      if (answers && std::find(exclude.begin(), exclude.end(), host) == exclude.end()) usable.push_back(host);
    }
    for (const std::string& mine : hosts_in(nodes)) {
      if (std::find(usable.begin(), usable.end(), mine) != usable.end()) return mine;
    }
    return std::nullopt;
  }

  // The time for srun and the daemon's start, if the allocation has a spare node.
  double replacement_s() const override { return text("SLURM_JOB_NODELIST").empty() ? 0 : 60; }

  // A step in addition to the one that may run there: --overlap, and without the allocation's other nodes.
  std::vector<std::string> words_to_start_on(const std::string& host,
                                             std::vector<std::string> words) const override {
    std::vector<std::string> all = {"srun",      "--overlap",  "--no-kill",
                                    "--nodes=1", "--ntasks=1", "--nodelist=" + host};
    all.insert(all.end(), words.begin(), words.end());
    return all;
  }

  // Draining keeps all jobs from the machine and needs an operator's right. Without that right the machine is
  // only kept out of this job: srun --exclude, which deploy/slurm.sh takes from the run's list of blocked
  // hosts.
  std::string release_node(const std::string& host, const std::string& reason) override {
    const ProcessResult drained = command_({"scontrol", "update", "NodeName=" + host, "State=DRAIN",
                                            "Reason=longhaul job " + job() + ": " + reason});
    if (drained.status == 0 && !drained.timed_out)
      return host + " is drained: no job is placed on it until an operator resumes it";
    return host + " stays in the job and is not used: draining it is an operator's right here";
  }

  std::string requeue() override {
    output_of(command_, {"scontrol", "requeue", job()}, "queue the job again");
    return "job " + job() + " is in the queue again";
  }

 private:
  std::string job() const { return text("SLURM_JOB_ID"); }
  EngineCommand command_;
};

}  // namespace

std::unique_ptr<Engine> make_slurm(Environment environment, EngineCommand command) {
  return std::make_unique<Slurm>(std::move(environment), std::move(command));
}

}  // namespace longhaul::control

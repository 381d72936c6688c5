// Kubernetes: pods of a JobSet or of Kubeflow's PyTorchJob. Their controllers restart a pod by themselves
// wherever there is room; this adapter keeps it off the failed machine by a taint on that node, and then
// deletes the pod. A host is named after its pod, since each pod has a host name of its own. Needed rights:
// get pods, delete pods, get and patch nodes (deploy/kubernetes-rights.yaml).
#include "base/error.h"
#include "control/engines/engine_parts.h"

namespace longhaul::control {
namespace {

constexpr const char* kTaint = "longhaul/blocked";

// Names in Kubernetes are letters, digits, dashes and dots: anything else is no host of ours, and must not
// become an option of kubectl.
void require_name_of_pod(const std::string& host) {
  const bool good = !host.empty() && host.size() < 254 && host.front() != '-' &&
                    host.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789.-") == std::string::npos;
  if (!good)
    throw Error(
        {.code = ExitCode::kUsage, .what = "not the name of a pod", .found = fmt::format("'{}'", host)});
}

class Kubernetes final : public PlainEngine {
 public:
  Kubernetes(std::string name, Environment environment, EngineCommand command)
      : PlainEngine(std::move(name), std::move(environment)), command_(std::move(command)) {}

  Discovery discover() const override {
    Discovery found = PlainEngine::discover();
    found.run_id = !text("JOBSET_NAME").empty() ? text("JOBSET_NAME") : text("PET_RDZV_ID");
    found.restarts = std::strtoll(text("JOBSET_RESTART_ATTEMPT").c_str(), nullptr, 10);
    return found;
  }

  std::string release_node(const std::string& host, const std::string& reason) override {
    require_name_of_pod(host);
    const std::string node =
        output_of(command_, in_namespace({"get", "pod", host, "--output=jsonpath={.spec.nodeName}"}),
                  "name the node of " + host);
    if (node.empty()) {
      throw Error({.code = ExitCode::kCommunication,
                   .what = "the pod is on no node",
                   .expected = "a pod that runs",
                   .found = host});
    }
    output_of(command_,
              {"kubectl", "taint", "nodes", node, fmt::format("{}=true:NoSchedule", kTaint), "--overwrite"},
              "keep pods from " + node);
    output_of(command_,
              {"kubectl", "annotate", "nodes", node, fmt::format("{}={}", kTaint, reason), "--overwrite"},
              "note why");
    output_of(command_, in_namespace({"delete", "pod", host, "--wait=false"}), "delete the pod " + host);
    return fmt::format(
        "node {} gets no pod until its taint {} is removed, and the pod {} comes again elsewhere", node,
        kTaint, host);
  }

  // The time for scheduling, and for pulling an image on a node that does not have it.
  double replacement_s() const override { return 300; }

  // Both controllers count failures: JobSet restarts all its jobs up to failurePolicy.maxRestarts, the
  // Training Operator a pod up to backoffLimit.
  std::string requeue() override {
    return name() + " starts the pods again when this one ends with a code that its manifest counts";
  }

 private:
  std::vector<std::string> in_namespace(std::vector<std::string> words) const {
    words.insert(words.begin(), "kubectl");
    if (const std::string own = text("POD_NAMESPACE"); !own.empty()) words.push_back("--namespace=" + own);
    return words;
  }
  EngineCommand command_;
};

}  // namespace

std::unique_ptr<Engine> make_kubernetes(std::string name, Environment environment, EngineCommand command) {
  return std::make_unique<Kubernetes>(std::move(name), std::move(environment), std::move(command));
}

}  // namespace longhaul::control

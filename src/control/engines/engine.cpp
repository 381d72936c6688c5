#include "control/engines/engine.h"

#include <cmath>

#include "base/error.h"
#include "base/text/number.h"
#include "base/text/text.h"
#include "control/engines/engine_parts.h"

namespace longhaul::control {
namespace {

constexpr double kEnginePatience_s = 60;

// torchrun and Ray Train start all processes of the job again when one fails, up to their own number of
// times.
class Launcher final : public PlainEngine {
 public:
  using PlainEngine::PlainEngine;
  Discovery discover() const override {
    Discovery found = PlainEngine::discover();
    found.run_id = name() == "torchrun" ? text("TORCHELASTIC_RUN_ID") : text("RAY_JOB_ID");
    found.restarts = std::strtoll(text("TORCHELASTIC_RESTART_COUNT").c_str(), nullptr, 10);
    return found;
  }
  std::string requeue() override {
    return name() + " starts the job again when this process ends with an error";
  }
  bool restarts_in_place() const override { return false; }
};

}  // namespace

ProcessResult run_engine_command(const std::vector<std::string>& words) {
  return run_process(words, {}, kEnginePatience_s);
}

std::string output_of(const EngineCommand& command, const std::vector<std::string>& words,
                      const std::string& purpose) {
  const ProcessResult result = command(words);
  if (result.status == 0 && !result.timed_out) {
    std::string output = result.output;
    while (!output.empty() && (output.back() == '\n' || output.back() == ' ')) output.pop_back();
    return output;
  }
  std::string typed;
  for (const std::string& word : words) typed += (typed.empty() ? "" : " ") + shell_quoted(word);
  throw Error({.code = ExitCode::kCommunication,
               .what = "the engine did not " + purpose,
               .expected = fmt::format("exit status 0 within {:.0f} seconds", kEnginePatience_s),
               .found = result.timed_out
                            ? "no end"
                            : fmt::format("{}: {}", result.status, brief(printable(result.errors), 200)),
               .where = typed,
               .hint = "type the same command by hand: rights, and the name of the machine, are what it "
                       "lacks most often"});
}

Discovery PlainEngine::discover() const { return {.place = find_place(environment_)}; }

std::optional<double> PlainEngine::seconds(const std::string& variable_name) const {
  const std::string typed = text(variable_name);
  if (typed.empty()) return std::nullopt;
  const std::optional<double> value = parse_number<double>(typed);
  if (value && std::isfinite(*value) && *value > 0) return value;
  throw Error(
      {.code = ExitCode::kUsage,
       .what = "the environment does not say when the job will be ended",
       .expected = "Unix seconds",
       .found = variable_name + "=" + brief(printable(typed)),
       .where = "the environment",
       .hint = "unset " + variable_name + ", or: export " + variable_name + "=$(date -d '+2 hours' +%s)"});
}

std::optional<double> PlainEngine::deadline() const { return seconds("LONGHAUL_DEADLINE"); }

std::string PlainEngine::release_node(const std::string& host, const std::string&) {
  return host + " is left alone: " +
         (name_ == "alone" ? "no engine was asked for it" : name_ + " takes no machine back");
}

std::string PlainEngine::requeue() { return "nobody queues this job again"; }

std::unique_ptr<Engine> make_launcher(std::string name, Environment environment) {
  return std::make_unique<Launcher>(std::move(name), std::move(environment));
}

std::unique_ptr<Engine> find_engine(const Environment& environment, EngineCommand command) {
  const std::string placed_by = find_place(environment).engine;
  if (placed_by == "torchrun" || placed_by == "Ray") return make_launcher(placed_by, environment);
  if (placed_by == "Kubeflow" || placed_by == "JobSet")
    return make_kubernetes(placed_by, environment, std::move(command));
  if (environment("SLURM_JOB_ID")) return make_slurm(environment, std::move(command));
  if (environment("KUBERNETES_SERVICE_HOST")) {
    return make_kubernetes(environment("PET_NNODES") ? "Kubeflow" : "JobSet", environment,
                           std::move(command));
  }
  return std::make_unique<PlainEngine>(placed_by, environment);
}

}  // namespace longhaul::control

// The parts that the adapters of engines (engine.h) share, and the functions that make the adapters.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "control/engines/engine.h"

namespace longhaul::control {

// PlainEngine: an engine that owns its processes, or no engine at all. It fulfils no requests.
class PlainEngine : public Engine {
 public:
  PlainEngine(std::string name, Environment environment)
      : name_(std::move(name)), environment_(std::move(environment)) {}
  std::string name() const override { return name_; }
  Discovery discover() const override;
  std::optional<double> deadline() const override;  // LONGHAUL_DEADLINE
  std::optional<std::string> request_node(const std::vector<std::string>&) override { return std::nullopt; }
  std::vector<std::string> words_to_start_on(const std::string&, std::vector<std::string>) const override {
    return {};
  }
  std::string release_node(const std::string& host, const std::string& reason) override;
  double replacement_s() const override { return 0; }
  std::string requeue() override;
  bool restarts_in_place() const override { return true; }

 protected:
  std::string text(const std::string& variable_name) const {
    return environment_(variable_name).value_or("");
  }
  // Unix seconds; kUsage where the value is no number
  std::optional<double> seconds(const std::string& variable_name) const;

 private:
  std::string name_;
  Environment environment_;
};

// Returns the standard output of the command. Error 69 with the engine's message where the command fails.
std::string output_of(const EngineCommand& command, const std::vector<std::string>& words,
                      const std::string& purpose);

std::unique_ptr<Engine> make_slurm(Environment environment, EngineCommand command);
std::unique_ptr<Engine> make_kubernetes(std::string name, Environment environment, EngineCommand command);
// Torchrun and Ray own their processes.
std::unique_ptr<Engine> make_launcher(std::string name, Environment environment);

}  // namespace longhaul::control

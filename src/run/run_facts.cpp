#include "run/run_facts.h"

#include <fmt/format.h>

#include "base/checksum.h"
#include "base/machine/energy_meter.h"
#include "base/machine/machine.h"
#include "base/text/text.h"
#include "base/threads/parallel.h"
#include "base/version.h"
#include "layout/parameters.h"
#include "observe/table.h"
#include "optim/schedule.h"
#include "recipe/write.h"
#include "run/memory.h"
#include "tensor/libtorch_folder.h"

namespace longhaul::run {

std::string_view RunFacts::dtype() const { return recipe::name_of_value(recipe.recipe.train.dtype); }

int64_t RunFacts::training_tokens() const {
  int64_t tokens = 0;
  for (const auto& source : data.sources) tokens += source.train.tokens();
  return tokens;
}

observe::RunStart run_start(const RunFacts& facts) {
  const auto& recipe = facts.recipe.recipe;
  const Machine& here = machine();
  int64_t parameters = 0, per_token = 0;
  for (const layout::ParameterSpec& spec : facts.model.parameters()) {
    parameters += spec.elements();
    per_token += facts.model.activated_elements(spec);
  }
  observe::RunStart start{.name = facts.run_folder.filename().string(),
                          .version = build_version().version,
                          .commit = build_version().commit,
                          .compiler = build_version().compiler,
                          .libtorch = libtorch_version(),
                          .host = here.host,
                          .operating_system = here.operating_system,
                          .processor = here.processor,
                          .cpu_features = here.features,
                          .device = name_of(facts.device),
                          .dtype = std::string(facts.dtype()),
                          .threads = threads(),
                          .seed = recipe.train.seed,
                          .world_size = facts.world(),
                          .recipe_hash = sha256_hex(recipe::to_toml(facts.recipe)).substr(0, 16),
                          .model = facts.model.name(),
                          .parameters = parameters,
                          .parameters_per_token = per_token,
                          .steps = recipe.train.steps,
                          .tokens_per_step = recipe.train.tokens_per_step(),
                          .sequence = recipe.train.sequence,
                          .vocabulary = facts.model.vocabulary()};
  start.flops_per_token = facts.flops.causal();
  start.flops_per_token_full_attention = facts.flops.full();
  if (const double peak = facts.peak_flops_per_second(); peak > 0) start.peak_flops_per_second = peak;
  int64_t bytes = 0, held_out = 0;
  for (const auto& source : facts.data.sources) {
    bytes += source.train.text_bytes();
    held_out += source.held_out.text_bytes();
  }
  start.training_tokens = facts.training_tokens();
  start.training_bytes = bytes;
  start.heldout_bytes = held_out;
  start.memory_bytes = here.memory_bytes;
  start.cores = here.cores;
  if (const EnergyMeter meter; meter.any())
    start.energy_meters = fmt::format("{}", fmt::join(meter.sources(), ", "));
  start.planned_memory_bytes = plan::whole_bytes(facts.memory.peak());
  return start;
}

namespace {

// Empty: the run has one stage.
std::string stages_of(const optim::TrainSchedule& schedule, bool colours) {
  if (schedule.stages().size() == 1) return "";
  std::vector<observe::TrainingStage> stages;
  for (const optim::StageState& each : schedule.stages())
    stages.push_back({each.first_step, each.first_token, each.batch, each.sequence, each.peak_lr});
  return observe::stage_table(stages).text(colours) + "\n";
}

}  // namespace

std::string tables_of(const RunFacts& facts, double epochs, bool colours) {
  const auto& recipe = facts.recipe.recipe;
  std::map<std::string, observe::ParameterGroup> groups;
  for (const auto& spec : facts.model.parameters()) {
    const std::string name = !spec.set.empty()  ? spec.set
                             : spec.expert >= 0 ? "experts"
                             : spec.layer < 0   ? spec.tensor.name.substr(0, spec.tensor.name.find('.'))
                                                : "layers, other";
    auto& group = groups[name];
    group.name = name;
    ++group.tensors;
    group.values += spec.elements();
    group.frozen += spec.frozen ? spec.elements() : 0;
    group.values_per_token += facts.model.activated_elements(spec);
  }
  std::vector<observe::ParameterGroup> rows;
  for (const auto& [name, group] : groups) rows.push_back(group);

  std::vector<observe::DataPart> parts;
  for (const data::DataPart& part : data::parts_of(facts.data.sources))
    parts.push_back({part.name, part.documents, part.bytes, part.tokens});
  parts[0].epochs = epochs;
  const plan::DecodingState state = facts.model.decoding_state();
  const std::string moment =
      facts.memory.fullest().name + (facts.world() == 1 ? ""
                                     : facts.processes > 1
                                         ? "; of rank 0"
                                         : fmt::format("; {} together", counted(facts.world(), "rank")));
  const optim::TrainSchedule schedule(recipe.optim, recipe.train);
  return fmt::format(
      "{}\n{}\n{}\n{}{}\n", observe::parameter_table(rows).text(colours),
      observe::memory_table(planned_memory(facts.memory), moment, facts.free_bytes).text(colours),
      observe::data_table(parts).text(colours), stages_of(schedule, colours),
      observe::work_table({.flops_per_token = facts.flops.causal(),
                           .flops_per_token_full_attention = facts.flops.full(),
                           .tokens_per_step = recipe.train.tokens_per_step(),
                           .steps = schedule.stages().size() == 1 ? recipe.train.steps : 0,
                           .peak_flops_per_second = facts.peak_flops_per_second(),
                           .peak_measured_at = facts.peak.profile.measured_at,
                           .decoding_bytes = state.bytes,
                           .decoding_bytes_per_token = state.bytes_per_token})
          .text(colours));
}

nlohmann::json environment_of(int64_t seed, at::Device device) {
  const Machine& here = machine();
  const BuildVersion& build = build_version();
  return {{"version", build.version},
          {"commit", build.commit},
          {"compiler", build.compiler},
          {"libtorch", libtorch_version()},
          {"host", here.host},
          {"processor", here.processor},
          {"cpu_features", here.features},
          {"threads", threads()},
          {"seed", seed},
          {"operating_system", here.operating_system},
          {"device", device.is_cuda() ? fmt::format("{} {}", name_of(device), describe_gpu(device).name)
                                      : name_of(device)}};
}

}  // namespace longhaul::run

#include "cli/models/spike_report.h"

#include <fmt/format.h>

#include <algorithm>

namespace longhaul::cli {
namespace {

using kernels::SpikeSums;

constexpr size_t kMatricesShown = 3;  // the busiest, in the text

nlohmann::ordered_json sums_json(const SpikeSums& sums) {
  return {{"counts", sums.counts},
          {"silent_share", sums.silent_share()},
          {"mean_spikes", sums.mean_spikes()},
          {"mean_spikes_of_firing", sums.mean_spikes_of_firing()},
          {"sparsity", sums.sparsity()},
          {"sparsity_of_firing", sums.sparsity_of_firing()},
          {"sparsity_of_trains", sums.sparsity_of_trains()},
          {"up_to_7", sums.up_to(7)},
          {"above_16", 1 - sums.up_to(16)},
          {"largest", sums.largest},
          {"channels", sums.channels},
          {"channels_never_fired", sums.never_fired}};
}

}  // namespace

nlohmann::ordered_json spikes_json(const kernels::SpikeStatistics& statistics, double k) {
  const SpikeSums all = statistics.total();
  const kernels::SpikeEnergy energy = kernels::energy_of(all);
  nlohmann::ordered_json json{{"k", k}, {"coding", kernels::name_of(statistics.coding())}};
  json.update(sums_json(all));
  json["histogram"] = all.sizes;
  json["energy_model"] = {{"what", "picojoules of one weight's use, 45 nm, without memory and control"},
                          {"fp16_product", kernels::SpikeEnergy::kFp16Product},
                          {"int8_product", kernels::SpikeEnergy::kInt8Product},
                          {"spiking", energy.spiking},
                          {"over_fp16", energy.over_fp16()},
                          {"over_int8", energy.over_int8()}};
  for (const auto& [name, sums] : statistics.of_matrices()) json["matrices"][name] = sums_json(sums);
  return json;
}

std::string spikes_text(const kernels::SpikeStatistics& statistics, double k) {
  const SpikeSums all = statistics.total();
  const kernels::SpikeEnergy energy = kernels::energy_of(all);
  std::string text = fmt::format(
      "spikes ({}, k = {:g}): {:.2f} of a count, {:.2f} of one that fires; {:.1f} % of counts are silent, "
      "{:.1f} % at most 7, {:.2f} % above 16, the largest {:.0f}\n"
      "  sparsity over three steps: {:.1f} % of all counts, {:.1f} % of those that fire; of the trains "
      "themselves {:.1f} %\n"
      "  {} of {} channels never fired\n"
      "  a model of energy, without memory and control: {:.3f} pJ for a weight's use, 1/{:.1f} of an fp16 "
      "product, 1/{:.2f} of an int8 one\n",
      kernels::name_of(statistics.coding()), k, all.mean_spikes(), all.mean_spikes_of_firing(),
      100 * all.silent_share(), 100 * all.up_to(7), 100 * (1 - all.up_to(16)), all.largest,
      100 * all.sparsity(), 100 * all.sparsity_of_firing(), 100 * all.sparsity_of_trains(), all.never_fired,
      all.channels, energy.spiking, energy.over_fp16(), energy.over_int8());
  auto matrices = statistics.of_matrices();
  std::ranges::stable_sort(matrices, std::ranges::greater{},
                           [](const auto& matrix) { return matrix.second.mean_spikes(); });
  text += "  busiest:";
  for (size_t i = 0; i < std::min(kMatricesShown, matrices.size()); ++i)
    text +=
        fmt::format("{} {} {:.2f}", i == 0 ? "" : ",", matrices[i].first, matrices[i].second.mean_spikes());
  return text + "\n";
}

}  // namespace longhaul::cli

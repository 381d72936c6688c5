#include "cli/models/write_spike_raster.h"

#include <fmt/format.h>

#include "base/error.h"
#include "base/files/file.h"
#include "base/log.h"
#include "base/text/text.h"
#include "model/spiking_product.h"
#include "observe/charts/spike_raster.h"

namespace longhaul::cli {
namespace {

// A panel of counts [tokens, channels]: each token takes the steps that its own counts need.
observe::SpikePanel panel_of(const std::string& name, const Tensor& counts, kernels::Coding coding,
                             const std::vector<std::string>& tokens) {
  observe::SpikePanel panel{
      .name = name, .channels = counts.size(1), .steps = {}, .tokens = {}, .spikes = {}};
  int64_t column = 0;
  for (int64_t t = 0; t < counts.size(0); ++t) {
    const Tensor spikes =
        kernels::encode(counts.narrow(0, t, 1), coding).spike_stc.squeeze(1);  // [steps, channels]
    const Tensor places = spikes.nonzero();
    for (int64_t i = 0; i < places.size(0); ++i) {
      const int64_t step = places[i][0].item<int64_t>(), channel = places[i][1].item<int64_t>();
      panel.spikes.push_back({column + step, channel, spikes[step][channel].item<int>()});
    }
    panel.steps.push_back(spikes.size(0));
    const auto token = static_cast<size_t>(t);
    panel.tokens.push_back(token < tokens.size() ? printable(tokens[token]) : "");
    column += spikes.size(0);
  }
  return panel;
}

}  // namespace

std::shared_ptr<kernels::SpikeStatistics> keep_spikes(const checkpoint::OpenModel& model,
                                                      const std::string& part) {
  model::Spiking* const spiking = model.decoder->spiking().get();
  if (spiking == nullptr) {
    throw Error({.code = ExitCode::kUsage,
                 .what = "a model that reads numbers has no spikes to draw",
                 .expected = "--spikes, or a model that was trained with [spikes]",
                 .found = "neither",
                 .where = "--spike-raster",
                 .hint = "add --spikes"});
  }
  auto statistics = model::gather_statistics(*spiking);
  statistics->keep(part, kRasterTokens, kRasterChannels);
  return statistics;
}

void write_spike_raster(const kernels::SpikeStatistics& statistics, const std::string& title,
                        const std::vector<std::string>& tokens, const std::string& file) {
  std::vector<observe::SpikePanel> panels;
  for (const auto& [name, counts] : statistics.kept())
    panels.push_back(panel_of(name, counts, statistics.coding(), tokens));
  if (panels.empty()) {
    std::string names;
    for (const auto& [name, sums] : statistics.of_matrices()) names += (names.empty() ? "" : ", ") + name;
    throw Error({.code = ExitCode::kUsage,
                 .what = "no matrix that reads spikes has such a name",
                 .expected = fmt::format("a part of one of {}", names),
                 .found = "none of them",
                 .where = "--spike-raster-of",
                 .hint = "--spike-raster-of layers.0."});
  }
  write_text_atomically(file, observe::spike_raster_svg(title, panels));
  log_info("{}: the spikes of {} for the first {} tokens", file,
           counted(std::ssize(panels), "matrix", "matrices"), panels[0].steps.size());
}

}  // namespace longhaul::cli

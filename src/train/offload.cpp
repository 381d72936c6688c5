#include "train/offload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/files/file.h"
#include "base/log.h"
#include "base/machine/machine.h"
#include "base/progress.h"
#include "base/text/path_text.h"
#include "kernels/saved/file_offload.h"
#include "model/arena.h"
#include "observe/events/machine_metrics.h"
#include "plan/offload_split.h"
#include "tensor/device.h"

namespace longhaul::train {
namespace {

// Of the memory that the host has free when a run starts, for all ranks of the machine together.
constexpr double kHostShare = 0.8;

int64_t host_room(at::Device device) {
  const double free = kHostShare * static_cast<double>(available_memory_bytes());
  return static_cast<int64_t>(free /
                              static_cast<double>(device.is_cuda() ? std::max<int64_t>(1, gpu_count()) : 1));
}

// train.offload_share = auto: the first pass warms up, the second is measured, and the third has its shares.
void choose_shares(kernels::HostOffload& offload, double room_bytes, int64_t pass) {
  offload.when_measured(
      [&offload, room_bytes, pass](const std::vector<kernels::LayerUse>& uses, double rate) {
        if (pass == 0) return choose_shares(offload, room_bytes, pass + 1);
        if (rate <= 0) return;  // all of them stay
        std::vector<plan::OffloadedLayer> layers;
        for (const kernels::LayerUse& use : uses) {
          layers.push_back({.moved = !use.stays,
                            .whole_bytes = static_cast<double>(use.whole_bytes),
                            .row_bytes = static_cast<double>(use.row_bytes),
                            .seconds = use.seconds,
                            .row_seconds = use.row_seconds});
        }
        const plan::OffloadSplit split = plan::split_offload(layers, rate, room_bytes);
        std::unordered_map<int64_t, double> shares;
        for (size_t i = 0; i < uses.size(); ++i) shares[uses[i].layer] = split.shares[i];
        offload.set_shares(std::move(shares));
        log_info("train.offload_share = auto, at {}/s to the host: {}",
                 bytes_text(static_cast<int64_t>(rate)), plan::text_of(layers, split, uses.front().layer));
        if (split.missing_bytes > 0)
          log_warning(
              "the host has {} too little for the layers' inputs and their mixers' results alone: what "
              "has no room stays on the device",
              bytes_text(static_cast<int64_t>(split.missing_bytes)));
        if (split.stall_s > 0)
          log_warning(
              "copies do not hide: each forward pass waits {:.3f} s for the layers' inputs and their "
              "mixers' results alone; train.recompute=full without train.offload moves nothing",
              split.stall_s);
      });
}

}  // namespace

std::unique_ptr<kernels::HostOffload> make_host_offload(const std::string& share,
                                                        kernels::HostOffloadOptions options) {
  const std::optional<double> given = recipe::parse_offload_share(share);
  options.share = given.value_or(0);
  options.room_bytes = std::min(options.room_bytes, host_room(options.device));
  auto offload = std::make_unique<kernels::HostOffload>(options);
  double room = static_cast<double>(options.room_bytes);
  if (!options.file_folder.empty()) room += static_cast<double>(free_disk_bytes(options.file_folder));
  if (!given) choose_shares(*offload, room, 0);
  return offload;
}

std::unique_ptr<kernels::SavedTensors> make_offload(const recipe::TrainOptions& train,
                                                    const std::filesystem::path& cache,
                                                    const model::ParameterSet& parameters,
                                                    int64_t least_bytes) {
  if (train.offload == recipe::Offload::kNone) return nullptr;
  std::vector<Tensor> weights;
  for (const auto& arena : parameters.arenas()) weights.push_back(arena->values);
  const std::filesystem::path folder =
      train.offload_folder.empty() ? cache : path_of_text(train.offload_folder);
  if (train.offload == recipe::Offload::kHost) {
    kernels::HostOffloadOptions options{
        .device = parameters.device(), .least_bytes = least_bytes, .stays = std::move(weights)};
    if (train.offload_memory > 0) {
      make_folders(folder);
      options.room_bytes = train.offload_memory;
      options.file_folder = folder;
    }
    return make_host_offload(train.offload_share, options);
  }
  make_folders(folder);
  return std::make_unique<kernels::FileOffload>(folder, least_bytes, weights);
}

std::map<std::string, Metric> offload_metrics(kernels::SavedTensors* offload, int64_t layers) {
  auto* const host = dynamic_cast<kernels::HostOffload*>(offload);
  if (host == nullptr) return {};
  const kernels::HostOffload::Use use = host->use_since_last();
  const auto bytes = [](int64_t count) { return Metric{static_cast<double>(count), 1}; };
  std::map<std::string, Metric> metrics = {{"offload/waited_seconds", {use.waited_s, 1}},
                                           {"offload/moved_bytes", bytes(use.moved_bytes)},
                                           {"offload/file_bytes", bytes(use.file_bytes)},
                                           {"offload/stayed_bytes", bytes(use.stayed_bytes)},
                                           {"offload/host_bytes", bytes(use.room_bytes)}};
  // Ranks of a pipeline name the layers of all, and weigh their own.
  for (int64_t layer = 0; layer < layers; ++layer) {
    const auto share = host->shares().find(layer);
    metrics[fmt::format("{}{}", observe::kShareOfLayer, layer)] =
        share != host->shares().end() ? Metric{share->second, 1} : Metric{};
  }
  return metrics;
}

}  // namespace longhaul::train

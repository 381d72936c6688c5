// HostOffload: the host's memory as a second tier for what layers keep from their forward to their backward
// pass (the swapping half of MEMO, arXiv 2407.12117). Copies run while the device computes: each layer's
// tensors leave it as soon as they are made, and come back while the layer behind it runs backward. Of the
// products of a layer that runs again (recomputed.h) a share of the rows is kept and goes with them; the
// other rows are made again. On the CPU both tiers are memory, and the copies are a thread's: it shows on one
// machine what a GPU does, and saves no memory of that machine.
//
//   HostOffload offload({.device = device, .room_bytes = room, .share = 0.3});
//   const SavedTensorsScope scope(&offload);
//   for (layer …) { offload.begin_layer(layer, layer + 2 >= layers); … }
//
// Before a layer begins, the copies of the layer two before it are waited for, so that the memory of at most
// that many layers is on its way. Room in the host's memory is taken once and used again for data of about
// the same size; where there is no room left, a tensor stays on the device, which is counted and said once.
// The share may be one number or one for each layer, and may change at any time: no bit depends on it.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "kernels/saved/saved_tensors.h"
#include "tensor/copy_lane.h"

namespace longhaul::kernels {

struct HostOffloadOptions {
  at::Device device = at::kCPU;
  int64_t least_bytes = 0;         // smaller storages stay, because they are not worth a copy
  std::vector<Tensor> stays{};     // tensors whose storages others need all the time: weights
  int64_t room_bytes = INT64_MAX;  // of the host's memory
  double share = 0;                // of the rows of products, until set_shares()
  double bytes_per_second = 0;     // of each direction, on the CPU; 0: as fast as it goes
  // What the host's memory has no room for goes to a file in this folder (file_tier.h); empty: it stays.
  std::filesystem::path file_folder{};
};

// One layer of the last pass that was whole. Bytes are those that went to the host.
struct LayerUse {
  int64_t layer = 0;
  bool stays = false;
  int64_t whole_bytes = 0;  // its input and the result of its mixer
  int64_t row_bytes = 0;    // all rows of its products; a share of them is moved
  double seconds = 0;       // of its forward pass, without waiting
  double row_seconds = 0;   // of its products, which the share saves
};

class HostOffload final : public SavedTensors {
 public:
  explicit HostOffload(const HostOffloadOptions& options);
  ~HostOffload() override;

  std::shared_ptr<SavedStorage> take(const Tensor& x) override;
  std::shared_ptr<SavedStorage> take_rows(const Tensor& x) override;
  void begin_layer(int64_t layer, bool stays) override;
  double row_share() const override;
  at::Device device() const override { return options_.device; }
  void rows_made(int64_t bytes, Event begun, Event ended) override;

  // Of each layer by its number, from its next pass on; others have the share of the options.
  void set_shares(std::unordered_map<int64_t, double> shares) { shares_ = std::move(shares); }
  // Called when the forward pass of the layers is over once more, before the next one begins.
  void when_measured(std::function<void(const std::vector<LayerUse>&, double bytes_per_second)> tell) {
    tell_ = std::move(tell);
  }

  struct Use {
    int64_t moved_bytes = 0, fetched_bytes = 0;  // so far, there and back
    int64_t stayed_bytes = 0;                    // for which there was no room
    int64_t room_bytes = 0;                      // taken of the host's memory
    int64_t file_bytes = 0;                      // of moved_bytes, to the file
    int64_t file_length = 0;                     // of the file, at its longest
    double waited_s = 0;                         // for copies, by the thread of the passes
  };
  Use use() const;
  Use use_since_last();  // of what grows: since the last call
  // The shares that were set, of each layer by its number.
  const std::unordered_map<int64_t, double>& shares() const { return shares_; }

  struct State;  // what outlives it in tensors that are still kept

 private:
  struct Measured;
  std::shared_ptr<SavedStorage> moved(const Tensor& bytes, bool rows);
  std::shared_ptr<SavedStorage> moved_to_file(const Tensor& bytes, std::shared_ptr<Copy>& copy);
  void end_layer();

  struct Known {
    SeenStorage seen;
    std::weak_ptr<SavedStorage> storage;
  };
  HostOffloadOptions options_;
  std::unordered_map<int64_t, double> shares_;
  std::unordered_set<const void*> stays_;         // StorageImpl
  std::unordered_map<const void*, Known> known_;  // likewise
  std::function<void(const std::vector<LayerUse>&, double)> tell_;
  std::shared_ptr<State> state_;
  std::unique_ptr<Measured> measured_;
  Use told_{};
};

}  // namespace longhaul::kernels

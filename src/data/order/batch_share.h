// BatchShare: loaders of one machine that want the same rows of a step (tensor, pipeline and context ranks of a replica do) read them once: whoever
// asks first makes the batch, the others get what it has made. MegaScale (arXiv 2402.15627, §3.4) calls the other way redundant loaders.
//
// Each of the `readers` asks once for every batch, in any order; then it is let go of. Nothing is agreed on beforehand, so a reader that leaves
// does not keep the others waiting; what it alone would have made, another one makes.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "data/order/batch.h"

namespace longhaul::data {

class BatchShare {
 public:
  virtual ~BatchShare() = default;
  // Rows first … first + rows of the run's order, as `make` makes them. Any thread. What `make` throws, all get.
  virtual Batch get(int64_t first, int64_t rows, const std::function<Batch()>& make) = 0;
};

// Between threads of this process.
std::shared_ptr<BatchShare> share_between_threads(int64_t readers);

// Between processes that see the same folder, in memory (base/memory/shared_memory.h).
std::shared_ptr<BatchShare> share_in_folder(const std::filesystem::path& folder, int64_t readers, double patience_seconds = 20);

std::string to_bytes(const Batch& batch);
Batch batch_from_bytes(std::string_view bytes);  // kData where it is not whole

}  // namespace longhaul::data

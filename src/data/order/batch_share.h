// BatchShare: loaders on one machine that need the same rows of a step (as tensor, pipeline and context ranks
// of a replica do) read them only once: the first one that asks makes the batch, and the others get it.
// MegaScale (arXiv 2402.15627, §3.4) calls the alternative redundant loaders.
//
// Each of the `readers` asks once for every batch, in any order; then the batch is released. Nothing is
// agreed on beforehand, so a reader that leaves does not delay the others; a batch that it would have made is
// made by another.
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
  // Rows first … first + rows of the run's order, made by `make`. Thread-safe. If `make` throws, all readers
  // get the exception.
  virtual Batch get(int64_t first, int64_t rows, const std::function<Batch()>& make) = 0;
};

// Between threads of this process.
std::shared_ptr<BatchShare> share_between_threads(int64_t readers);

// Between processes that see the same folder, in memory (base/memory/shared_memory.h).
std::shared_ptr<BatchShare> share_in_folder(const std::filesystem::path& folder, int64_t readers,
                                            double patience_seconds = 20);

std::string to_bytes(const Batch& batch);
Batch batch_from_bytes(std::string_view bytes);  // kData where the bytes are incomplete

}  // namespace longhaul::data

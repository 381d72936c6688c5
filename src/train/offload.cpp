#include "train/offload.h"

#include "base/files/file.h"
#include "base/text/path_text.h"
#include "model/arena.h"

namespace longhaul::train {

std::unique_ptr<kernels::FileOffload> make_offload(const recipe::TrainOptions& train,
                                                   const std::filesystem::path& cache,
                                                   const model::ParameterSet& parameters,
                                                   int64_t least_bytes) {
  if (train.offload == recipe::Offload::kNone) return nullptr;
  const std::filesystem::path folder =
      train.offload_folder.empty() ? cache : path_of_text(train.offload_folder);
  make_folders(folder);
  std::vector<Tensor> weights;
  for (const auto& arena : parameters.arenas()) weights.push_back(arena->values);
  return std::make_unique<kernels::FileOffload>(folder, least_bytes, weights);
}

}  // namespace longhaul::train

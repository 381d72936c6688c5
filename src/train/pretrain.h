// Pretrain: next-token prediction on the corpus of [data], judged in bits per byte on the documents held out.
#pragma once

#include <memory>

#include "data/evaluation.h"
#include "data/loader.h"
#include "data/run_data.h"
#include "model/decoder.h"
#include "optim/schedule.h"
#include "recipe/recipe.h"
#include "train/task.h"

namespace longhaul::train {

class Pretrain final : public Task {
 public:
  // `data` must outlive the task. index_folder: where packing indexes are cached. Refuses (kData) a tokenizer with more entries than
  // the model has rows.
  Pretrain(const recipe::Recipe& recipe, const data::RunData& data, const std::filesystem::path& index_folder, at::Device device);

  model::ParameterSet& parameters() override { return decoder_.parameters(); }
  const Precision& precision() const override { return decoder_.precision(); }
  model::Decoder& decoder() { return decoder_; }

  StepWork prepare(int64_t step) override;
  Tensor forward(model::Context& context, int64_t micro_batch, const Tensor&) override;
  std::optional<observe::Metrics> evaluate(bool whole, const std::function<bool()>& go_on) override;
  std::optional<TaskSample> sample() override;
  nlohmann::json data_position(int64_t step) const override;
  void require_same_data(const nlohmann::json& saved, int64_t step) const override;
  double epochs_after(int64_t step) const override { return loader_.epochs_at(step); }  // the loader's next step is step + 1 of the trainer

 private:
  recipe::Recipe recipe_;
  const data::RunData& data_;
  optim::TrainSchedule schedule_;
  data::Loader loader_;
  model::Decoder decoder_;
  std::vector<data::Batch> micro_batches_;
};

}  // namespace longhaul::train

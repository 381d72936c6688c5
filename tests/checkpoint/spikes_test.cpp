// A checkpoint opened with --spikes: weights in eight bits by groups from what is stored, and what is
// refused.
#include <gmock/gmock.h>
#include <unistd.h>

#include "checkpoint/calibrated_groups.h"
#include "checkpoint/open_model.h"
#include "checkpoint/published/naming.h"
#include "kernels/spikes/calibration.h"
#include "kernels/spikes/group_weight.h"
#include "support/refused.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint {
namespace {

namespace fs = std::filesystem;
using longhaul::testing::refused;
using ::testing::HasSubstr;

class SavedForSpikes : public ::testing::Test {
 protected:
  SavedForSpikes()
      : folder_(fs::path(::testing::TempDir()) / ("longhaul-spikes-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~SavedForSpikes() override { fs::remove_all(folder_); }

  fs::path save(TinyTraining& training) {
    fs::path path;
    Saver saver(storage::local_file_system(), {.folder = folder_, .on_result = [&](const SaveResult& result) {
                                                 EXPECT_FALSE(result.failure) << result.failure->what();
                                                 path = result.path;
                                               }});
    saver.save(1, training.state(), training.manifest());
    saver.wait();
    return path;
  }
  static OpenModel open(const fs::path& path, const SpikeRequest& spikes, const std::string& dtype = "fp32",
                        const std::string& experts = "") {
    return open_model(path, dtype, at::kCPU, {.experts = experts, .spikes = spikes});
  }

  fs::path folder_;
};

TEST_F(SavedForSpikes, MatricesOfLayersAreRoundedFromWhatIsStored) {
  TinyTraining training;
  const fs::path path = save(training);
  std::map<std::string, Tensor> stored;
  for (const auto& tensor : training.tensors()) {
    if (tensor.role == kWeightRole) stored[tensor.name] = tensor.view;
  }
  for (const char* dtype : {"bf16", "fp32"}) {
    const OpenModel model = open(path, {.wanted = true}, dtype);
    const recipe::SpikeOptions& spikes = model.recipe.recipe.model.spikes;
    EXPECT_EQ(spikes.coding, recipe::SpikeCoding::kSignedBits);
    EXPECT_EQ(spikes.k, 3);
    int64_t rounded = 0;
    for (const auto& parameter : model.decoder->parameters().all()) {
      for (size_t i = 0; parameter->narrow() && i < parameter->parts.size(); ++i) {
        const auto& slice = parameter->parts[i].slice;
        const Tensor& wide = stored.at(parameter->parts[i].spec.tensor.name);
        const Tensor found = parameter->groups->wide(0).narrow(0, slice.offset[0], slice.length[0]);
        EXPECT_TRUE(found.equal(kernels::rounded_in_groups(wide.to(at::kFloat))));
        ++rounded;
      }
    }
    EXPECT_GE(rounded, 7);
  }
  EXPECT_EQ(open(path, {.wanted = true, .k = 2, .coding = "binary"}).recipe.recipe.model.spikes.k, 2);
  EXPECT_EQ(open(path, {}).decoder->spiking(), nullptr) << "off unless asked for";
}

// One matrix is rounded for inputs with these squares, from what is stored; the others stay as they were.
TEST_F(SavedForSpikes, AMatrixIsRoundedForWhatItReads) {
  TinyTraining training;
  const fs::path path = save(training);
  std::map<std::string, Tensor> stored;
  for (const auto& tensor : training.tensors()) {
    if (tensor.role == kWeightRole) stored[tensor.name] = tensor.view;
  }
  OpenModel model = open(path, {.wanted = true});
  std::map<std::string, Tensor> square_of;
  int64_t narrow = 0;
  for (const auto& parameter : model.decoder->parameters().all()) {
    if (parameter->narrow() && narrow++ == 1)
      square_of[parameter->name] = at::linspace(0, 4, parameter->groups->in(), at::kDouble).square();
  }
  ASSERT_EQ(square_of.size(), 1U);
  EXPECT_EQ(calibrate_groups(model, square_of), 1);
  bool differs = false;
  for (const auto& parameter : model.decoder->parameters().all()) {
    for (size_t i = 0; parameter->narrow() && i < parameter->parts.size(); ++i) {
      const auto& slice = parameter->parts[i].slice;
      const Tensor wide = stored.at(parameter->parts[i].spec.tensor.name).to(at::kFloat);
      const auto square = square_of.find(parameter->name);
      const Tensor seen = square == square_of.end() ? wide : kernels::clipped_by_groups(wide, square->second);
      const Tensor found = parameter->groups->wide(0).narrow(0, slice.offset[0], slice.length[0]);
      EXPECT_TRUE(found.equal(kernels::rounded_in_groups(seen))) << parameter->name;
      differs = differs || !found.equal(kernels::rounded_in_groups(wide));
    }
  }
  EXPECT_TRUE(differs);
}

// A model that was trained with spikes has them without being asked.
TEST_F(SavedForSpikes, AModelKeepsTheSpikesThatItWasTrainedWith) {
  TinyTraining training(std::vector<std::string>{"spikes.coding=ternary", "spikes.k=4"});
  const fs::path path = save(training);
  const OpenModel model = open(path, {});
  ASSERT_NE(model.decoder->spiking(), nullptr);
  EXPECT_EQ(model.decoder->spiking()->options.k, 4);
  for (const auto& parameter : model.decoder->parameters().all()) EXPECT_FALSE(parameter->narrow());
  const OpenModel whole = open(path, {.wanted = true});
  EXPECT_EQ(whole.decoder->spiking()->options.coding, recipe::SpikeCoding::kTernary);
  EXPECT_EQ(whole.decoder->spiking()->options.weights, recipe::SpikeWeights::kInt8);
}

TEST_F(SavedForSpikes, RefusesWhatCannotBe) {
  TinyTraining training;
  const fs::path path = save(training);
  EXPECT_THAT(refused([&] { open(path, {.wanted = true}, "fp64"); }), HasSubstr("--dtype fp32"));
  EXPECT_THAT(refused([&] { open(path, {.wanted = true, .k = 1000}); }), HasSubstr("at most 64"));
  EXPECT_THAT(refused([&] { open(path, {.k = 2}); }), HasSubstr("no --spikes"));
  EXPECT_THAT(refused([&] { open(path, {.wanted = true}, "fp32", "int8"); }),
              HasSubstr("leave --experts out"));
}

}  // namespace
}  // namespace longhaul::checkpoint

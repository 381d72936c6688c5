// A checkpoint opened with all linear layers in eight bits by groups: quantised from what is stored, tensor
// by tensor, and what cannot have it.
#include <gmock/gmock.h>
#include <unistd.h>

#include "checkpoint/open_model.h"
#include "checkpoint/published/naming.h"
#include "support/refused.h"
#include "tensor/cpu_allocator.h"
#include "training_for_tests.h"

namespace longhaul::checkpoint::int8_weights_test {
namespace {

namespace fs = std::filesystem;
using longhaul::testing::refused;
using ::testing::AllOf;
using ::testing::HasSubstr;

class SavedWeights : public ::testing::Test {
 protected:
  SavedWeights()
      : folder_(fs::path(::testing::TempDir()) / ("longhaul-weights-int8-" + std::to_string(::getpid()))) {
    fs::remove_all(folder_);
  }
  ~SavedWeights() override { fs::remove_all(folder_); }

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
  static OpenModel opened(const fs::path& path, const std::string& dtype, const std::string& experts = "",
                          const SpikeRequest& spikes = {}) {
    return open_model(path, dtype, at::kCPU, {.experts = experts, .weights = "int8", .spikes = spikes});
  }

  fs::path folder_;
};

TEST_F(SavedWeights, AreQuantisedFromWhatIsStored) {
  TinyTraining training({"model.experts=4", "model.experts_per_token=2", "model.hidden=144"});
  const fs::path path = save(training);
  std::map<std::string, Tensor> stored;
  for (const auto& tensor : training.tensors()) {
    if (tensor.role == kWeightRole) stored[tensor.name] = tensor.view;
  }
  for (const char* dtype : {"bf16", "fp32"}) {
    const OpenModel model = opened(path, dtype);
    int64_t quantised = 0, experts = 0;
    for (const auto& parameter : model.decoder->parameters().all()) {
      for (size_t i = 0; i < parameter->parts.size(); ++i) {
        const std::string& name = parameter->parts[i].spec.tensor.name;
        const Tensor& wide = stored.at(name);
        if (!parameter->groups) {
          EXPECT_TRUE(
              parameter->part_of(parameter->value.detach(), i).equal(wide.to(parameter->value.scalar_type())))
              << name;
          continue;
        }
        const auto& slice = parameter->parts[i].slice;
        const bool of_expert = slice.offset.size() == 3;
        const int64_t expert = of_expert ? slice.offset[0] : 0, first = slice.offset[of_expert ? 1 : 0];
        const Tensor q = parameter->groups->values(expert).narrow(0, first, wide.size(0)).to(at::kFloat);
        for (int64_t begin = 0; begin < wide.size(1); begin += 128) {
          const int64_t count = std::min<int64_t>(128, wide.size(1) - begin);
          const Tensor part = wide.narrow(1, begin, count), scale = part.abs().amax(1, true).div(127);
          EXPECT_TRUE(q.narrow(1, begin, count).equal((part / scale).round())) << name << " from " << begin;
        }
        ++quantised;
        experts += of_expert ? 1 : 0;
      }
    }
    EXPECT_EQ(experts, 4 * 3);
    EXPECT_GT(quantised, experts + 4);
  }
}

TEST_F(SavedWeights, AreNeverWideAllAtOnce) {
  install_cpu_allocator();
  fs::path path;
  const int64_t one = int64_t{128} * 1024 * 4;  // a matrix of a channel mixer in fp32
  {
    TinyTraining training({"model.layers=6", "model.hidden=128", "model.intermediate=1024"});
    path = save(training);
  }
  const int64_t before = memory_statistics().total.bytes;
  reset_memory_peaks();
  const OpenModel model = opened(path, "fp32");
  const int64_t held = memory_statistics().total.bytes - before,
                peak = memory_statistics().total.peak - before;
  EXPECT_LT(held, 9 * one) << "18 matrices of 512 KiB are 5 of them in eight bits, and what is beside them";
  EXPECT_LT(peak, held + 5 * one) << "the tensor that is being read, and what rounds it";
}

TEST_F(SavedWeights, AreRefusedWhereTheyCannotBe) {
  TinyTraining training;
  const fs::path path = save(training);
  EXPECT_THAT(refused([&] { opened(path, "fp64"); }), AllOf(HasSubstr("fp32"), HasSubstr("--dtype fp32")));
  EXPECT_THAT(refused([&] { opened(path, "", "int8"); }), HasSubstr("leave --experts out"));
  EXPECT_THAT(refused([&] { opened(path, "", "", {.wanted = true}); }), HasSubstr("leave --weights out"));
  EXPECT_THAT(refused([&] { open_model(path, "", at::kMeta, {.weights = "int8"}); }),
              HasSubstr("--device cpu"));
}

TEST_F(SavedWeights, OfAdaptersAreRefused) {
  TinyTraining training({"lora.rank=2"});
  const fs::path path = save(training);
  EXPECT_THAT(refused([&] { opened(path, ""); }), HasSubstr("checkpoint merge"));
}

}  // namespace
}  // namespace longhaul::checkpoint::int8_weights_test
